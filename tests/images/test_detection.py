"""Detection on a real face: NASA's portrait of Eileen Collins, which scikit-image carries."""

from __future__ import annotations

import importlib.util
import math

import cv2
import numpy as np
import pytest
from PIL import Image
from skimage import data

from agecli.core.errors import InputError, MissingError
from agecli.images import detection, looks
from agecli.images.alignment import Alignment, Photo, align
from agecli.images.classic import cnn_model, hog_model
from agecli.images.detection import DETECTORS, find_faces
from agecli.images.face_finder import main_face
from agecli.images.faces import Face
from benchmarks.faceless import faceless

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


@pytest.mark.parametrize("turn", [1, 2, 3])
def test_a_face_in_a_photo_that_lies_on_its_side_is_found(photo: Photo, turn: int) -> None:
    upright = main_face(find_faces(photo), photo)
    lying = np.ascontiguousarray(np.rot90(photo, -turn))  # a turn anticlockwise makes it upright
    (found, *_) = find_faces(lying, main_only=True)
    assert found.turn == turn
    assert found.detector == "yunet-dlib+turned"
    crop, again = (
        align(pixels, face.left_eye, face.right_eye, Alignment(size=64)).astype(int)
        for pixels, face in ((photo, upright), (lying, found))
    )
    assert np.abs(crop - again).mean() < 12
    x, y, w, h = found.box  # in coordinates of the photo as it lies
    assert all(x < eye[0] < x + w and y < eye[1] < y + h for eye in (found.left_eye, found.right_eye))


@pytest.mark.parametrize(("x", "y"), [(100, 0), (100, 20), (140, 0)])
def test_a_face_upside_down_is_recognised_although_it_looks_like_an_upright_one(photo: Photo, x: int, y: int) -> None:
    part = photo[y : y + 160, x : x + 160]
    turned = np.ascontiguousarray(part[::-1, ::-1])
    assert looks.look(turned, 192, 0.5)[0].score > 0.87  # in the first, upright look
    (upright, *_), (found, *_) = (find_faces(picture, main_only=True) for picture in (part, turned))
    assert (upright.turn, found.turn) == (0, 2)
    back = [(159 - eye[0], 159 - eye[1]) for eye in (found.left_eye, found.right_eye)]
    assert np.abs(np.subtract(back, (upright.left_eye, upright.right_eye))).max() < 0.03 * upright.eye_distance


@pytest.fixture(scope="module")
def crowd(photo: Photo) -> tuple[Photo, list[tuple[int, int]]]:
    """A 12-megapixel wall of bricks with 12 heads of 45 pixels, and their corners."""
    brick = np.asarray(Image.fromarray(data.brick()).convert("RGB"), np.uint8)  # type: ignore[no-untyped-call]
    wall = np.ascontiguousarray(np.tile(brick, (6, 8, 1))[:3000, :4000])
    head = np.asarray(Image.fromarray(photo[20:190, 140:310]).resize((70, 70)), np.uint8)
    corners = [(x, y) for x in (200, 1300, 2380, 3800) for y in (150, 1480, 2850)]
    for x, y in corners:
        wall[y : y + 70, x : x + 70] = head
    return wall, corners


