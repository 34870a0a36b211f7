"""Detection on a real face: NASA's portrait of Eileen Collins, which scikit-image carries."""

from __future__ import annotations

import importlib.util
import math

import numpy as np
import pytest
from PIL import Image
from skimage import data

from agecli.core.errors import InputError, MissingError
from agecli.images.alignment import Alignment, Photo, align
from agecli.images.classic import cnn_model, hog_model
from agecli.images.crops import main_face
from agecli.images.detection import DETECTORS, find_faces

LEFT, RIGHT = (203.5, 101.0), (247.2, 103.2)  # her pupils, read off by eye


@pytest.fixture(scope="module")
def photo() -> Photo:
    return np.asarray(data.astronaut(), np.uint8)  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("detector", ["auto", *DETECTORS])
def test_every_detector_finds_her_eyes(photo: Photo, detector: str) -> None:
    face = main_face(find_faces(photo, detector), photo)
    between = math.dist(LEFT, RIGHT)
    for eye, true in ((face.left_eye, LEFT), (face.right_eye, RIGHT)):
        assert math.dist(eye, true) < 0.15 * between
    x, y, w, h = face.box
    assert x < LEFT[0] < RIGHT[0] < x + w
    assert y < LEFT[1] < y + h
    assert face.score > 0


def test_auto_is_yunet_with_landmarks_and_needs_no_dlib(photo: Photo, monkeypatch: pytest.MonkeyPatch) -> None:
    _without(monkeypatch, "dlib", "face_recognition_models")
    assert find_faces(photo)[0].detector == "yunet-dlib"


@pytest.mark.parametrize("detector", ["hog", "cnn"])
def test_a_detector_whose_package_is_missing_says_what_to_install(
    photo: Photo, detector: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _without(monkeypatch, "dlib")
    with pytest.raises(MissingError, match=f"`{detector}` needs dlib") as missing:
        find_faces(photo, detector)
    assert missing.value.hint == "pip install 'agecli[detectors]'"
    assert missing.value.exit_code == 3


def _without(monkeypatch: pytest.MonkeyPatch, *modules: str) -> None:
    """As if modules were not installed."""
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in modules else find_spec(name))
    for model in (hog_model, cnn_model):
        model.cache_clear()


def test_two_faces_come_with_the_larger_first(photo: Photo) -> None:
    small = photo[::2, ::2]
    both = np.full((512, 800, 3), 128, np.uint8)
    both[:, :512], both[128:384, 528:784] = photo, small
    one, two = find_faces(both)[:2]
    assert one.size > two.size
    assert one.left_eye[0] < 512 < two.left_eye[0]


def test_a_face_cut_off_at_brows_and_chin_is_found(photo: Photo) -> None:
    top, left = 87, 190
    (found, *_) = find_faces(np.ascontiguousarray(photo[top:163, left:262]))
    assert math.dist(found.left_eye, (LEFT[0] - left, LEFT[1] - top)) < 0.2 * math.dist(LEFT, RIGHT)


def test_nothing_is_found_where_nothing_is() -> None:
    assert find_faces(np.full((300, 200, 3), 128, np.uint8)) == []
    assert find_faces(np.zeros((1, 1, 3), np.uint8)) == []


@pytest.mark.parametrize("name", ["coffee", "gravel", "grass", "moon", "hubble_deep_field", "cell", "coins", "brick"])
def test_no_face_is_seen_in_pictures_without_one(name: str) -> None:
    picture = np.asarray(Image.fromarray(getattr(data, name)()).convert("RGB"), np.uint8)
    assert find_faces(picture) == []


def test_a_turned_photo_gives_the_same_crop_as_an_upright_one(photo: Photo) -> None:
    face = main_face(find_faces(photo), photo)
    crop = align(photo, face.left_eye, face.right_eye, Alignment(size=64)).astype(int)
    mirrored = np.ascontiguousarray(photo[:, ::-1])
    again = main_face(find_faces(mirrored), mirrored)
    other = align(mirrored, again.left_eye, again.right_eye, Alignment(size=64))[:, ::-1].astype(int)
    assert np.abs(crop - other).mean() < 12


def test_an_unknown_detector_is_named(photo: Photo) -> None:
    with pytest.raises(InputError, match="unknown detector `eyes`"):
        find_faces(photo, "eyes")
