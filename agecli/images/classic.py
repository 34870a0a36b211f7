"""Classic detectors: dlib's HOG and CNN (extra `detectors`), and Viola and Jones's Haar cascades, as in the paper."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable
from functools import cache, wraps
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from agecli.core.extras import require
from agecli.images.alignment import Photo
from agecli.images.faces import Face
from agecli.images.looks import resized
from agecli.images.pupils import pupils

MOST_PIXELS = 1_500_000  # larger photos are shrunk: at full size these detectors take gigabytes

Detect = Callable[[Photo], list[Face]]


def _bounded(detect: Detect) -> Detect:
    """A detector whose photos have at most MOST_PIXELS pixels."""

    @wraps(detect)
    def run(photo: Photo) -> list[Face]:
        height, width = photo.shape[:2]
        scale = math.sqrt(MOST_PIXELS / (height * width))
        if scale >= 1:
            return detect(photo)
        small = resized(photo, round(width * scale), round(height * scale))
        return [face.scaled(width / small.shape[1], height / small.shape[0]) for face in detect(small)]

    return run


@_bounded
def hog(photo: Photo) -> list[Face]:
    """dlib's detector of histograms of oriented gradients, without upsampling."""
    found, scores, _ = hog_model().run(np.ascontiguousarray(photo), 0, 0.0)  # without upsampling
    return [_dlib_face(photo, rect, score, "hog") for rect, score in zip(found, scores, strict=True)]


@_bounded
def cnn(photo: Photo) -> list[Face]:
    """dlib's CNN detector: exact, and slow without a GPU."""
    return [
        _dlib_face(photo, found.rect, found.confidence, "cnn") for found in cnn_model()(np.ascontiguousarray(photo), 0)
    ]


def _dlib_face(photo: Photo, rect: Any, score: float, name: str) -> Face:
    """A face from dlib's rectangle, whose eyes come from the landmarks in it."""
    left, right = pupils(photo, rect.left(), rect.top(), rect.width())
    box = (float(rect.left()), float(rect.top()), float(rect.width()), float(rect.height()))
    return Face(box, left, right, round(float(score), 4), name)


@cache
def hog_model() -> Any:
    """Loaded once per process. Raises MissingError without dlib."""
    require("dlib", needed_by="the detector `hog`")
    import dlib

    return dlib.get_frontal_face_detector()


@cache
def cnn_model() -> Any:
    """Loaded once per process. Raises MissingError without dlib or its model file."""
    require("dlib", "face_recognition_models", needed_by="the detector `cnn`")
    import dlib

    return dlib.cnn_face_detection_model_v1(
        str(_package_folder("face_recognition_models") / "models/mmod_human_face_detector.dat")
    )


@_bounded
def haar(photo: Photo) -> list[Face]:
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


def _package_folder(package: str) -> Path:
    """Where an installed package and its model files are, found without importing it."""
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent
