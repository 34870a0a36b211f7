"""The landmark model in numpy gives what dlib gives, and needs no dlib."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from skimage import data

from agecli.images.alignment import Photo
from agecli.images.landmarks import find_landmarks

SQUARE = (175, 75, 101)  # left, top, side: around the astronaut's face


@pytest.fixture(scope="module")
def photo() -> Photo:
    return np.asarray(data.astronaut(), np.uint8)  # type: ignore[no-untyped-call]


def by_dlib(photo: Photo, left: int, top: int, side: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    dlib = pytest.importorskip("dlib")
    models = pytest.importorskip("face_recognition_models")
    file = Path(models.__file__).parent / "models/shape_predictor_5_face_landmarks.dat"
    shape = dlib.shape_predictor(str(file))(photo, dlib.rectangle(left, top, left + side, top + side))
    return np.array([(part.x, part.y) for part in shape.parts()], float)


@pytest.mark.parametrize(("dx", "dy", "grow"), [(0, 0, 0), (6, -4, 5), (-5, 3, -8), (2, 7, 12)])
def test_landmarks_are_those_of_dlib_but_for_its_rounding(photo: Photo, dx: int, dy: int, grow: int) -> None:
    left, top, side = SQUARE[0] + dx, SQUARE[1] + dy, SQUARE[2] + grow
    ours, theirs = find_landmarks(photo, left, top, side), by_dlib(photo, left, top, side)
    assert np.abs(ours - theirs).max() < 0.5 + 0.01 * side  # dlib rounds to pixels; its last three stages are left out


def test_a_square_that_reaches_beyond_the_photo_is_black_there_as_with_dlib(photo: Photo) -> None:
    tight = np.ascontiguousarray(photo[85:165, 185:265])
    ours, theirs = find_landmarks(tight, -10, -10, 101), by_dlib(tight, -10, -10, 101)
    assert np.abs(ours - theirs).max() < 0.5 + 0.01 * 101


def test_landmarks_move_with_the_photo(photo: Photo) -> None:
    left, top, side = SQUARE
    shifted = np.roll(photo, (7, 11), axis=(0, 1))
    assert np.allclose(
        find_landmarks(shifted, left + 11, top + 7, side) - (11, 7), find_landmarks(photo, *SQUARE), atol=1
    )
