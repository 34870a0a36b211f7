"""Exporting: a trained model as one ONNX graph, from pixels to the age distribution, checked against torch."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import torch
from torch import nn

from agecli.core.errors import AgecliError, InputError
from agecli.core.files import write_whole
from agecli.core.seeding import generator
from agecli.images.reading import Pixels
from agecli.model.bundled import named
from agecli.model.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from agecli.model.predictors import METADATA, TOGETHER, OnnxPredictor

OPSET = 17  # old enough for every onnxruntime that agecli may meet
CLOSE = 1e-4  # between the probabilities of a year that torch and onnxruntime give
HALF_CLOSE = 1e-2  # the same, between kernels of 32 and of 16 bits


def export(checkpoint: str | Path, *, out: str | Path) -> float:
    """Write a checkpoint for use elsewhere, whole or not at all: as ONNX, or with its kernels in 16 bits (.safetensors).

    Returns the largest difference to the model itself, in the probability of a year.
    """
    source = named(checkpoint, ".safetensors")
    loaded = load_checkpoint(source)
    path = Path(out)
    if path.suffix not in (".onnx", ".safetensors"):
        raise InputError(f"{path} is of no kind that can be written", hint="name it model.onnx, or model.safetensors")
    size = loaded.model.picture.size
    faces = generator(0, "export").integers(0, 256, (TOGETHER + 1, 3, size, size), dtype=np.uint8)
    if path.suffix == ".onnx":
        return _graph(loaded, path, faces)
    if path.exists() and path.samefile(source):
        raise InputError(f"{path} is the checkpoint itself", hint="name another file with --out")
    with torch.inference_mode(), write_whole(path) as part:
        save_checkpoint(part, loaded.model, loaded.config, loaded.notes, loaded.calibration, half=True)
        shorter = load_checkpoint(part).model
        apart = float((shorter(torch.from_numpy(faces)) - loaded.model(torch.from_numpy(faces))).abs().max())
        _check(apart, HALF_CLOSE, "with kernels of 16 bits")
    return apart


def _graph(loaded: Checkpoint, path: Path, faces: Pixels) -> float:
    model = loaded.model.eval()
    graph = nn.Sequential(model.network, model.forest.finished()).eval()
    with write_whole(path) as part:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of torch's other exporter, which takes ten times as long
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
        _add_metadata(part, loaded.about.to_json())
        predictor = OnnxPredictor(part)
        with torch.inference_mode():
            expected = loaded.model(torch.from_numpy(faces)).numpy()
        apart = max(
            float(np.abs(predictor.pmf(faces[:count]) - expected[:count]).max()) for count in (1, 3, len(faces))
        )
        _check(apart, CLOSE, "as ONNX")
    return apart


def _check(apart: float, limit: float, how: str) -> None:
    if not apart <= limit:
        raise AgecliError(
            f"the model gives other ages {how}: probabilities differ by {apart:.2g}",
            hint="this is a fault of agecli or of torch's exporter: please report it with `agecli info`",
        )


def _add_metadata(path: Path, text: str) -> None:
    import onnx

    model = onnx.load(str(path))
    onnx.helper.set_model_props(model, {METADATA: text})
    model.producer_name = "agecli"
    onnx.save(model, str(path))
