"""Quantisation of an exported graph: linear layers in 8-bit integers, as many as the ages allow.

The ranges of the activations are those of real faces (`model.integer_graph`). Each layer is first quantised alone; then the
layers that save most multiplications per squared change of the ages are taken, until the expected change of all together
reaches the tolerance.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from numpy.typing import NDArray
from onnx import helper

from agecli.images.reading import Pixels
from agecli.model.integer_graph import Layer, constants, gemms, with_integers

BATCH = 16  # faces per run
SOUGHT = 64  # faces that the layers are compared on
LEAST_RANGE = 1e-3  # a layer whose inputs vary less does nothing that is worth 8 bits
SHARE = 0.8  # of the tolerance, for the layers taken: changes do not add up exactly as independent ones


@dataclass(frozen=True)
class Candidate(Layer):
    """A linear layer of the graph and what quantising it alone does."""

    products: int = 0  # multiplications per face
    change: float = 0.0  # mean absolute change of the ages, in years


def quantise(
    model: Any, faces: Pixels, years: NDArray[np.float64], tolerance: float
) -> tuple[Any, list[Candidate], float]:
    """The graph with linear layers in 8 bits, the layers that are, and their share of the multiplications.

    model: an onnx.ModelProto, pixels -> pmf; faces: (n, 3, H, W) uint8, real ones; years: of the pmf, (A,); tolerance:
    mean absolute change of the ages, in years. The change on the faces themselves is kept below it.
    """
    few = faces[:: max(1, len(faces) // SOUGHT)]
    expected = _ages(model, few, years)
    layers = []
    for layer in _ranges(model, faces):
        change = float(np.abs(_ages(with_integers(model, [layer]), few, years) - expected).mean())
        layers.append(replace(layer, change=change))
    layers.sort(key=lambda layer: layer.change**2 / layer.products)
    total = np.sqrt(np.cumsum([layer.change**2 for layer in layers]))
    chosen = layers[: int(np.searchsorted(total, SHARE * tolerance))]
    while chosen:
        small = with_integers(model, chosen)
        if np.abs(_ages(small, few, years) - expected).mean() <= tolerance:
            share = sum(layer.products for layer in chosen) / sum(layer.products for layer in layers)
            return small, chosen, share
        chosen = chosen[:-1]
    return model, [], 0.0


def _ages(model: Any, faces: Pixels, years: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean of the age distribution of each face.   (n,)"""
    return np.concatenate([pmf @ years for (pmf,) in _run(model, faces, ["pmf"])])


def _run(model: Any, faces: Pixels, outputs: list[str]) -> Iterator[list[NDArray[np.float32]]]:
    """These outputs for each batch of faces."""
    options = ort.SessionOptions()
    options.log_severity_level = 3
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    for start in range(0, len(faces), BATCH):
        yield session.run(outputs, {"pixels": faces[start : start + BATCH]})


def _ranges(model: Any, faces: Pixels) -> list[Candidate]:
    """The layers whose inputs vary, with the ranges of these."""
    nodes = gemms(model)
    observed = onnx.ModelProto()
    observed.CopyFrom(model)
    inputs = sorted({node.input[0] for node in nodes.values()})
    for name in inputs:
        observed.graph.output.append(helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None))
    rows = dict.fromkeys(inputs, 0)
    low, high = dict.fromkeys(inputs, 0.0), dict.fromkeys(inputs, 0.0)  # 0 must be exact in 8 bits
    for values in _run(observed, faces, inputs):
        for name, value in zip(inputs, values, strict=True):
            low[name], high[name] = min(low[name], float(value.min())), max(high[name], float(value.max()))
            rows[name] += len(value)
    sizes = {name: int(np.prod(tensor.dims)) for name, tensor in constants(model).items()}
    found = [
        Candidate(name, low[x], high[x], sizes[name] * rows[x] // len(faces))
        for name, x in ((name, node.input[0]) for name, node in nodes.items())
    ]
    return [layer for layer in found if layer.high - layer.low > LEAST_RANGE]
