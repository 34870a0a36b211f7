"""Face frames: an aligned face as a small grey picture with the eyes in fixed places, and its lowest frequencies.

The frame does not depend on the alignment of a data set, and is tight, so that the grey borders of narrow photos are
outside. Its lowest frequencies survive compression, scaling and a change of light.
"""

from __future__ import annotations

from itertools import product

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from agecli.images.alignment import Alignment, align

Floats = NDArray[np.float32]
FRAME = Alignment(size=64, eye_distance=0.36, eye_height=0.35)
BITS = 128  # frequencies; 64 confuse one in a hundred of different faces, 192 find no more copies (docs/evaluate.md)


def lowest_frequencies(count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows and columns of the `count` lowest frequencies of a DCT, without the mean; at most 150."""
    rows, columns = np.indices((16, 16))
    lowest = np.argsort(np.hypot(rows, columns) + 1e-6 * rows, axis=None)[1 : count + 1]
    return rows.ravel()[lowest], columns.ravel()[lowest]


ROWS, COLUMNS = lowest_frequencies(BITS)


def _small_motions() -> list[NDArray[np.float64]]:
    """81 rotations, scalings and shifts: as far as eyes are found elsewhere in a copy of a photo.   Each is (2, 3)."""
    motions = []
    for turn, scale, x, y in product((-5, 0, 5), (0.94, 1, 1.065), (-2, 0, 2), (-2, 0, 2)):  # degrees, factor, pixels
        matrix = cv2.getRotationMatrix2D((31.5, 30.0), turn, scale)
        matrix[:, 2] += (x, y)
        motions.append(np.asarray(matrix, dtype=np.float64))
    return motions


MOTIONS = _small_motions()


def face_frame(image: Image.Image, alignment: Alignment | None) -> Floats:
    """The frame of an aligned face, in grey.   (64, 64), 0 to 255

    alignment: of the image, whose size may be another; None takes the central square as it is.
    """
    picture = np.asarray(image.convert("RGB"))
    if alignment is None:
        side = min(picture.shape[:2])
        top, left = (picture.shape[0] - side) // 2, (picture.shape[1] - side) // 2
        square = picture[top : top + side, left : left + side]
        small = cv2.resize(square, (FRAME.size, FRAME.size), interpolation=cv2.INTER_AREA)
    else:
        scale = picture.shape[0] / alignment.size
        left_eye, right_eye = (((x + 0.5) * scale - 0.5, (y + 0.5) * scale - 0.5) for x, y in alignment.eyes)
        small = align(picture, left_eye, right_eye, FRAME)
    return cv2.cvtColor(small, cv2.COLOR_RGB2GRAY).astype(np.float32)


def frequencies(frame: Floats) -> Floats:
    """The lowest frequencies of a frame.   (64, 64) -> (BITS,)"""
    return np.asarray(cv2.dct(frame)[ROWS, COLUMNS], dtype=np.float32)


def moved_frequencies(frame: Floats) -> Floats:
    """The lowest frequencies of a frame after each of the small motions.   (64, 64) -> (81, BITS)"""
    side = (FRAME.size, FRAME.size)
    moved = (cv2.warpAffine(frame, matrix, side, borderMode=cv2.BORDER_REPLICATE) for matrix in MOTIONS)
    return np.stack([frequencies(np.asarray(picture, dtype=np.float32)) for picture in moved])
