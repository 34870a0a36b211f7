"""Detection: photo -> faces with a box, two eyes and a score, by one of several detectors behind one interface.

`yunet-dlib`, the default, takes boxes from OpenCV's YuNet and eyes from dlib's five-point landmark model in them. It
finds more faces than the others, its eyes are as exact as the best of them, and it is the fastest but for YuNet alone
(docs/detectors.md). `hog` and `cnn` need the package dlib: `pip install 'agecli[detectors]'`.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from agecli.core.errors import InputError
from agecli.core.extras import require
from agecli.images import yunet
from agecli.images.alignment import Photo, Point
from agecli.images.landmarks import find_landmarks

Box = tuple[float, float, float, float]  # x, y, w, h in the photo's pixels


@dataclass(frozen=True)
class Face:
    box: Box
    left_eye: Point  # the one on the photo's left
    right_eye: Point
    score: float
    detector: str

    @property
    def size(self) -> float:
        return self.box[2] * self.box[3]


Detect = Callable[..., list[Face]]  # of a photo; YuNet also takes the side to shrink it to

YUNET_SIDE = 192  # pixels of the photo's long side: enough for the face that a photo is of
YUNET_CLOSE = 640  # enough for the small faces of a group
WORTH_CLOSE = 256  # a photo of hardly more than the first look's pixels shows nothing more in a second one
YUNET_SCORE = 0.5  # its usual 0.9 loses a third of the children in FG-NET
# What only a closer look finds, or a second one in a photo without a face, must be surer: gravel and stars reach 0.72,
# motorcycles 0.77. Of small faces in groups, 1 % are lost by it.
CLOSE_SCORE, SECOND_SCORE = 0.75, 0.8
# dlib's landmarks were trained in boxes of another kind: with s = sqrt(w * h) of YuNet's box, a square of this side
# around a centre this much lower. Fitted on FG-NET, checked on All-Age-Faces (docs/detectors.md).
SQUARE_SIDE, SQUARE_DOWN = 0.894, 0.080
# The middle of the corners of an eye lies below its pupil, by this share of the distance between the eyes.
PUPIL_UP = 0.038


def find_faces(photo: Photo, detector: str = "auto", close: bool = False) -> list[Face]:
    """The faces, the largest first; looking closely, also the small ones. Where nothing is found, `auto` tries other ways."""
    check_detector(detector)
    name = DEFAULT if detector == "auto" else detector
    look = DETECTORS[name]
    faces = look(photo)
    if close and name.startswith("yunet") and max(photo.shape[:2]) > WORTH_CLOSE:
        closer = _surer(_yunet(photo, min(YUNET_CLOSE, max(photo.shape[:2]))), CLOSE_SCORE)
        new = [
            face for face in closer if not any(_same(face, other) for other in faces)
        ]  # those known stay as they are
        faces += new if name == "yunet" else _with_pupils(photo, new)
    if not faces and detector == "auto":
        faces = next((found for found in _rescues(photo, name) if found), [])
    return sorted(faces, key=lambda face: -face.size)


def check_detector(name: str) -> None:
    """Raises InputError for a name that is neither `auto` nor one of DETECTORS."""
    if name not in ("auto", *DETECTORS):
        raise InputError(f"unknown detector `{name}`", hint=f"there are: auto, {', '.join(DETECTORS)}")


def _surer(faces: list[Face], least: float) -> list[Face]:
    return [face for face in faces if face.score >= least]


def _same(one: Face, two: Face) -> bool:
    """Whether the middle of one box lies in the other."""
    x, y, w, h = one.box
    left, top, width, height = two.box
    return left < x + w / 2 < left + width and top < y + h / 2 < top + height


# YuNet, and dlib's landmarks in its boxes


def _yunet(photo: Photo, side: int = YUNET_SIDE) -> list[Face]:
    scale = side / max(photo.shape[:2])
    way = cv2.INTER_AREA if scale < 0.5 else cv2.INTER_LINEAR  # areas take longer, and matter when much is lost
    small = cv2.resize(
        photo, (max(1, round(photo.shape[1] * scale)), max(1, round(photo.shape[0] * scale))), interpolation=way
    )
    back = photo.shape[1] / small.shape[1], photo.shape[0] / small.shape[0]
    faces = []
    for row in yunet.detect(np.asarray(small, np.uint8), YUNET_SCORE):
        x, y, w, h, ax, ay, bx, by = (float(value) * back[i % 2] for i, value in enumerate(row[:8]))
        left, right = sorted(((ax, ay), (bx, by)))
        faces.append(Face((x, y, w, h), left, right, round(float(row[-1]), 4), "yunet"))
    return faces


def _yunet_dlib(photo: Photo, side: int = YUNET_SIDE) -> list[Face]:
    return _with_pupils(photo, _yunet(photo, side))


def _with_pupils(photo: Photo, faces: list[Face]) -> list[Face]:
    """YuNet's faces with more exact eyes."""
    better = []
    for face in faces:
        x, y, w, h = face.box
        s = math.sqrt(w * h)
        half = SQUARE_SIDE * s / 2
        left, right = _pupils(photo, x + w / 2 - half, y + h / 2 + SQUARE_DOWN * s - half, 2 * half)
        better.append(Face(face.box, left, right, face.score, "yunet-dlib"))
    return better


# dlib's own detectors


def _dlib_hog(photo: Photo, upsample: int = 0) -> list[Face]:
    found, scores, _ = _hog_model().run(np.ascontiguousarray(photo), upsample, 0.0)
    return [_dlib_face(photo, rect, score, "hog") for rect, score in zip(found, scores, strict=True)]