def test_the_small_faces_of_a_large_photo_are_found_once_each(crowd: tuple[Photo, list[tuple[int, int]]]) -> None:
    wall, corners = crowd
    boxes = [face.box for face in find_faces(wall)]
    found = sorted((int(x + w / 2) // 100, int(y + h / 2) // 100) for x, y, w, h in boxes)
    assert found == sorted(((x + 35) // 100, (y + 35) // 100) for x, y in corners)
    assert find_faces(wall, looks="fast") == []


def test_a_portrait_is_looked_at_once_and_closely_if_that_is_asked_for(
    photo: Photo, monkeypatch: pytest.MonkeyPatch
) -> None:
    sides: list[int] = []

    def measured(photo: Photo, min_score: float) -> list[Face]:
        sides.append(max(photo.shape[:2]))
        return detect(photo, min_score)

    detect = looks.detect
    monkeypatch.setattr(looks, "detect", measured)
    portrait = np.asarray(Image.fromarray(photo[:300, 80:380]).resize((900, 900)))
    (face,) = find_faces(portrait)
    assert face.size > 0.06 * 900 * 900
    assert max(sides) == 192
    assert len(find_faces(portrait, looks="closer")) == 1
    assert max(sides) > 640


def test_tiles_are_bounded_and_cover_the_photo(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes: list[tuple[int, ...]] = []

    def measure(tile: Photo, min_score: float) -> list[Face]:
        shapes.append(tile.shape)
        return []

    monkeypatch.setattr(looks, "detect", measure)
    looks.look_in_tiles(np.zeros((5000, 9000, 3), np.uint8), 16_000_000, 0.5)
    assert all(max(shape) <= looks.TILE + 1 for shape in shapes)
    area = sum(height * width for height, width, _ in shapes)
    assert 16e6 < area < 1.5 * 16e6


def test_a_smiley_is_no_face() -> None:
    number = 61  # which the first look takes for a face, with a score of 0.81
    kind, picture = faceless(number, seed=0)
    assert kind == "smileys"
    assert looks.look(picture, 192, 0.5)
    assert find_faces(picture) == []


@pytest.mark.parametrize(("seed", "number"), [(1, 13), (1, 165), (2, 77)])  # of a retry, and of the first look
def test_a_smiley_that_looks_like_a_face_at_one_size_is_none(seed: int, number: int) -> None:
    kind, picture = faceless(number, seed)
    assert (kind, find_faces(picture)) == ("smileys", [])


@pytest.mark.parametrize(("height", "pixels"), [(73, [5_000_000, 16_000_000]), (182, [5_000_000])])
def test_small_faces_in_a_large_photo_are_looked_at_in_full(
    photo: Photo, monkeypatch: pytest.MonkeyPatch, height: int, pixels: list[int]
) -> None:
    """Faces of 32 pixels in 12 megapixels have 20 in the look at 5, which misses some of them."""
    head = cv2.resize(photo[:260, 130:330], (round(200 / 260 * height), height), interpolation=cv2.INTER_AREA)
    crowd = np.full((3000, 4000, 3), 128, np.uint8)
    for x in (500, 1700, 3300):
        crowd[1500 : 1500 + height, x : x + head.shape[1]] = head
    asked: list[int] = []

    def recorded(picture: Photo, most_pixels: int, min_score: float) -> list[Face]:
        asked.append(most_pixels)
        return looks.look_in_tiles(picture, most_pixels, min_score)

    monkeypatch.setattr(detection, "look_in_tiles", recorded)
    assert len(find_faces(crowd)) == 3
    assert asked == pixels


@pytest.mark.parametrize(("kind", "number"), [("smileys", 69), ("clothes", 111), ("smileys", 381)])
def test_what_looks_like_a_large_face_only_from_afar_is_none(kind: str, number: int) -> None:
    assert (faceless(number, 2)[0], find_faces(faceless(number, 2)[1])) == (kind, [])


@pytest.mark.parametrize(
    ("kind", "number", "seed"),
    [("tiled", 265, 2), ("smileys", 317, 3), ("dots", 462, 3), ("tiled", 329, 4)],
)
def test_what_looks_like_a_small_face_only_at_some_sizes_is_none(kind: str, number: int, seed: int) -> None:
    assert (faceless(number, seed)[0], find_faces(faceless(number, seed)[1])) == (kind, [])


def test_an_unknown_look_is_named(photo: Photo) -> None:
    with pytest.raises(InputError, match="unknown look `twice`"):
        find_faces(photo, looks="twice")


def test_an_unknown_detector_is_named(photo: Photo) -> None:
    with pytest.raises(InputError, match="unknown detector `eyes`"):
        find_faces(photo, "eyes")
