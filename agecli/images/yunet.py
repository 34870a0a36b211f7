"""YuNet: boxes and eyes of faces by a small network in onnxruntime, three times as fast as in OpenCV.

yunet.onnx is face_detection_yunet_2023mar.onnx of OpenCV's model zoo (MIT licence), with an input of any size and the
same results in two arrays (models/recipe/yunet.py).
"""

from __future__ import annotations

from functools import cache, lru_cache
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


def detect(photo: Photo, min_score: float) -> NDArray[np.float32]:
    """The faces with a score of at least `min_score`, the highest first.

    photo: (H, W, 3), RGB. Returns (n, 15): x, y, w, h of the box, x, y of each eye, the nose and the corners of the mouth,
    score; in pixels and 0 to 1.
    """
    height, width = photo.shape[:2]
    rows, columns = (side + -side % STRIDES[-1] for side in (height, width))  # multiples of the largest stride
    if (rows, columns) != (height, width) or not photo.flags.c_contiguous:
        padded = np.zeros((rows, columns, 3), np.uint8)
        padded[:height, :width] = photo
        photo = padded
    pixels = cv2.dnn.blobFromImage(photo, swapRB=True)  # (1, 3, rows, columns) float32; it was trained on BGR
    scores, places = _session().run(("scores", "places"), {"input": pixels})  # (1, cells), (14, cells)
    cells = np.flatnonzero(scores >= min_score)
    found = _decode(scores[0, cells], places[:, cells], _grids(rows, columns)[:, cells])
    if len(found) < 2:
        return found
    kept = cv2.dnn.NMSBoxes(found[:, :4].tolist(), found[:, -1].tolist(), min_score, MAX_IOU, top_k=MAX_BOXES)
    faces: NDArray[np.float32] = found[np.asarray(kept, dtype=int).reshape(-1)]
    return faces


def _decode(
    scores: NDArray[np.float32], places: NDArray[np.float32], grids: NDArray[np.float32]
) -> NDArray[np.float32]:
    """The faces (n, 15) of cells, which place a face relative to themselves.

    scores: (n,);   places: (14, n), middle and log size of the box, and landmarks, in cells;   grids: (3, n), see `_grids`.
    """
    corner, stride = grids[:2], grids[2]
    found = np.empty((15, len(scores)), np.float32)
    found[2:4] = np.exp(places[2:4])
    found[:2] = corner + places[:2] - found[2:4] / 2
    found[4:14] = np.concatenate((corner,) * 5) + places[4:]
    found[:14] *= stride
    found[14] = scores
    return np.ascontiguousarray(found.T)


@lru_cache(maxsize=32)  # sizes of photos and tiles; a tile of 1024 x 1024 pixels has 0.3 MB
def _grids(rows: int, columns: int) -> NDArray[np.float32]:
    """Column, row and stride of the cells of all grids of an input with so many pixels, (3, cells)."""
    parts = []
    for stride in STRIDES:
        y, x = np.divmod(np.arange(rows // stride * (columns // stride)), columns // stride)
        parts.append(np.stack((x, y, np.full_like(x, stride))))
    return np.concatenate(parts, axis=1).astype(np.float32)


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
