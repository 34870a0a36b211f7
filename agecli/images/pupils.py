"""Pupils: exact eyes of a face in the box of a detector, from five landmarks."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from agecli.images.alignment import Photo, Point
from agecli.images.faces import Face
from agecli.images.landmarks import find_landmarks

# dlib's landmarks were trained in other boxes than YuNet's: with s = sqrt(w * h) of YuNet's box, in a square of side
# SQUARE_SIDE * s, whose centre is SQUARE_DOWN * s lower. Fitted on FG-NET, checked on All-Age-Faces (docs/detectors.md).
SQUARE_SIDE, SQUARE_DOWN = 0.894, 0.080
# The midpoint of an eye's corners is below its pupil, by this share of the distance between the eyes.
PUPIL_UP = 0.038


def with_pupils(photo: Photo, face: Face) -> Face:
    """A face of YuNet's with more exact eyes; its detector is called `yunet-dlib`."""
    name = face.detector.replace("yunet", "yunet-dlib", 1)
    if not face.turn:
        left, right = pupils(photo, *_square(face))
        return replace(face, left_eye=left, right_eye=right, detector=name)
    cut, x, y = _around(photo, face)
    height, width = cut.shape[:2]
    upright = face.moved(-x, -y).turned_back(4 - face.turn, *((height, width) if face.turn % 2 else (width, height)))
    left, right = pupils(np.ascontiguousarray(np.rot90(cut, face.turn)), *_square(upright))
    exact = replace(upright, left_eye=left, right_eye=right, detector=name)
    return exact.turned_back(face.turn, width, height).moved(x, y)


def pupils(photo: Photo, left: float, top: float, side: float) -> tuple[Point, Point]:
    """The pupils in a square around an upright face, the one on the photo's left first, from the corners of the eyes."""
    corners = find_landmarks(photo, left, top, side)[:4].astype(float) @ (1, 1j)
    right_eye, left_eye = (corners[0] + corners[1]) / 2, (corners[2] + corners[3]) / 2
    up = PUPIL_UP * (right_eye - left_eye) * -1j  # a quarter turn from the line between the eyes
    found = left_eye + up, right_eye + up
    return (found[0].real, found[0].imag), (found[1].real, found[1].imag)


def _square(face: Face) -> tuple[float, float, float]:
    """Left, top and side of the square in which the landmarks are searched."""
    x, y, w, h = face.box
    s = math.sqrt(w * h)
    half = SQUARE_SIDE * s / 2
    return x + w / 2 - half, y + h / 2 + SQUARE_DOWN * s - half, 2 * half


def _around(photo: Photo, face: Face) -> tuple[Photo, int, int]:
    """The part of a photo twice as large as a face's box, and its corner."""
    x, y, w, h = face.box
    left, top = max(0, int(x - w / 2)), max(0, int(y - h / 2))
    return photo[top : math.ceil(y + 1.5 * h), left : math.ceil(x + 1.5 * w)], left, top
