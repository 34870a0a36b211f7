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
    """A detected face, in pixels of the photo."""

    box: Box
    left_eye: Point  # the one on the photo's left
    right_eye: Point
    score: float  # of the detector; comparable between faces of one detector only
    detector: str  # and how it was applied: `yunet-dlib+padded`

    @property
    def size(self) -> float:
        """The area of the box, in square pixels."""
        return self.box[2] * self.box[3]


Detect = Callable[..., list[Face]]  # takes a photo; YuNet's also take the side to resize it to

YUNET_SIDE = 192  # pixels of the photo's long side: enough for the main face of a photo
YUNET_CLOSE = 640  # enough for the small faces of a group
WORTH_CLOSE = 256  # pixels of the long side; a smaller photo shows nothing more at a higher resolution
YUNET_SCORE = 0.5  # the usual threshold of 0.9 misses a third of the children in FG-NET
# Thresholds for faces found at a higher resolution only, or by a retry: gravel and stars reach 0.72, motorcycles 0.77.
# 1 % of the small faces in groups are lost by them.
CLOSE_SCORE, RETRY_SCORE = 0.75, 0.8
# dlib's landmarks were trained in other boxes than YuNet's: with s = sqrt(w * h) of YuNet's box, in a square of side
# SQUARE_SIDE * s, whose centre is SQUARE_DOWN * s lower. Fitted on FG-NET, checked on All-Age-Faces (docs/detectors.md).
SQUARE_SIDE, SQUARE_DOWN = 0.894, 0.080
# The midpoint of an eye's corners is below its pupil, by this share of the distance between the eyes.
PUPIL_UP = 0.038


def find_faces(photo: Photo, detector: str = "auto", close: bool = False) -> list[Face]:
    """The faces of a photo, the largest box first.

    photo: (H, W, 3) uint8, RGB, upright.   detector: `auto` or one of DETECTORS.
    close: search at a higher resolution too, for the small faces of a group (YuNet only).

    If nothing is found, `auto` retries with padding, at higher resolutions, mirrored, and with Haar cascades.
    Raises InputError for an unknown detector, MissingError if its package is not installed.

        find_faces(np.asarray(Image.open("photo.jpg").convert("RGB")))[0].box
    """
    check_detector(detector)
    name = DEFAULT if detector == "auto" else detector
    faces = DETECTORS[name](photo)
    if close and name.startswith("yunet") and max(photo.shape[:2]) > WORTH_CLOSE:
        closer = _with_score(_yunet(photo, min(YUNET_CLOSE, max(photo.shape[:2]))), CLOSE_SCORE)
        new = [face for face in closer if not any(_same(face, other) for other in faces)]
        faces += new if name == "yunet" else _with_pupils(photo, new)
    if not faces and detector == "auto":
        faces = next((found for found in _retries(photo, name) if found), [])
    return sorted(faces, key=lambda face: -face.size)


def check_detector(name: str) -> None:
    """Raises InputError for a name that is neither `auto` nor one of DETECTORS."""
    if name not in ("auto", *DETECTORS):
        raise InputError(f"unknown detector `{name}`", hint=f"there are: auto, {', '.join(DETECTORS)}")


def _with_score(faces: list[Face], least: float) -> list[Face]:
    """The faces with at least this score."""
    return [face for face in faces if face.score >= least]


def _same(one: Face, two: Face) -> bool:
    """Whether the centre of the first box is inside of the second."""
    x, y, w, h = one.box
    left, top, width, height = two.box
    return left < x + w / 2 < left + width and top < y + h / 2 < top + height


# YuNet, and dlib's landmarks in its boxes


