"""YuNet: boxes and eyes of faces by a small network in onnxruntime, three times as fast as in OpenCV.

yunet.onnx is face_detection_yunet_2023mar.onnx of OpenCV's model zoo (MIT licence), with an input of any size.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from agecli.core.signals import deferred_signals
from agecli.images.alignment import Photo

STRIDES = (8, 16, 32)  # pixels between the cells of its three output grids
MAX_IOU = 0.3  # non-maximum suppression: boxes with a larger intersection over union are one face
MAX_BOXES = 5000
OUTPUTS = tuple(f"{part}_{stride}" for part in ("cls", "obj", "bbox", "kps") for stride in STRIDES)


def detect(photo: Photo, min_score: float) -> NDArray[np.float32]:
    """The faces with a score of at least `min_score`, the highest first.

    photo: (H, W, 3), RGB. Returns (n, 15): x, y, w, h of the box, x, y of each eye, the nose and the corners of the mouth,
    score; in pixels and 0 to 1.
    """
    height, width = photo.shape[:2]
    rows, columns = (side + -side % STRIDES[-1] for side in (height, width))  # multiples of the largest stride
    pixels = np.zeros((1, 3, rows, columns), np.float32)
    pixels[0, :, :height, :width] = photo.transpose(2, 0, 1)[::-1]  # it was trained on BGR
    outputs = dict(zip(OUTPUTS, _session().run(OUTPUTS, {"input": pixels}), strict=True))
    found = np.concatenate([_decode(outputs, stride, columns // stride, min_score) for stride in STRIDES])
    boxes, scores = found[:, :4], found[:, -1]
    kept = cv2.dnn.NMSBoxes(boxes.tolist(), scores.tolist(), min_score, MAX_IOU, top_k=MAX_BOXES)
    faces: NDArray[np.float32] = found[np.asarray(kept, dtype=int).reshape(-1)]
    return faces


def _decode(outputs: Mapping[str, NDArray[Any]], stride: int, columns: int, min_score: float) -> NDArray[np.float32]:
    """The faces of one grid (n, 15), whose cells place a face relative to themselves."""
    cls, obj, bbox, kps = (outputs[f"{part}_{stride}"][0] for part in ("cls", "obj", "bbox", "kps"))
    scores = np.sqrt(np.clip(cls[:, 0], 0, 1) * np.clip(obj[:, 0], 0, 1))
    (cells,) = np.nonzero(scores >= min_score)
    if not len(cells):  # the usual case for two of the three grids
        return np.zeros((0, 15), np.float32)
    corner = np.stack((cells % columns, cells // columns), axis=1)
    size = np.exp(bbox[cells, 2:])
    middle = corner + bbox[cells, :2]
    points = np.tile(corner, 5) + kps[cells]
    in_pixels = np.concatenate((middle - size / 2, size, points), axis=1) * stride
    return np.concatenate((in_pixels, scores[cells, None]), axis=1).astype(np.float32)


@cache
def _session() -> Any:
    """The network, loaded once per process."""
    with deferred_signals():  # an interrupted import of onnxruntime raises ImportError
        import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = 1  # the network takes two milliseconds
    options.log_severity_level = 3
    return ort.InferenceSession(
        str(Path(__file__).with_name("yunet.onnx")), options, providers=["CPUExecutionProvider"]
    )
