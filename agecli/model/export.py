"""Export: a checkpoint as one ONNX file, from pixels to the age distribution, verified against torch."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from agecli.core.errors import AgecliError, InputError
from agecli.core.files import write_whole
from agecli.core.outputs import check_output
from agecli.core.seeding import generator
from agecli.images.folders import photos_in
from agecli.images.reading import Pixels, UnreadableError, cut, read_picture
from agecli.model.bundled import named
from agecli.model.card import Card
from agecli.model.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from agecli.model.edgenext import FastEdgeNeXt, integer_ranges, is_edgenext
from agecli.model.fingerprint import read_fingerprint, write_fingerprint
from agecli.model.integers import has_integers
from agecli.model.network import AgeModel, Mirrored
from agecli.model.onnx_files import with_half_weights
from agecli.model.predictors import METADATA, ONNX_BATCH, OnnxPredictor

log = logging.getLogger("agecli")
OPSET = 17  # the oldest supported onnxruntime (1.18) runs it
TOLERANCE = 1e-4  # largest difference between the probabilities of torch and of onnxruntime
HALF_TOLERANCE = 1e-2  # the same, between weights in float32 and in float16
INTEGER_TOLERANCE = 5e-2  # the same, with integer layers: what lies between two integers may be rounded either way
MOST_FACES = 512  # of the folder of --int8
INT8_TOLERANCE = 0.1  # years: mean absolute difference of the ages between 8-bit integers and float32


def export(
    checkpoint: str | Path,
    *,
    out: str | Path,
    int8: str | Path | None = None,
    tolerance: float = INT8_TOLERANCE,
    force: bool = False,
) -> float:
    """Write a checkpoint as ONNX (`out` ends in .onnx), or with float16 weights (.safetensors).

    checkpoint: a file made by `agecli train`, or "default" for the bundled model;   out: the file to write.
    int8: a folder of aligned faces, made by `agecli preprocess`. Linear layers are then computed in 8-bit integers, as
        many as keep the mean absolute change of the ages of these faces below `tolerance`, in years.
    force: replace a file that is no exported model.
    The new file is run on random faces, or on those of the folder, and compared with the checkpoint before it takes its
    name. It contains the model card (input size, age grid, alignment and calibration) and the fingerprint of the training
    faces. If the checkpoint has float16 weights, so has the ONNX file.

    Returns the largest absolute difference between the probabilities of both files.
    Raises InputError for a wrong file, folder or suffix, MissingError if the checkpoint is not there, AgecliError if the
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
        real = _read_faces(Path(int8), loaded) if int8 is not None else None
        difference = _export_onnx(loaded, path, faces, real, tolerance)
    elif int8 is not None:
        raise InputError(f"{path} cannot have 8-bit layers", hint="use --out model.onnx")
    else:
        difference = _export_half(loaded, path, faces)
    if fingerprint := read_fingerprint(source):
        write_fingerprint(path, fingerprint)
    return difference


def _export_half(loaded: Checkpoint, path: Path, faces: Pixels) -> float:
    """A checkpoint with float16 weights. Returns the largest difference in probability on `faces`, (B, 3, H, W)."""
    pixels = torch.from_numpy(faces)
    with torch.inference_mode(), write_whole(path) as part:
        save_checkpoint(part, loaded.model, loaded.config, loaded.notes, loaded.calibration, True, loaded.shift)
        difference = float((load_checkpoint(part).model(pixels) - loaded.model(pixels)).abs().max())
        whole = has_integers(loaded.model.backbone)
        _check(difference, INTEGER_TOLERANCE if whole else HALF_TOLERANCE, "float16")
    return difference


