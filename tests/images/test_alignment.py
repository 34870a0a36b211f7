"""Laws of alignment: the eyes end where they should, whatever the photo's size and turn."""

from __future__ import annotations

import math

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agecli.images.alignment import Alignment, Photo, align, similarity

coordinates = st.floats(-500, 3000)


@given(lx=coordinates, ly=coordinates, angle=st.floats(-math.pi, math.pi), distance=st.floats(2, 1000))
def test_both_eyes_land_in_their_places(lx: float, ly: float, angle: float, distance: float) -> None:
    right = (lx + distance * math.cos(angle), ly + distance * math.sin(angle))
    alignment = Alignment()
    matrix = similarity((lx, ly), right, alignment)
    for eye, goal in zip(((lx, ly), right), alignment.eyes, strict=True):
        assert matrix @ [*eye, 1] == pytest.approx(goal, abs=1e-6)
    assert matrix[0, 0] == matrix[1, 1]  # no shear, no mirror
    assert matrix[0, 1] == -matrix[1, 0]


def dots(width: int, height: int, left: tuple[float, float], right: tuple[float, float], radius: float) -> Photo:
    """A grey photo with a red and a blue disc for eyes, drawn with soft edges."""
    y, x = np.mgrid[:height, :width]
    photo = np.full((height, width, 3), 128.0)
    for (cx, cy), channel in ((left, 0), (right, 2)):
        inside = np.clip(radius + 0.5 - np.hypot(x - cx, y - cy), 0, 1)[..., None]
        photo = photo * (1 - inside) + inside * np.eye(3)[channel] * 255
    return photo.round().astype(np.uint8)


def centre(crop: Photo, channel: int) -> tuple[float, float]:
    other = [c for c in range(3) if c != channel]
    weight = np.clip(crop[..., channel].astype(float) - crop[..., other].max(-1), 0, None)
    y, x = np.mgrid[: crop.shape[0], : crop.shape[1]]
    return float((weight * x).sum() / weight.sum()), float((weight * y).sum() / weight.sum())


@pytest.mark.parametrize("distance", [12.0, 60.0, 92.0, 200.0, 700.0])
@pytest.mark.parametrize("degrees", [0, 17, -40, 90])
def test_the_pixels_move_as_the_geometry_says(distance: float, degrees: float) -> None:
    turn = math.radians(degrees)
    left = (1.2 * distance, 1.4 * distance)
    right = (left[0] + distance * math.cos(turn), left[1] + distance * math.sin(turn))
    side = int(3.5 * distance)
    alignment = Alignment(size=128)
    crop = align(dots(side, side, left, right, distance / 8), left, right, alignment)
    assert crop.shape == (128, 128, 3)
    for channel, goal in ((0, alignment.eyes[0]), (2, alignment.eyes[1])):
        assert centre(crop, channel) == pytest.approx(goal, abs=0.25)


def test_a_large_face_is_averaged_and_not_sampled() -> None:
    """Fine stripes become their mean grey; sampling would keep them, or turn them into coarse ones."""
    stripes = np.zeros((1600, 1600, 3), np.uint8)
    stripes[:, ::2] = 255
    crop = align(stripes, (600, 700), (1000, 700), Alignment(size=64))
    assert crop.std() < 8
    assert abs(crop.mean() - 127.5) < 2


def test_no_ringing_at_an_edge() -> None:
    half = np.full((300, 300, 3), 50, np.uint8)
    half[:, 150:] = 200
    for eyes in (((100, 120), (200, 120)), ((140, 140), (160, 150))):  # shrunk, and enlarged
        crop = align(half, *eyes, Alignment(size=128))
        assert crop.min() >= 50
        assert crop.max() <= 200


@pytest.mark.parametrize("scale", [1, 20])
def test_what_lies_outside_is_grey(scale: int) -> None:
    photo = np.full((40 * scale, 40 * scale, 3), 77, np.uint8)
    crop = align(photo, (2 * scale, 2 * scale), (38 * scale, 2 * scale), Alignment(64, 0.30, 0.41))
    assert (crop[:20] == 128).all()
    assert (crop[30:44, 26:38] == 77).all()
    assert set(np.unique(crop[0])) == {128}


def test_the_same_eyes_are_an_error() -> None:
    with pytest.raises(ValueError, match="both eyes"):
        similarity((3, 3), (3, 3), Alignment())


def test_a_photo_shrunk_before_gives_the_same_crop() -> None:
    """The crop depends on the face, not on the resolution of the photo, up to a grey level or two."""
    generator = np.random.default_rng(0)
    small: Photo = np.asarray(
        cv2.GaussianBlur(generator.integers(0, 256, (300, 300, 3), dtype=np.uint8), (0, 0), 4), np.uint8
    )
    large: Photo = np.asarray(cv2.resize(small, None, fx=4, fy=4, interpolation=cv2.INTER_LINEAR), np.uint8)
    one = align(small, (100, 130), (200, 140), Alignment(size=64)).astype(int)
    two = align(large, (4 * 100 + 1.5, 4 * 130 + 1.5), (4 * 200 + 1.5, 4 * 140 + 1.5), Alignment(size=64)).astype(int)
    assert np.abs(one - two).mean() < 1.5
