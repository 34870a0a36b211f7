"""Merge the twelve outputs of OpenCV's YuNet into two: `agecli/images/yunet.onnx`, which takes a sixth less time.

    python models/recipe/yunet.py face_detection_yunet_2023mar.onnx agecli/images/yunet.onnx

The model is face_detection_yunet_2023mar.onnx of OpenCV's model zoo (MIT licence). On each of its three grids it has four
heads, for two scores, a box and five landmarks: a 1 x 1 convolution and a depthwise one of 1, 1, 4 and 10 channels. Here
they are one head of 16 channels, the number that onnxruntime computes at once, and the cells of all grids are in one
array. Weights and results are the same, to rounding. The input has any size that is a multiple of 32 pixels.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

STRIDES = (8, 16, 32)
HEADS = ("cls", "obj", "bbox", "kps")  # 1 + 1 + 4 + 10 channels
CHANNELS = 16


def merged(model: onnx.ModelProto) -> onnx.ModelProto:
    """The network with the outputs `scores` (1, cells) and `places` (14, cells): box and landmarks in units of a cell.

    The cells are those of the three grids, one after the other, each row by row.
    """
    graph = model.graph
    weights = {array.name: numpy_helper.to_array(array) for array in graph.initializer}
    makers = {output: node for node in graph.node for output in node.output}

    def head(output: str) -> tuple[onnx.NodeProto, onnx.NodeProto]:
        """The two convolutions before an output."""
        node = makers[output]
        while node.op_type != "Conv":
            node = makers[node.input[0]]
        return makers[node.input[0]], node

    arrays = {"flat": np.array([CHANNELS, -1], np.int64)}
    nodes, features = [], []
    for stride in STRIDES:
        heads = [head(f"{name}_{stride}") for name in HEADS]
        features.append(heads[0][0].input[0])
        for place, kind in enumerate(("point", "depth")):
            for number, part in ((1, "weight"), (2, "bias")):
                parts = [weights[convolutions[place].input[number]] for convolutions in heads]
                arrays[f"{kind}_{part}_{stride}"] = np.concatenate(parts)
        point, depth = ([f"{kind}_weight_{stride}", f"{kind}_bias_{stride}"] for kind in ("point", "depth"))
        nodes += [
            helper.make_node("Conv", [features[-1], *point], [f"point_{stride}"], kernel_shape=[1, 1]),
            helper.make_node(
                "Conv",
                [f"point_{stride}", *depth],
                [f"head_{stride}"],
                kernel_shape=[3, 3],
                pads=[1] * 4,
                group=CHANNELS,
            ),
            helper.make_node("Reshape", [f"head_{stride}", "flat"], [f"cells_{stride}"]),
        ]
    nodes += [
        helper.make_node("Concat", [f"cells_{stride}" for stride in STRIDES], ["cells"], axis=1),
        helper.make_node("Split", ["cells"], ["cls", "obj", "places"], axis=0, split=[1, 1, CHANNELS - 2]),
        helper.make_node("Sigmoid", ["cls"], ["p_cls"]),
        helper.make_node("Sigmoid", ["obj"], ["p_obj"]),
        helper.make_node("Mul", ["p_cls", "p_obj"], ["p"]),
        helper.make_node("Sqrt", ["p"], ["scores"]),
    ]
    body = _needed(graph, makers, features)
    used = {name for node in body for name in node.input}
    outputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [rows, "cells"])
        for name, rows in (("scores", 1), ("places", CHANNELS - 2))
    ]
    kept = [array for array in graph.initializer if array.name in used]
    added = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    new = helper.make_graph([*body, *nodes], "yunet", list(graph.input), outputs, [*kept, *added])
    result = helper.make_model(new, opset_imports=model.opset_import, ir_version=model.ir_version)
    onnx.checker.check_model(result)
    return result


def _needed(graph: onnx.GraphProto, makers: dict[str, onnx.NodeProto], outputs: list[str]) -> list[onnx.NodeProto]:
    """The nodes that some values depend on, in their order."""
    names, waiting = set(), list(outputs)
    while waiting:
        name = waiting.pop()
        if name in makers and name not in names:
            names.add(name)
            waiting += makers[name].input
    return [node for node in graph.node if node.output[0] in names]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("source", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    model = onnx.load(options.source)
    for axis, name in ((2, "height"), (3, "width")):
        model.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = name
    onnx.save(merged(model), options.out)
    print(f"{options.out}: {options.out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