def _dlib_cnn(photo: Photo) -> list[Face]:
    return [
        _dlib_face(photo, found.rect, found.confidence, "cnn") for found in _cnn_model()(np.ascontiguousarray(photo), 0)
    ]


def _dlib_face(photo: Photo, rect: Any, score: float, name: str) -> Face:
    left, right = _pupils(photo, rect.left(), rect.top(), rect.width())
    box = (float(rect.left()), float(rect.top()), float(rect.width()), float(rect.height()))
    return Face(box, left, right, round(float(score), 4), name)


def _pupils(photo: Photo, left: float, top: float, side: float) -> tuple[Point, Point]:
    """The pupils in a square around a face, the one on the photo's left first, from the corners of the eyes."""
    corners = find_landmarks(photo, left, top, side)[:4].astype(float) @ (1, 1j)
    right_eye, left_eye = (corners[0] + corners[1]) / 2, (corners[2] + corners[3]) / 2
    up = PUPIL_UP * (right_eye - left_eye) * -1j  # a quarter turn from the line between the eyes
    pupils = left_eye + up, right_eye + up
    return (pupils[0].real, pupils[0].imag), (pupils[1].real, pupils[1].imag)


@cache
def _hog_model() -> Any:
    require("dlib", needed_by="the detector `hog`")
    import dlib

    return dlib.get_frontal_face_detector()


@cache
def _cnn_model() -> Any:
    require("dlib", "face_recognition_models", needed_by="the detector `cnn`")
    import dlib

    return dlib.cnn_face_detection_model_v1(
        str(_package_folder("face_recognition_models") / "models/mmod_human_face_detector.dat")
    )


# Viola and Jones, the paper's


def _haar(photo: Photo) -> list[Face]:
    """OpenCV's face cascade, then its eye cascade in the upper half of each face; a face without two eyes is none."""
    grey = cv2.equalizeHist(cv2.cvtColor(photo, cv2.COLOR_RGB2GRAY))
    found, _, scores = _cascade("frontalface_default").detectMultiScale3(
        grey, 1.1, 4, minSize=(40, 40), outputRejectLevels=True
    )
    faces = []
    for (x, y, w, h), score in zip(found, scores, strict=True):
        upper = grey[y + h // 5 : y + 3 * h // 5, x : x + w]
        eyes = _cascade("eye").detectMultiScale(upper, 1.05, 3, minSize=(w // 8, w // 8))
        centres = sorted(((float(x + ex + ew / 2), float(y + h // 5 + ey + eh / 2)), ew) for ex, ey, ew, eh in eyes)
        halves = [[eye for eye in centres if (eye[0][0] < x + w / 2) == is_left] for is_left in (True, False)]
        if all(halves):
            left, right = (max(half, key=lambda eye: eye[1])[0] for half in halves)
            faces.append(Face((float(x), float(y), float(w), float(h)), left, right, round(float(score), 4), "haar"))
    return faces


@cache
def _cascade(name: str) -> Any:
    return cv2.CascadeClassifier(str(_package_folder("cv2") / f"data/haarcascade_{name}.xml"))


DEFAULT = "yunet-dlib"
DETECTORS: dict[str, Detect] = {
    DEFAULT: _yunet_dlib,
    "yunet": _yunet,
    "hog": _dlib_hog,
    "cnn": _dlib_cnn,
    "haar": _haar,
}


def _package_folder(package: str) -> Path:
    """Where an installed package and its model files are, found without importing it."""
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


# A second look, where nothing was found


def _rescues(photo: Photo, name: str) -> Iterator[list[Face]]:
    """Other ways to look, the likeliest first: with room around a tight crop, closer, in a mirror, by other detectors."""
    looks: list[Detect] = [DETECTORS[name]]
    if name.startswith("yunet"):
        looks += [partial(DETECTORS[name], side=YUNET_CLOSE), partial(DETECTORS[name], side=2 * YUNET_CLOSE)]
    if max(photo.shape[:2]) > 8 * min(photo.shape[:2]):
        return  # a strip: no face, and room around it would take gigabytes
    for look in looks:
        yield _surer(look(photo), SECOND_SCORE)
        yield _surer(_padded(photo, look), SECOND_SCORE)
    yield _surer(_mirrored(photo, looks[0]), SECOND_SCORE)
    if name != "haar":
        yield _haar(photo)


def _padded(photo: Photo, look: Detect) -> list[Face]:
    pad = max(photo.shape[:2]) // 3
    wide = np.asarray(
        cv2.copyMakeBorder(photo, pad, pad, pad, pad, cv2.BORDER_CONSTANT, value=(128, 128, 128)), np.uint8
    )

    def back(point: Point) -> Point:
        return point[0] - pad, point[1] - pad

    return [
        Face((*back(f.box[:2]), *f.box[2:]), back(f.left_eye), back(f.right_eye), f.score, f"{f.detector}+padded")
        for f in look(wide)
    ]


def _mirrored(photo: Photo, look: Detect) -> list[Face]:
    last = photo.shape[1] - 1

    def back(point: Point) -> Point:
        return last - point[0], point[1]

    return [
        Face(
            (photo.shape[1] - f.box[0] - f.box[2], *f.box[1:]),
            back(f.right_eye),
            back(f.left_eye),
            f.score,
            f"{f.detector}+mirrored",
        )
        for f in look(np.ascontiguousarray(photo[:, ::-1]))
    ]
