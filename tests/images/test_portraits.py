"""The quick look takes a large, upright face, and leaves all that is not plain to the other looks."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from skimage import data

from agecli.images import looks, portraits
from agecli.images.alignment import Photo
from agecli.images.detection import find_faces
from agecli.images.faces import Face
from agecli.images.portraits import portrait
from benchmarks.faceless import faceless


@pytest.fixture(scope="module")
def head() -> Photo:
    """Eileen Collins, from the hair to the collar."""
    astronaut = np.asarray(data.astronaut(), np.uint8)  # type: ignore[no-untyped-call]
    return np.ascontiguousarray(astronaut[20:220, 125:325])


def test_the_box_of_a_portrait_is_that_of_the_first_look(head: Photo) -> None:
    quick = portrait(head)
    (first,) = looks.look(head, 192, 0.5)
    assert quick
    assert np.abs(np.subtract(quick.box, first.box)).max() < 0.06 * first.box[3]
    assert (quick.turn, quick.detector) == (0, "yunet")


@pytest.mark.parametrize(("scale", "left", "bottom"), [(2, 0, 200), (0.7, 0, 200), (2, 40, 200), (3, 0, 170)])
def test_a_portrait_is_in_pixels_of_the_photo_whatever_its_size_and_shape(
    head: Photo, scale: float, left: int, bottom: int
) -> None:
    quick = portrait(head)
    other = portrait(np.asarray(cv2.resize(head[:bottom, left:], None, fx=scale, fy=scale), np.uint8))
    assert quick
    assert other
    box = other.scaled(1 / scale, 1 / scale).moved(left, 0).box
    assert np.abs(np.subtract(box, quick.box)).max() < 0.1 * quick.box[3]


@pytest.mark.parametrize("turn", [1, 2, 3])
def test_a_turned_photo_is_not_taken_for_a_portrait(head: Photo, turn: int) -> None:
    assert portrait(np.ascontiguousarray(np.rot90(head, turn))) is None


@pytest.mark.parametrize("turn", [1, 2, 3])
def test_a_face_is_as_good_as_upright_only_if_no_other_direction_is(
    head: Photo, turn: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At any score below that of a sure one, the turned looks decide: here the photo itself is the turned one."""
    lying = np.ascontiguousarray(np.rot90(head, turn))

    def rated(photo: Photo, min_score: float) -> list[Face]:
        face = Face((20.0, 20.0, 60.0, 60.0), (35.0, 40.0), (65.0, 40.0), 0.9, "yunet")
        return [face] if max(photo.shape) == portraits.SIDE else looks.detect(photo, min_score)

    monkeypatch.setattr(portraits, "detect", rated)
    assert portrait(lying) is None
    assert portrait(head)


def test_two_faces_of_similar_size_are_no_portrait(head: Photo) -> None:
    assert portrait(np.concatenate((head, head), axis=1)) is None


def test_a_small_face_in_the_background_does_not_matter(head: Photo) -> None:
    both = head.copy()
    both[:60, :60] = cv2.resize(head[10:190, 10:190], (60, 60), interpolation=cv2.INTER_AREA)
    quick, alone = portrait(both), portrait(head)
    assert len(looks.look(both, 192, 0.5)) == 2
    assert quick
    assert alone
    assert np.abs(np.subtract(quick.box, alone.box)).max() < 0.05 * alone.box[3]


def test_a_small_face_is_no_portrait(head: Photo) -> None:
    wide = np.full((600, 600, 3), 128, np.uint8)
    wide[200:400, 200:400] = head
    assert portrait(wide) is None


@pytest.mark.parametrize("number", range(61, 400, 40))
def test_a_picture_without_a_face_is_no_portrait(number: int) -> None:
    assert portrait(faceless(number, seed=0)[1]) is None


def test_only_the_main_face_is_looked_for_quickly(head: Photo, monkeypatch: pytest.MonkeyPatch) -> None:
    sides: list[int] = []

    def measured(photo: Photo, min_score: float) -> list[Face]:
        sides.append(max(photo.shape[:2]))
        return detect(photo, min_score)

    detect = looks.detect
    monkeypatch.setattr(portraits, "detect", measured)
    monkeypatch.setattr(looks, "detect", measured)
    assert len(find_faces(head, main_only=True)) == 1
    assert max(sides) == portraits.SIDE
    sides.clear()
    assert find_faces(head)
    assert find_faces(head, looks="closer", main_only=True)
    assert min(sides) > portraits.SIDE
