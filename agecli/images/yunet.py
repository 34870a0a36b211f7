"""YuNet: boxes and eyes of faces, by a small network on onnxruntime. OpenCV has it too, at three times the cost.

yunet.onnx is face_detection_yunet_2023mar.onnx of OpenCV's model zoo (MIT licence), with sides of any length.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from agecli.images.alignment import Photo

STRIDES = (8, 16, 32)  # pixels between the cells of its three grids
OVERLAP = 0.3  # of two boxes, as a share of their union, above which they show one face
MOST = 5000
PARTS = tuple(f"{part}_{stride}" for part in ("cls", "obj", "bbox", "kps") for stride in STRIDES)


def detect(photo: Photo, least: float) -> NDArray[np.float32]:
    """Faces with a score of `least` or more, the surest first.   (n, 9): x, y, w, h, eye, eye, score"""
    height, width = photo.shape[:2]
    rows, columns = (side + -side % STRIDES[-1] for side in (height, width))  # its grids must fit
    pixels = np.zeros((1, 3, rows, columns), np.float32)
    pixels[0, :, :height, :width] = photo.transpose(2, 0, 1)[::-1]  # it was trained on BGR
    said = dict(zip(PARTS, _session().run(PARTS, {"input": pixels}), strict=True))
    found = np.concatenate([_decode(said, stride, columns // stride, least) for stride in STRIDES])
    boxes, scores = found[:, :4], found[:, -1]
    kept = cv2.dnn.NMSBoxes(boxes.tolist(), scores.tolist(), least, OVERLAP, top_k=MOST)
    faces: NDArray[np.float32] = found[np.asarray(kept, dtype=int).reshape(-1)]
    return faces


def _decode(said: Mapping[str, NDArray[Any]], stride: int, columns: int, least: float) -> NDArray[np.float32]:
    """What the cells of one grid say: each places a face relative to itself."""
    cls, obj, bbox, kps = (said[f"{part}_{stride}"][0] for part in ("cls", "obj", "bbox", "kps"))
    scores = np.sqrt(np.clip(cls[:, 0], 0, 1) * np.clip(obj[:, 0], 0, 1))
    (cells,) = np.nonzero(scores >= least)
    if not len(cells):  # most faces are of one size, and two of the grids say nothing
        return np.zeros((0, 9), np.float32)
    corner = np.stack((cells % columns, cells // columns), axis=1)
    size = np.exp(bbox[cells, 2:])
    middle = corner + bbox[cells, :2]
    eyes = np.tile(corner, 2) + kps[cells, :4]
    in_pixels = np.concatenate((middle - size / 2, size, eyes), axis=1) * stride
    return np.concatenate((in_pixels, scores[cells, None]), axis=1).astype(np.float32)


@cache
def _session() -> Any:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = 1  # it takes two milliseconds
    options.log_severity_level = 3
    return ort.InferenceSession(
        str(Path(__file__).with_name("yunet.onnx")), options, providers=["CPUExecutionProvider"]
    )
