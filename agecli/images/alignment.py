"""Alignment: pure geometry from two eyes to a crop in which both are always in the same place."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, fields
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover
    import tomli as tomllib

Point = tuple[float, float]  # x, y in pixels; the centre of the first pixel is 0, 0
Photo = NDArray[np.uint8]  # (H, W, 3), RGB
GREY = (128, 128, 128)


@dataclass(frozen=True)
class Alignment:
    """Where the eyes lie in a crop. With the defaults a network that cuts an eighth off sees what tight data sets show,
    from the forehead to the chin: so nobody's photos have borders where others have a background."""

    size: int = 256  # pixels, both sides
    eye_distance: float = 0.342  # between the eyes, as a share of the side
    eye_height: float = 0.312  # of the eye line below the top, as a share of the side

    def to_toml(self) -> str:
        return "".join(f"{field.name} = {getattr(self, field.name)}\n" for field in fields(self))

    @staticmethod
    def read(folder: Path) -> Alignment | None:
        """How the faces of a folder were aligned, if `preprocess` made it."""
        path = folder / "alignment.toml"
        return Alignment(**tomllib.loads(path.read_text(encoding="utf-8"))) if path.is_file() else None

    @property
    def eyes(self) -> tuple[Point, Point]:
        """The places of the left and the right eye (as one sees them) in a crop."""
        middle, half = (self.size - 1) / 2, self.eye_distance * self.size / 2
        y = self.eye_height * self.size - 0.5
        return (middle - half, y), (middle + half, y)


def similarity(left_eye: Point, right_eye: Point, alignment: Alignment) -> NDArray[np.float64]:
    """The turn, scale and shift that put both eyes in their places.   (2, 3), photo -> crop"""
    goal_left, goal_right = (complex(*eye) for eye in alignment.eyes)
    left, right = complex(*left_eye), complex(*right_eye)
    if left == right:
        raise ValueError(f"both eyes are at {left_eye}")
    turn = (goal_right - goal_left) / (right - left)  # one complex factor is a turn and a scale
    shift = goal_left - turn * left
    return np.array([[turn.real, -turn.imag, shift.real], [turn.imag, turn.real, shift.imag]])


def align(photo: Photo, left_eye: Point, right_eye: Point, alignment: Alignment) -> Photo:
    """The crop. What lies outside of the photo is grey: repeating its edge would draw long foreheads on tight photos.

    A large face is first shrunk by averaging areas, then turned: sampling it directly would skip most of its pixels and
    make noise of its skin. Bilinear sampling for the turn cannot ring.
    """
    matrix = similarity(left_eye, right_eye, alignment)
    scale = math.hypot(matrix[0, 0], matrix[1, 0])
    if scale < 1:
        photo, matrix = _shrink(*_cut(photo, matrix, alignment.size), scale)
    side = (alignment.size, alignment.size)
    crop = cv2.warpAffine(photo, matrix, side, flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_CONSTANT, borderValue=GREY)
    return np.asarray(crop, dtype=np.uint8)


def _cut(photo: Photo, matrix: NDArray[np.float64], side: int) -> tuple[Photo, NDArray[np.float64]]:
    """Only the part of the photo that the crop shows, with a margin: the rest need not be shrunk."""
    back = cv2.invertAffineTransform(matrix)
    corners = back @ np.array([[0, side, 0, side], [0, 0, side, side], [1, 1, 1, 1]])
    margin = 2 * np.linalg.norm(back[:, 0]) + 2
    height, width = photo.shape[:2]
    left, top = (
        int(np.clip(low - margin, 0, limit - 1)) for low, limit in zip(corners.min(1), (width, height), strict=True)
    )
    right, bottom = (
        int(np.clip(high + margin, 1, limit)) for high, limit in zip(corners.max(1), (width, height), strict=True)
    )
    moved = matrix.copy()
    moved[:, 2] += matrix[:, :2] @ (left, top)
    return photo[top : max(bottom, top + 1), left : max(right, left + 1)], moved


def _shrink(photo: Photo, matrix: NDArray[np.float64], scale: float) -> tuple[Photo, NDArray[np.float64]]:
    """The photo at about the crop's own scale, and the matrix that goes with it."""
    height, width = photo.shape[:2]
    new_width, new_height = max(1, round(width * scale)), max(1, round(height * scale))
    fx, fy = width / new_width, height / new_height
    # pixel centres: x_old + 1/2 = fx (x_new + 1/2)
    grow = np.array([[fx, 0, (fx - 1) / 2], [0, fy, (fy - 1) / 2], [0, 0, 1]])
    small = cv2.resize(photo, (new_width, new_height), interpolation=cv2.INTER_AREA)
    return np.asarray(small, dtype=np.uint8), matrix @ grow
