"""Detection: photo -> faces with a box, two eyes and a score, by one of several detectors behind one interface.

`yunet-dlib`, the default, takes boxes from YuNet and eyes from dlib's five-point landmark model in them. It finds more
faces than the others, its eyes are as exact as the best of them, and it is the fastest but for YuNet alone
(docs/detectors.md). `hog` and `cnn` need the package dlib: `pip install 'agecli[detectors]'`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import cv2
import numpy as np

from agecli.core.errors import InputError
from agecli.images.alignment import GREY, Photo
from agecli.images.checks import LARGE_FACE, UPRIGHT_SCORE, check, check_first, confirm
from agecli.images.classic import Detect, cnn, haar, hog
from agecli.images.faces import Face, distinct
from agecli.images.looks import look, look_in_tiles, resized
from agecli.images.portraits import portrait
from agecli.images.pupils import with_pupils

FIRST_SIDE = 192  # pixels of the photo's long side: enough for the main face of a photo
SECOND_SIDE = 640  # enough for most small faces
WORTH_SECOND, WORTH_TILES = 256, 800  # pixels of the long side; a smaller photo shows nothing more in the next look
AUTO_PIXELS, CLOSER_PIXELS = 5_000_000, 16_000_000  # of the look in tiles
FIRST_SCORE = 0.5  # of the first look; the usual threshold of 0.9 misses a third of the children in FG-NET
NO_SMILEY = 0.9  # of the first look; pictures without a face have less
SURE_SCORE = 0.915  # of the first look: surely upright. One in a thousand faces that are upside down has more
CLOSER_SCORE = 0.4  # of faces that only another look finds, all of which are checked: 16 pixels are enough then
FIRST_CHECK, CLOSER_CHECK = 0.6, 0.7  # least scores of the check: smileys reach 0.46, stars 0.66
MOST_CHECKS = 200  # faces of a closer look that are checked, the highest scores first
SMALL_FIRST = 24  # pixels in the first look; the boxes of smaller faces are refined by the check
LARGE_SHARE = (
    0.06  # of the photo's area; the faces that the first look misses beside such a face have a tenth of its area
)
SMALL_SHARE = 0.05  # of the photo's area; where the faces cover less, there may be others that are smaller
SMALL_FACE = 24  # pixels in a look; where a face is smaller, there may be others that it missed
MOST_ZOOM = 2.5  # of a photo that nothing is found in: in 161 small ones, 640 pixels find 4 faces less, and 384 lose 1
STRIP = 8  # ratio of the sides above which a photo is a strip, in which nothing is retried

DEFAULT = "yunet-dlib"
LOOKS = ("auto", "fast", "closer")
CLASSIC: dict[str, Detect] = {"hog": hog, "cnn": cnn, "haar": haar}
DETECTORS = (DEFAULT, "yunet", *CLASSIC)


def find_faces(photo: Photo, detector: str = "auto", looks: str = "auto", main_only: bool = False) -> list[Face]:
    """The faces of a photo, the largest box first.

    photo: (H, W, 3) uint8, RGB.   detector: `auto` or one of DETECTORS.
    looks: how closely YuNet looks at a large photo. `fast` is one look at 192 pixels, `closer` is up to 16 megapixels in
        tiles, and `auto` looks in tiles of up to 5 megapixels if the faces found so far are few or small, and then of 16 if
        it found some that are hardly large enough.
    main_only: a large face is enough, so smaller ones are not searched for, and a look at 96 pixels is the first;
        `closer` does all the same.

    Memory does not depend on the size of the photo. If YuNet finds nothing, it looks at the photo turned by 90, 180
    and 270 degrees, padded, and mirrored.
    Raises InputError for an unknown detector or look, MissingError if a package is not installed.

        find_faces(np.asarray(Image.open("photo.jpg").convert("RGB")))[0].box
    """
    check_detector(detector)
    check_looks(looks)
    name = DEFAULT if detector == "auto" else detector
    faces = CLASSIC[name](photo) if name in CLASSIC else _yunet(photo, looks, main_only)
    if name == DEFAULT:
        faces = [with_pupils(photo, face) for face in faces]
    return sorted(faces, key=lambda face: -face.size)


def check_detector(name: str) -> None:
    """Raises InputError for a name that is neither `auto` nor one of DETECTORS."""
    if name not in ("auto", *DETECTORS):
        raise InputError(f"unknown detector `{name}`", hint=f"there are: auto, {', '.join(DETECTORS)}")


def check_looks(name: str) -> None:
    """Raises InputError for a name that is not one of LOOKS."""
    if name not in LOOKS:
        raise InputError(f"unknown look `{name}`", hint=f"there are: {', '.join(LOOKS)}")


def _yunet(photo: Photo, looks: str, main_only: bool) -> list[Face]:
    """The faces by all looks that the options and the photo ask for, with YuNet's eyes."""
    if main_only and looks != "closer" and (face := portrait(photo)):
        return [face]
    faces = _checked_first(photo, _first_look(photo), compared=True)
    enough = looks == "fast" or (looks == "auto" and ((main_only and bool(faces)) or _is_portrait(photo, faces)))
    if not enough and max(photo.shape[:2]) > WORTH_SECOND:
        found = look(photo, min(SECOND_SIDE, max(photo.shape[:2])), CLOSER_SCORE)
        faces += _checked_closer(photo, found, faces)
        if looks == "closer" or _may_have_more(photo, faces):
            faces += _in_tiles(photo, looks, faces)
    return faces or next((found for found in _retries(photo, looks) if found), [])


