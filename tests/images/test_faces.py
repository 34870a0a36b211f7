"""Faces move with the photo: scaled, shifted and turned back, they lie where they were."""

from __future__ import annotations

import numpy as np
import pytest

from agecli.images.faces import Face, distinct, same

FACE = Face((10, 20, 30, 40), (15, 32), (31, 33), 0.9, "test")


@pytest.mark.parametrize("turn", [0, 1, 2, 3])
def test_a_point_of_a_turned_photo_is_found_again(turn: int) -> None:
    photo = np.zeros((60, 100), np.uint8)
    photo[32, 15] = 1  # the left eye
    ((y, x),) = np.argwhere(np.rot90(photo, turn))
    seen = Face((float(x), float(y), 1, 1), (float(x), float(y)), (0, 0), 0.9, "test")
    back = seen.turned_back(turn, 100, 60)
    assert back.left_eye == (15, 32)
    assert back.box == (15, 32, 1, 1)
    assert back.turn == turn


def test_scaling_and_moving_have_inverses() -> None:
    assert FACE.scaled(2, 4).scaled(0.5, 0.25) == FACE
    assert FACE.moved(7, -3).moved(-7, 3) == FACE
    assert FACE.turned_back(4, 100, 60) == FACE


def test_parts_of_a_face_are_no_other_face() -> None:
    part, beside = FACE.moved(5, 5), FACE.moved(40, 0)
    assert same(FACE, part)
    assert not same(FACE, beside)
    assert distinct([part, beside, beside], [FACE]) == [beside]
