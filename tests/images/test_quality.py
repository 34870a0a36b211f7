"""Sharpness: lower for a blurred face, and independent of the photo's size and contrast."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from skimage import data

from agecli.images.alignment import Photo
from agecli.images.quality import sharpness


@pytest.fixture(scope="module")
def crop() -> Photo:
    return np.ascontiguousarray(np.asarray(data.astronaut(), np.uint8)[20:180, 145:305])  # type: ignore[no-untyped-call]


def test_blur_lowers_it(crop: Photo) -> None:
    blurred = [sharpness(np.asarray(cv2.GaussianBlur(crop, (0, 0), sigma), np.uint8)) for sigma in (0.5, 1, 2, 4, 8)]
    assert blurred == sorted(blurred, reverse=True)
    assert sharpness(crop) > blurred[0] > 4 * blurred[2]


def test_enlarging_and_less_contrast_do_not_raise_it(crop: Photo) -> None:
    large = np.asarray(cv2.resize(crop, (640, 640), interpolation=cv2.INTER_LINEAR), np.uint8)
    assert sharpness(large) <= 1.05 * sharpness(crop)
    assert sharpness((crop // 2 + 60).astype(np.uint8)) == pytest.approx(sharpness(crop), rel=0.1)


def test_one_colour_has_none() -> None:
    assert sharpness(np.full((50, 80, 3), 128, np.uint8)) == 0
    assert sharpness(np.zeros((1, 1, 3), np.uint8)) == 0