def _in_tiles(photo: Photo, looks: str, known: list[Face]) -> list[Face]:
    """The new faces of the look in tiles. `auto` looks at CLOSER_PIXELS, too, where a face is so small that others are lost."""
    if looks == "closer":
        return _checked_closer(photo, look_in_tiles(photo, CLOSER_PIXELS, CLOSER_SCORE), known)
    new = _checked_closer(photo, look_in_tiles(photo, AUTO_PIXELS, CLOSER_SCORE), known)
    scale = math.sqrt(AUTO_PIXELS / (photo.shape[0] * photo.shape[1]))
    if scale < 1 and any(max(face.box[2:]) * scale < SMALL_FACE for face in new):
        new += _checked_closer(photo, look_in_tiles(photo, CLOSER_PIXELS, CLOSER_SCORE), [*known, *new])
    return new


def _first_look(photo: Photo) -> list[Face]:
    """The faces at FIRST_SIDE; if none is sure to be upright, in the direction in which the best has the highest score."""
    faces = look(photo, FIRST_SIDE, FIRST_SCORE)
    best = _highest(faces)
    if best >= SURE_SCORE:
        return faces
    turned = [look(photo, FIRST_SIDE, FIRST_SCORE, turn) for turn in ((2,) if best >= UPRIGHT_SCORE else (1, 2, 3))]
    return max([faces, *turned], key=_highest)


def _highest(faces: list[Face]) -> float:
    """The highest score."""
    return max((face.score for face in faces), default=0.0)


def _checked_first(photo: Photo, faces: list[Face], compared: bool = False) -> list[Face]:
    """The faces of the first look without those that a check refutes.

    compared: whether the photo was looked at in other directions, in which its best face has no higher score.
    """
    small = SMALL_FIRST / FIRST_SIDE * max(photo.shape[:2])
    best = _highest(faces)
    checked: list[Face | None] = []
    for face in faces:
        upright = not face.turn and (face.score >= SURE_SCORE or (compared and face.score == best))
        if face.score >= NO_SMILEY and upright:
            checked.append(face)
        elif max(face.box[2:]) < small:
            checked.append(check(photo, face, CLOSER_CHECK))
        else:
            checked.append(check_first(photo, face, FIRST_CHECK, turn=not upright))
    return [face for face in checked if face]


def _checked_closer(photo: Photo, found: list[Face], known: list[Face]) -> list[Face]:
    """The new faces among those of a closer look that a check confirms."""
    new = distinct(found, known)[:MOST_CHECKS]
    checked = [face for face in (check(photo, face, CLOSER_CHECK) for face in new) if face]
    sure = [face for face in checked if max(face.box[2:]) < LARGE_FACE or confirm(photo, face)]
    return distinct(sure, known)


