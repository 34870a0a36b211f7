"""Export: a checkpoint as one ONNX file, from pixels to the age distribution, verified against torch."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import torch
from torch import nn

from agecli.core.errors import AgecliError, InputError
from agecli.core.files import write_whole
from agecli.core.outputs import check_output
from agecli.core.seeding import generator
from agecli.images.reading import Pixels
from agecli.model.bundled import named
from agecli.model.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from agecli.model.predictors import METADATA, ONNX_BATCH, OnnxPredictor

OPSET = 17  # the oldest supported onnxruntime (1.18) runs it
TOLERANCE = 1e-4  # largest difference between the probabilities of torch and of onnxruntime
HALF_TOLERANCE = 1e-2  # the same, between weights in float32 and in float16


def export(checkpoint: str | Path, *, out: str | Path, force: bool = False) -> float:
    """Write a checkpoint as ONNX (`out` ends in .onnx), or with float16 weights (.safetensors).

    checkpoint: a file made by `agecli train`, or "default" for the bundled model;   out: the file to write.
    force: replace a file that is no exported model.
    The new file is run on random faces and compared with the checkpoint before it takes its name. It contains the
    model card: input size, age grid, alignment and calibration.

    Returns the largest absolute difference between the probabilities of both files.
    Raises InputError for a wrong file or suffix, MissingError if the checkpoint is not there, AgecliError if the
    difference exceeds the tolerance.

    Example: `agecli.export("runs/a/fold-1/best.safetensors", out="model.onnx")`
    """
    source, path = named(checkpoint, ".safetensors"), Path(out)
    loaded = load_checkpoint(source)
    if path.suffix not in (".onnx", ".safetensors"):
        raise InputError(
            f"cannot export to {path}: unknown suffix `{path.suffix}`", hint="use model.onnx or model.safetensors"
        )
    check_output(path, ["model"], [source], force)
    size = loaded.model.picture.size
    faces = generator(0, "export").integers(0, 256, (ONNX_BATCH + 1, 3, size, size), dtype=np.uint8)
    if path.suffix == ".onnx":
        return _export_onnx(loaded, path, faces)
    return _export_half(loaded, path, faces)


def _export_half(loaded: Checkpoint, path: Path, faces: Pixels) -> float:
    """A checkpoint with float16 weights. Returns the largest difference in probability on `faces`, (B, 3, H, W)."""
    pixels = torch.from_numpy(faces)
    with torch.inference_mode(), write_whole(path) as part:
        save_checkpoint(part, loaded.model, loaded.config, loaded.notes, loaded.calibration, half=True)
        difference = float((load_checkpoint(part).model(pixels) - loaded.model(pixels)).abs().max())
        _check(difference, HALF_TOLERANCE, "float16")
    return difference


def _export_onnx(loaded: Checkpoint, path: Path, faces: Pixels) -> float:
    """Backbone and forest as one graph. Returns the largest difference in probability on `faces`, (B, 3, H, W)."""
    model = loaded.model.eval()
    graph = nn.Sequential(model.network, model.forest.finished()).eval()
    with write_whole(path) as part:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch recommends its other exporter, which takes ten times as long
            torch.onnx.export(
                graph,
                (torch.from_numpy(faces[:2]),),
                str(part),
                input_names=["pixels"],
                output_names=["pmf"],
                dynamic_axes={"pixels": {0: "batch"}, "pmf": {0: "batch"}},
                opset_version=OPSET,
                dynamo=False,
                training=torch.onnx.TrainingMode.PRESERVE,  # no folded batch norm: 16-bit kernels compress in the wheel
            )
        _add_metadata(part, loaded.card.to_json())
        predictor = OnnxPredictor(part)
        with torch.inference_mode():
            expected = model(torch.from_numpy(faces)).numpy()
        batches = (1, 3, len(faces))  # below, and above, the batch size of the optimised session
        difference = max(float(np.abs(predictor.pmf(faces[:size]) - expected[:size]).max()) for size in batches)
        _check(difference, TOLERANCE, "ONNX")
    return difference


def _check(difference: float, tolerance: float, kind: str) -> None:
    """Raise AgecliError if the exported model (`kind` of file) differs from the checkpoint; NaN counts as different."""
    if not difference <= tolerance:
        raise AgecliError(
            f"the {kind} model predicts other ages than the checkpoint: probabilities differ by {difference:.2g}",
            hint="this is a bug in agecli or in torch's exporter: please report it with `agecli info`",
        )


def _add_metadata(path: Path, text: str) -> None:
    """Store the model card in an ONNX file, in place."""
    import onnx

    model = onnx.load(str(path))
    onnx.helper.set_model_props(model, {METADATA: text})
    model.producer_name = "agecli"
    onnx.save(model, str(path))
