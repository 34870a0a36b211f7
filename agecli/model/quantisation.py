"""Quantisation of an exported graph: linear layers in 8-bit integers, as many as the ages allow.

Activations are 8 bits with one scale per tensor, from their range on real faces; weights are 8 bits with one scale per
output. Each layer is first quantised alone; then the layers that save most multiplications per squared change of the
ages are taken, until the expected change of all together reaches the tolerance.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from agecli.images.reading import Pixels

BATCH = 16  # faces per run
SOUGHT = 64  # faces that the layers are compared on
LEAST_RANGE = 1e-3  # a layer whose inputs vary less does nothing that is worth 8 bits
SHARE = 0.8  # of the tolerance, for the layers taken: changes do not add up exactly as independent ones
CONTRIB = "com.microsoft"  # onnxruntime's own operators


@dataclass(frozen=True)
class Layer:
    """A linear layer of the graph (a Gemm) and what quantising it alone does."""

    name: str  # of its weights
    low: float  # range of its inputs
    high: float
    products: int  # multiplications per face
    change: float = 0.0  # mean absolute change of the ages, in years


def quantise(model: Any, faces: Pixels, years: NDArray[np.float64], tolerance: float) -> tuple[Any, list[Layer], float]:
    """The graph with linear layers in 8 bits, the layers that are, and their share of the multiplications.

    model: an onnx.ModelProto, pixels -> pmf; faces: (n, 3, H, W) uint8, real ones; years: of the pmf, (A,); tolerance:
    mean absolute change of the ages, in years. The change on the faces themselves is kept below it.
    """
    few = faces[:: max(1, len(faces) // SOUGHT)]
    expected = _ages(model, few, years)
    layers = []
    for layer in _ranges(model, faces):
        change = float(np.abs(_ages(_with_int8(model, [layer]), few, years) - expected).mean())
        layers.append(Layer(layer.name, layer.low, layer.high, layer.products, change))
    layers.sort(key=lambda layer: layer.change**2 / layer.products)
    total = np.sqrt(np.cumsum([layer.change**2 for layer in layers]))
    chosen = layers[: int(np.searchsorted(total, SHARE * tolerance))]
    while chosen:
        small = _with_int8(model, chosen)
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


def _gemms(model: Any) -> dict[str, Any]:
    """The linear layers, by the names of their weights."""
    constants = {tensor.name for tensor in model.graph.initializer}
    nodes = [node for node in model.graph.node if node.op_type == "Gemm" and set(node.input[1:]) <= constants]
    return {node.input[1]: node for node in nodes}


def _ranges(model: Any, faces: Pixels) -> list[Layer]:
    """The layers whose inputs vary, with the ranges of these."""
    nodes = _gemms(model)
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
    sizes = {tensor.name: int(np.prod(tensor.dims)) for tensor in model.graph.initializer}
    found = [
        Layer(name, low[x], high[x], sizes[name] * rows[x] // len(faces))
        for name, x in ((name, node.input[0]) for name, node in nodes.items())
    ]
    return [layer for layer in found if layer.high - layer.low > LEAST_RANGE]


def _with_int8(model: Any, layers: Collection[Layer]) -> Any:
    """A copy of the graph in which these layers quantise their inputs and multiply in 8 bits."""
    chosen = {layer.name: layer for layer in layers}
    gemms = _gemms(model)
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    unused = {name for key in chosen for name in gemms[key].input[1:]}
    nodes, tensors = [], [tensor for tensor in model.graph.initializer if tensor.name not in unused]
    for node in model.graph.node:
        layer = chosen.get(node.input[1]) if node.op_type == "Gemm" else None
        if layer is None:
            nodes.append(node)
            continue
        parts = _parameters(layer, node, constants)
        tensors += [numpy_helper.from_array(value, f"{layer.name}.{part}") for part, value in parts.items()]
        names = [f"{layer.name}.{part}" for part in parts]
        nodes.append(helper.make_node("QuantizeLinear", [node.input[0], *names[:2]], [f"{layer.name}.x"]))
        nodes.append(
            helper.make_node("QGemm", [f"{layer.name}.x", *names], [node.output[0]], domain=CONTRIB, alpha=1.0)
        )
    small = onnx.ModelProto()
    small.CopyFrom(model)
    del small.graph.node[:], small.graph.initializer[:]
    small.graph.node.extend(nodes)
    small.graph.initializer.extend(tensors)
    if CONTRIB not in {imported.domain for imported in small.opset_import}:
        small.opset_import.append(helper.make_opsetid(CONTRIB, 1))
    return small


def _parameters(layer: Layer, node: Any, constants: dict[str, Any]) -> dict[str, NDArray[Any]]:
    """The arguments of a QGemm after its input: scales, zero points, weights (in, out) and bias as integers."""
    weight, bias = (numpy_helper.to_array(constants[name]) for name in node.input[1:])
    if any(each.name == "transB" and each.i for each in node.attribute):
        weight = weight.T
    scale = np.float32((layer.high - layer.low) / 255)
    peak = np.abs(weight).max(axis=0)
    scales = np.where(peak > 0, peak / 127, 1).astype(np.float32)  # (out,)
    return {
        "x_scale": np.array(scale),
        "x_zero": np.array(np.clip(round(-layer.low / scale), 0, 255), np.uint8),
        "weight": np.rint(weight / scales).astype(np.int8),
        "scales": scales,
        "zeros": np.zeros(len(scales), np.int8),
        "bias": np.rint(bias / (scale * scales)).astype(np.int32),
    }
