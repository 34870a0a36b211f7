"""Integer layers of an ONNX graph: linear layers (Gemm) replaced by products of 8-bit integers (QGemm of onnxruntime).

Inputs have 8 bits with one scale per tensor, weights 7 bits with one scale per output (`model.integers` says why).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

INPUT_LEVELS, WEIGHT_LEVELS = 255, 63  # as in `model.integers`, which needs torch
CONTRIB = "com.microsoft"  # onnxruntime's own operators


@dataclass(frozen=True)
class Layer:
    """A linear layer of the graph and the range of its inputs, which has 0 in it."""

    name: str  # of its weights
    low: float
    high: float

    @property
    def scale(self) -> np.float32:
        """Of one step of the input."""
        return np.float32((self.high - self.low) / INPUT_LEVELS)

    @property
    def zero(self) -> np.uint8:
        """The integer for an input of 0."""
        return np.uint8(np.clip(np.rint(-self.low / self.scale), 0, INPUT_LEVELS))


def constants(model: Any) -> dict[str, Any]:
    """The constant tensors of an onnx.ModelProto, by name; torch's exporter writes equal ones once, with Identity nodes."""
    known = {tensor.name: tensor for tensor in model.graph.initializer}
    copies = (node for node in model.graph.node if node.op_type == "Identity" and node.input[0] in known)
    return known | {node.output[0]: known[node.input[0]] for node in copies}


def gemms(model: Any) -> dict[str, Any]:
    """The linear layers of an onnx.ModelProto, by the names of their weights: Gemm nodes with constant weights."""
    known = constants(model)
    nodes = [node for node in model.graph.node if node.op_type == "Gemm" and set(node.input[1:]) <= known.keys()]
    return {node.input[1]: node for node in nodes}


def with_integers(model: Any, layers: Collection[Layer]) -> Any:
    """A copy of an onnx.ModelProto in which these layers round their inputs and multiply integers.

    >>> with_integers(onnx.load("model.onnx"), [Layer("0.stages.0.blocks.0.mlp.grow.weight", -6.0, 6.0)])
    """
    chosen, known = {layer.name: layer for layer in layers}, constants(model)
    nodes, tensors = [], []
    for node in model.graph.node:
        layer = chosen.get(node.input[1]) if node.op_type == "Gemm" else None
        if layer is None:
            nodes.append(node)
            continue
        parts = _parameters(layer, node, known)
        names = [f"{layer.name}.{part}" for part in parts]
        tensors += [numpy_helper.from_array(value, name) for name, value in zip(names, parts.values(), strict=True)]
        whole = f"{layer.name}.x"
        nodes.append(helper.make_node("QuantizeLinear", [node.input[0], *names[:2]], [whole]))
        nodes.append(helper.make_node("QGemm", [whole, *names], [node.output[0]], domain=CONTRIB, alpha=1.0))
    new = onnx.ModelProto()
    new.CopyFrom(model)
    del new.graph.node[:], new.graph.initializer[:]
    used = {name for node in nodes for name in node.input}
    nodes = [node for node in nodes if node.op_type != "Identity" or node.output[0] in used]
    used = {name for node in nodes for name in node.input}
    new.graph.node.extend(nodes)
    new.graph.initializer.extend([tensor for tensor in model.graph.initializer if tensor.name in used] + tensors)
    if CONTRIB not in {imported.domain for imported in new.opset_import}:
        new.opset_import.append(helper.make_opsetid(CONTRIB, 1))
    return new


def _parameters(layer: Layer, node: Any, known: dict[str, Any]) -> dict[str, NDArray[Any]]:
    """The arguments of a QGemm after its input: scales, zero points, weights (in, out) and bias (out,) as integers."""
    weight, bias = (numpy_helper.to_array(known[name]) for name in node.input[1:])
    if any(each.name == "transB" and each.i for each in node.attribute):
        weight = weight.T
    peak = np.abs(weight).max(axis=0)
    scales = np.where(peak > 0, peak / WEIGHT_LEVELS, 1).astype(np.float32)  # (out,)
    return {
        "x_scale": np.array(layer.scale),
        "x_zero": np.array(layer.zero),
        "weight": np.rint(weight / scales).astype(np.int8),
        "scales": scales,
        "zeros": np.zeros(len(scales), np.int8),
        "bias": np.rint(bias / (layer.scale * scales)).astype(np.int32),
    }