def _export_onnx(loaded: Checkpoint, path: Path, faces: Pixels, real: Pixels | None, tolerance: float) -> float:
    """Backbone and forest as one graph. Returns the largest difference in probability on `faces`, (B, 3, H, W).

    real: faces to calibrate 8-bit layers on; None has none; tolerance: of the ages, with 8-bit layers.
    """
    import onnx

    from agecli.model.integer_graph import Layer, with_integers

    model = loaded.model.eval()
    half = _has_half_kernels(model)
    module = inference_graph(model)
    ranges = integer_ranges(module)
    with write_whole(path) as part:
        _trace(module, part, faces[:2])
        graph = onnx.load(str(part))
        if ranges:
            graph = with_integers(graph, [Layer(name, *limits) for name, limits in ranges.items()])
        if real is not None:
            graph = _quantise(graph, real, loaded.card, tolerance)
        if half:
            graph = with_half_weights(graph)
        onnx.helper.set_model_props(graph, {METADATA: loaded.card.to_json()})
        graph.producer_name = "agecli"
        onnx.save(graph, str(part))
        predictor = OnnxPredictor(part)
        difference = _difference(model, predictor, faces if real is None else real)
        if real is None:
            _check(difference, INTEGER_TOLERANCE if ranges else HALF_TOLERANCE if half else TOLERANCE, "ONNX")
    return difference


def inference_graph(model: AgeModel) -> nn.Module:
    """The model as a module that is exported: pixels (B, 3, H, W), 0 to 255 -> pmf (B, A)."""
    extractor: nn.Module = model.extractor
    if is_edgenext(model.backbone):
        extractor = FastEdgeNeXt(model.backbone, model.colours.mean, model.colours.std, model.picture.size)
        extractor = Mirrored(extractor) if model.mirror else extractor
    return nn.Sequential(extractor, model.head, model.forest.finished()).eval()


def _trace(graph: nn.Module, path: Path, faces: Pixels) -> None:
    """Write a module as ONNX, for batches of any size."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch recommends its other exporter, which takes ten times as long
        torch.onnx.export(
            graph,
            (torch.from_numpy(faces),),
            str(path),
            input_names=["pixels"],
            output_names=["pmf"],
            dynamic_axes={"pixels": {0: "batch"}, "pmf": {0: "batch"}},
            opset_version=OPSET,
            dynamo=False,
            training=torch.onnx.TrainingMode.PRESERVE,  # no folded batch norm: float16 kernels stay exact
        )


def _quantise(graph: Any, faces: Pixels, card: Card, tolerance: float) -> Any:
    """The graph with 8-bit layers. Logs which share of the work they are."""
    from agecli.model.quantisation import quantise

    small, layers, share = quantise(graph, faces, card.grid.years, tolerance)
    log.info("%d layers, %.0f %% of the multiplications, are in 8 bits", len(layers), 100 * share)
    return small


def _difference(model: AgeModel, predictor: OnnxPredictor, faces: Pixels) -> float:
    """The largest difference in probability between a model and its exported file; the ages' are logged."""
    with torch.inference_mode():
        parts = [torch.from_numpy(faces[start : start + 32]) for start in range(0, len(faces), 32)]
        expected = torch.cat([model(part) for part in parts]).numpy()
    found = predictor.pmf(faces)
    ages = np.abs((found - expected) @ predictor.card.grid.years)
    log.info("ages differ by %.3f years on average, %.2f at most, on %d faces", ages.mean(), ages.max(), len(faces))
    return float(np.abs(found - expected).max())


def _read_faces(folder: Path, loaded: Checkpoint) -> Pixels:
    """At most MOST_FACES faces of a folder, evenly spread, as the model's input. Raises InputError if there are none."""
    names = list(photos_in(folder))
    chosen = names[:: max(1, len(names) // MOST_FACES)][:MOST_FACES]
    if not chosen:
        raise InputError(f"there are no faces in {folder}", hint="make some with `agecli preprocess`")
    try:
        return np.stack([cut(read_picture(folder / name), loaded.model.picture) for name in chosen])
    except UnreadableError as error:
        raise InputError(f"a face in {folder} cannot be read: {error}", hint="remove it") from error


def _has_half_kernels(model: AgeModel) -> bool:
    """Whether all kernels have values of float16, as in a checkpoint with float16 weights."""
    kernels = (weights for weights in model.parameters() if weights.ndim > 1)
    return all(torch.equal(weights, weights.half().float()) for weights in kernels)


def _check(difference: float, tolerance: float, kind: str) -> None:
    """Raise AgecliError if the exported model (`kind` of file) differs from the checkpoint; NaN counts as different."""
    if not difference <= tolerance:
        raise AgecliError(
            f"the {kind} model predicts other ages than the checkpoint: probabilities differ by {difference:.2g}",
            hint="this is a bug in agecli or in torch's exporter: please report it with `agecli info`",
        )
