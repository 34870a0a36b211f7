"""Integer layers of an ONNX graph: linear layers (Gemm) replaced by products of 8-bit integers (QGemm of onnxruntime).

Inputs have 8 bits with one scale per tensor, weights 7 bits with one scale per output (`model.integers` says why). A ReLU
between two such layers disappears: the first one gives the second one's integers, which are not negative.
"""

from __future__ import annotations

from collections import Counter
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
    writer = _Writer(model, {layer.name: layer for layer in layers})
    for node in model.graph.node:
        writer.add(node)
    new = onnx.ModelProto()
    new.CopyFrom(model)
    del new.graph.node[:], new.graph.initializer[:]
    used = {name for node in writer.nodes for name in node.input}
    kept = [node for node in writer.nodes if node.op_type != "Identity" or node.output[0] in used]
    new.graph.node.extend(kept)
    used = {name for node in kept for name in node.input}
    new.graph.initializer.extend(tensor for tensor in model.graph.initializer if tensor.name in used)
    new.graph.initializer.extend(writer.tensors.values())
    if CONTRIB not in {imported.domain for imported in new.opset_import}:
        new.opset_import.append(helper.make_opsetid(CONTRIB, 1))
    return new


class _Writer:
    """The nodes and constants of the new graph, added one node of the old one after the other."""

    def __init__(self, model: Any, layers: dict[str, Layer]) -> None:
        self.layers = layers
        self.constants = constants(model)
        self.nodes: list[Any] = []
        self.tensors: dict[str, Any] = {}
        self.whole: dict[tuple[str, float, float], str] = {}  # input and range -> the input as integers
        self.whole_outputs: set[str] = set()  # of old layers; they exist as integers after their ReLU only
        self.uses = Counter(name for node in model.graph.node for name in node.input)
        self.consumer = {name: node for node in model.graph.node for name in node.input}  # the only one, if used once

    def add(self, node: Any) -> None:
        """Add a node of the old graph, or what replaces it."""
        layer = self._layer(node)
        if layer is None:
            if not (node.op_type == "Relu" and node.input[0] in self.whole_outputs):
                self.nodes.append(node)
            return
        given = self._rounded(node.input[0], layer)
        parts = self._parameters(layer, node)
        names = [self._constant(f"{layer.name}.{part}", value) for part, value in parts.items()]
        scales = self._input_constants(layer)
        after = self._after_relu(node)
        if after is None:
            ends, output = [], node.output[0]
        else:
            ends, relu = self._input_constants(after), self.consumer[node.output[0]]
            output = f"{relu.output[0]}.integers"
            self.whole[relu.output[0], after.low, after.high] = output
            self.whole_outputs.add(node.output[0])
        inputs = [given, *scales, *names, *ends]
        self.nodes.append(helper.make_node("QGemm", inputs, [output], domain=CONTRIB, alpha=1.0))

    def _layer(self, node: Any) -> Layer | None:
        """The integer layer that a node becomes; None for other nodes."""
        return self.layers.get(node.input[1]) if node.op_type == "Gemm" else None

    def _after_relu(self, node: Any) -> Layer | None:
        """The integer layer that is the only one to use a node's output, after a ReLU; None if there is none."""
        relu = self.consumer.get(node.output[0])
        if relu is None or relu.op_type != "Relu" or self.uses[node.output[0]] > 1 or self.uses[relu.output[0]] > 1:
            return None
        after = self._layer(self.consumer[relu.output[0]])
        return after if after is not None and after.low == 0 else None

    def _rounded(self, name: str, layer: Layer) -> str:
        """The input of a layer as integers; layers with the same input and range share them."""
        key = (name, layer.low, layer.high)
        if key not in self.whole:
            self.whole[key] = f"{name}.integers.{layer.name}"
            inputs = [name, *self._input_constants(layer)]
            self.nodes.append(helper.make_node("QuantizeLinear", inputs, [self.whole[key]]))
        return self.whole[key]

    def _input_constants(self, layer: Layer) -> list[str]:
        """The names of a layer's scale and zero point."""
        return [
            self._constant(f"{layer.name}.x_scale", np.array(layer.scale)),
            self._constant(f"{layer.name}.x_zero", np.array(layer.zero)),
        ]

    def _constant(self, name: str, value: NDArray[Any]) -> str:
        """Add a constant; its name."""
        self.tensors[name] = numpy_helper.from_array(value, name)
        return name

    def _parameters(self, layer: Layer, node: Any) -> dict[str, NDArray[Any]]:
        """The arguments of a QGemm after its input: weights (in, out), their scales and zero points, bias (out,)."""
        weight, *bias = (numpy_helper.to_array(self.constants[name]) for name in node.input[1:])
        if any(each.name == "transB" and each.i for each in node.attribute):
            weight = weight.T
        peak = np.abs(weight).max(axis=0)
        scales = np.where(peak > 0, peak / WEIGHT_LEVELS, 1).astype(np.float32)  # (out,)
        parts: dict[str, NDArray[Any]] = {
            "weight": np.rint(weight / scales).astype(np.int8),
            "scales": scales,
            "zeros": np.zeros(len(scales), np.int8),
        }
        added = bias[0] if bias else np.zeros(len(scales))
        return parts | {"bias": np.rint(added / (layer.scale * scales)).astype(np.int32)}
