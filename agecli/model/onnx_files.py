"""ONNX files: weights stored in float16 and computed with in float32."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

LEAST_SIZE = 512  # values; smaller tensors stay in float32
LARGEST_LOSS = 1e-3  # relative: tensors of smaller numbers than float16 has stay in float32


def with_half_weights(model: Any) -> Any:
    """A copy of an onnx.ModelProto with half the size: matrices and kernels in float16, cast to float32 when it is loaded.

    onnxruntime folds the casts, so that the graph computes in float32.
    """
    small = onnx.ModelProto()
    small.CopyFrom(model)
    casts = []
    for tensor in small.graph.initializer:
        values = numpy_helper.to_array(tensor)
        if values.dtype != np.float32 or values.size < LEAST_SIZE:
            continue
        with np.errstate(over="ignore"):
            halves = values.astype(np.float16)
        if np.abs(halves - values).max() > LARGEST_LOSS * np.abs(values).max():
            continue
        name = tensor.name
        tensor.CopyFrom(numpy_helper.from_array(halves, f"{name}.half"))
        casts.append(helper.make_node("Cast", [f"{name}.half"], [name], to=onnx.TensorProto.FLOAT))
    nodes = [*casts, *small.graph.node]
    del small.graph.node[:]
    small.graph.node.extend(nodes)
    return small
