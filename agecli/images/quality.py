"""Quality of a face crop: its sharpness, which does not depend on the size or the contrast of the photo."""

from __future__ import annotations

from typing import Any

import cv2
from numpy.typing import NDArray

from agecli.images.alignment import Photo

SIDE = 112  # pixels that an aligned face is resized to
INNER = slice(SIDE // 8, SIDE - SIDE // 8)  # the middle, which a grey border reaches rarely


def sharpness(crop: Photo) -> float:
    """How sharp an aligned face is: about 0 if it is blurred or was enlarged from a few pixels, 0.1 and more if sharp.

    The variance of the Laplacian of the grey crop at 112 x 112 pixels, divided by the variance of its grey values, both in
    the middle 84 x 84. Noise and JPEG blocks count as detail.

    crop: (H, W, 3), RGB; its central square is taken.   Returns 0 for a crop of one colour.
    """
    side = min(crop.shape[:2])
    top, left = ((length - side) // 2 for length in crop.shape[:2])
    square = crop[top : top + side, left : left + side]
    grey = cv2.cvtColor(square, cv2.COLOR_RGB2GRAY)
    if side != SIDE:
        grey = cv2.resize(grey, (SIDE, SIDE), interpolation=cv2.INTER_AREA if side > SIDE else cv2.INTER_LINEAR)
    contrast = _variance(grey[INNER, INNER])
    if contrast == 0:
        return 0.0
    return round(_variance(cv2.Laplacian(grey, cv2.CV_16S)[INNER, INNER]) / contrast, 4)


def _variance(values: NDArray[Any]) -> float:
    """The variance of a picture of one channel."""
    return float(cv2.meanStdDev(values)[1][0, 0]) ** 2