def _is_portrait(photo: Photo, faces: list[Face]) -> bool:
    """Whether a face covers so much of a photo that others which the first look missed are in the background."""
    return any(face.size >= LARGE_SHARE * photo.shape[0] * photo.shape[1] for face in faces)


def _may_have_more(photo: Photo, faces: list[Face]) -> bool:
    """Whether a large photo may have faces that are too small for the second look."""
    height, width = photo.shape[:2]
    if max(height, width) <= WORTH_TILES:
        return False
    pixel = max(height, width) / SECOND_SIDE
    small = any(max(face.box[2:]) < SMALL_FACE * pixel for face in faces)
    return small or sum(face.size for face in faces) < SMALL_SHARE * height * width


# Retries, where nothing was found


def _retries(photo: Photo, looks: str) -> Iterator[list[Face]]:
    """The faces by each other way to look, the most promising first: turned, padded, larger, mirrored."""
    if max(photo.shape[:2]) > STRIP * min(photo.shape[:2]):
        return  # a strip has no face, and padding it would take gigabytes
    closer = max(FIRST_SIDE, min(SECOND_SIDE, round(MOST_ZOOM * max(photo.shape[:2]))))
    sides = (FIRST_SIDE,) if looks == "fast" else (FIRST_SIDE, closer)
    for side in sides:
        turned = [face for turn in (1, 2, 3) for face in look(photo, side, FIRST_SCORE, turn)]
        unknown = [replace(face, turn=0, score=0.0) for face in distinct(turned, [])]  # the check finds the direction
        yield _confirmed(photo, _checked_closer(photo, unknown, []))
    for side in sides:
        yield _confirmed(photo, _checked_first(photo, look(photo, side, FIRST_SCORE)))
        yield _named(_confirmed(photo, _checked_first(photo, _padded(photo, side))), "padded")
    yield _named(_confirmed(photo, _checked_first(photo, _mirrored(photo))), "mirrored")


def _confirmed(photo: Photo, faces: list[Face]) -> list[Face]:
    """The faces that are seen at two more sizes: what no look at the whole photo found may be a smiley."""
    return [face for face in faces if confirm(photo, face)]


def _named(faces: list[Face], attempt: str) -> list[Face]:
    """The faces with the way they were found in the name of their detector."""
    return [replace(face, detector=f"{face.detector}+{attempt}") for face in faces]


def _padded(photo: Photo, side: int) -> list[Face]:
    """The faces of a photo with a grey border, a third of its long side wide: for crops that are tight around a face."""
    small, back = _reduced(photo)
    pad = max(small.shape[:2]) // 3
    wide = np.asarray(cv2.copyMakeBorder(small, pad, pad, pad, pad, cv2.BORDER_CONSTANT, value=GREY), np.uint8)
    return [face.moved(-pad, -pad).scaled(*back) for face in look(wide, side, FIRST_SCORE)]


def _mirrored(photo: Photo) -> list[Face]:
    """The faces of the mirrored photo, in coordinates of the photo itself."""
    small, back = _reduced(photo)
    width = small.shape[1]
    faces = []
    for face in look(np.ascontiguousarray(small[:, ::-1]), FIRST_SIDE, FIRST_SCORE):
        x, y, w, h = face.box
        right, left = ((width - 1 - eye[0], eye[1]) for eye in (face.left_eye, face.right_eye))
        faces.append(replace(face, box=(width - x - w, y, w, h), left_eye=left, right_eye=right).scaled(*back))
    return faces


def _reduced(photo: Photo) -> tuple[Photo, tuple[float, float]]:
    """The photo with at most twice SECOND_SIDE pixels along its long side, so that copies are small; and its scales."""
    height, width = photo.shape[:2]
    scale = min(1.0, 2 * SECOND_SIDE / max(height, width))
    small = resized(photo, max(1, round(width * scale)), max(1, round(height * scale)))
    return small, (width / small.shape[1], height / small.shape[0])
