"""Quality of a face crop: its sharpness, which does not depend on the size or the contrast of the photo."""

from __future__ import annotations

import cv2
import numpy as np

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
    interpolation = cv2.INTER_AREA if side > SIDE else cv2.INTER_LINEAR
    grey = cv2.cvtColor(cv2.resize(square, (SIDE, SIDE), interpolation=interpolation), cv2.COLOR_RGB2GRAY)
    contrast = float(np.var(grey[INNER, INNER], dtype=np.float64))
    if contrast == 0:
        return 0.0
    edges = cv2.Laplacian(grey, cv2.CV_32F)[INNER, INNER]
    return round(float(np.var(edges, dtype=np.float64)) / contrast, 4)