def _yunet(photo: Photo, side: int = YUNET_SIDE) -> list[Face]:
    """YuNet's boxes and eyes, with the photo resized so that its long side has `side` pixels."""
    scale = side / max(photo.shape[:2])
    interpolation = cv2.INTER_AREA if scale < 0.5 else cv2.INTER_LINEAR  # area averaging is slower
    width, height = (max(1, round(length * scale)) for length in (photo.shape[1], photo.shape[0]))
    small = cv2.resize(photo, (width, height), interpolation=interpolation)
    back = photo.shape[1] / small.shape[1], photo.shape[0] / small.shape[0]
    faces = []
    for row in yunet.detect(np.asarray(small, np.uint8), YUNET_SCORE):
        x, y, w, h, ax, ay, bx, by = (float(value) * back[i % 2] for i, value in enumerate(row[:8]))
        left, right = sorted(((ax, ay), (bx, by)))
        faces.append(Face((x, y, w, h), left, right, round(float(row[-1]), 4), "yunet"))
    return faces


def _yunet_dlib(photo: Photo, side: int = YUNET_SIDE) -> list[Face]:
    """YuNet's boxes with eyes from the landmarks in them."""
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


def _dlib_hog(photo: Photo) -> list[Face]:
    """dlib's detector of histograms of oriented gradients, without upsampling."""
    found, scores, _ = _hog_model().run(np.ascontiguousarray(photo), 0, 0.0)  # without upsampling
    return [_dlib_face(photo, rect, score, "hog") for rect, score in zip(found, scores, strict=True)]


def _dlib_cnn(photo: Photo) -> list[Face]:
    """dlib's CNN detector: exact, and slow without a GPU."""
    return [
        _dlib_face(photo, found.rect, found.confidence, "cnn") for found in _cnn_model()(np.ascontiguousarray(photo), 0)
    ]


def _dlib_face(photo: Photo, rect: Any, score: float, name: str) -> Face:
    """A face from dlib's rectangle, whose eyes come from the landmarks in it."""
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
    """Loaded once per process. Raises MissingError without dlib."""
    require("dlib", needed_by="the detector `hog`")
    import dlib

    return dlib.get_frontal_face_detector()


@cache
def _cnn_model() -> Any:
    """Loaded once per process. Raises MissingError without dlib or its model file."""
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
    """One of OpenCV's Haar cascades, loaded once per process."""
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


# Retries, where nothing was found


def _retries(photo: Photo, name: str) -> Iterator[list[Face]]:
    """The faces by each other way to detect, the most promising first: padded, larger, mirrored, another detector."""
    if max(photo.shape[:2]) > 8 * min(photo.shape[:2]):
        return  # a strip has no face, and padding it would take gigabytes
    detectors: list[Detect] = [DETECTORS[name]]
    if name.startswith("yunet"):
        detectors += [partial(DETECTORS[name], side=side) for side in (YUNET_CLOSE, 2 * YUNET_CLOSE)]
    for detect in detectors:
        yield _with_score(detect(photo), RETRY_SCORE)
        yield _with_score(_padded(photo, detect), RETRY_SCORE)
    yield _with_score(_mirrored(photo, detectors[0]), RETRY_SCORE)
    if name != "haar":
        yield _haar(photo)


def _padded(photo: Photo, detect: Detect) -> list[Face]:
    """The faces of a photo with a grey border, a third of its long side wide: for crops that are tight around a face."""
    pad = max(photo.shape[:2]) // 3
    wide = cv2.copyMakeBorder(photo, pad, pad, pad, pad, cv2.BORDER_CONSTANT, value=(128, 128, 128))
    return [_moved(face, -pad) for face in detect(np.asarray(wide, np.uint8))]


def _moved(face: Face, by: float) -> Face:
    """A face of the padded photo in coordinates of the photo itself."""
    x, y, w, h = face.box
    left, right = ((eye[0] + by, eye[1] + by) for eye in (face.left_eye, face.right_eye))
    return Face((x + by, y + by, w, h), left, right, face.score, f"{face.detector}+padded")


def _mirrored(photo: Photo, detect: Detect) -> list[Face]:
    """The faces of the mirrored photo, in coordinates of the photo itself."""
    width = photo.shape[1]
    faces = []
    for face in detect(np.ascontiguousarray(photo[:, ::-1])):
        x, y, w, h = face.box
        right, left = ((width - 1 - eye[0], eye[1]) for eye in (face.left_eye, face.right_eye))
        faces.append(Face((width - x - w, y, w, h), left, right, face.score, f"{face.detector}+mirrored"))
    return faces
