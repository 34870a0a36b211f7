"""Alignment: the similarity transform that puts both eyes in fixed places of a square crop."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, fields
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from agecli.core.errors import InputError
from agecli.core.reading import read_text, shown

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover
    import tomli as tomllib

Point = tuple[float, float]  # x, y in pixels; the centre of the first pixel is 0, 0
Photo = NDArray[np.uint8]  # (H, W, 3), RGB
GREY = (128, 128, 128)


@dataclass(frozen=True)
class Alignment:
    """Where the eyes are in a crop.

    The defaults leave a margin: a network that crops the central 7/8 sees the face from forehead to chin, as in data sets
    of tight crops, so that those do not differ from others by grey borders.
    """

    size: int = 256  # side of the crop, in pixels
    eye_distance: float = 0.342  # between the eyes, as a share of the side
    eye_height: float = 0.312  # from the top to the line between the eyes, as a share of the side

    def to_toml(self) -> str:
        """The content of alignment.toml."""
        return "".join(f"{field.name} = {getattr(self, field.name)}\n" for field in fields(self))

    @staticmethod
    def read(folder: Path) -> Alignment | None:
        """The alignment.toml that `preprocess` wrote into a folder; None if there is none. Raises InputError."""
        path = folder / "alignment.toml"
        if not path.is_file():
            return None
        try:
            alignment = Alignment(**tomllib.loads(read_text(path)))
            if 16 <= alignment.size <= 4096 and all(0 < s < 1 for s in (alignment.eye_distance, alignment.eye_height)):
                return alignment
            raise ValueError(f"eyes or size out of range in {alignment}")
        except (TypeError, ValueError, RecursionError) as error:
            raise InputError(f"{path} can't be used: {shown(error)}", hint="restore the file") from error

    @property
    def eyes(self) -> tuple[Point, Point]:
        """The left and the right eye in a crop, in pixels; left is the one on the left of the image."""
        middle, half = (self.size - 1) / 2, self.eye_distance * self.size / 2
        y = self.eye_height * self.size - 0.5
        return (middle - half, y), (middle + half, y)


def similarity(left_eye: Point, right_eye: Point, alignment: Alignment) -> NDArray[np.float64]:
    """The rotation, scale and shift that put both eyes in their places: an affine matrix (2, 3), photo -> crop.

    left_eye, right_eye: x, y in pixels of the photo. Raises ValueError if they are the same point.
    """
    goal_left, goal_right = (complex(*eye) for eye in alignment.eyes)
    left, right = complex(*left_eye), complex(*right_eye)
    if left == right:
        raise ValueError(f"both eyes are at {left_eye}")
    factor = (goal_right - goal_left) / (right - left)  # a complex factor is a rotation and a scale
    shift = goal_left - factor * left
    return np.array([[factor.real, -factor.imag, shift.real], [factor.imag, factor.real, shift.imag]])


def align(photo: Photo, left_eye: Point, right_eye: Point, alignment: Alignment) -> Photo:
    """The aligned crop of a face.   photo (H, W, 3), eyes in its pixels -> (size, size, 3)

    Outside of the photo the crop is grey: repeating the edge would draw long foreheads on tight photos. A large face is
    first downsampled by area averaging and then warped bilinearly: sampling it directly would alias.

    Raises ValueError if both eyes are the same point.

        align(photo, face.left_eye, face.right_eye, Alignment(size=224))
    """
    matrix = similarity(left_eye, right_eye, alignment)
    scale = math.hypot(matrix[0, 0], matrix[1, 0])
    if scale < 1:
        photo, matrix = _shrink(*_cut(photo, matrix, alignment.size), scale)
    side = (alignment.size, alignment.size)
    crop = cv2.warpAffine(photo, matrix, side, flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_CONSTANT, borderValue=GREY)
    return np.asarray(crop, dtype=np.uint8)


def _cut(photo: Photo, matrix: NDArray[np.float64], side: int) -> tuple[Photo, NDArray[np.float64]]:
    """The part of the photo that the crop shows, with a margin, and its matrix: the rest need not be downsampled."""
    # as numbers: numpy takes longer for arrays of four
    (a, b, x), (c, d, y) = cv2.invertAffineTransform(matrix).tolist()
    margin = 2 * math.hypot(a, c) + 2
    height, width = photo.shape[:2]
    left, right = _span(x, a * side, b * side, margin, width)
    top, bottom = _span(y, c * side, d * side, margin, height)
    moved = matrix.copy()
    moved[:, 2] += matrix[:, :2] @ (left, top)
    return photo[top:bottom, left:right], moved


def _span(start: float, one: float, two: float, margin: float, limit: int) -> tuple[int, int]:
    """First and last pixel, along one axis, of the parallelogram from `start` with sides `one` and `two`; at least one."""
    low = start + min(0.0, one) + min(0.0, two) - margin
    high = start + max(0.0, one) + max(0.0, two) + margin
    first = int(min(max(low, 0), limit - 1))
    return first, max(int(min(max(high, 1), limit)), first + 1)


def _shrink(photo: Photo, matrix: NDArray[np.float64], scale: float) -> tuple[Photo, NDArray[np.float64]]:
    """The photo downsampled to about the scale of the crop, and its matrix."""
    height, width = photo.shape[:2]
    new_width, new_height = max(1, round(width * scale)), max(1, round(height * scale))
    fx, fy = width / new_width, height / new_height
    # pixel centres: x_old + 1/2 = fx (x_new + 1/2)
    grow = np.array([[fx, 0, (fx - 1) / 2], [0, fy, (fy - 1) / 2], [0, 0, 1]])
    small = cv2.resize(photo, (new_width, new_height), interpolation=cv2.INTER_AREA)
    return np.asarray(small, dtype=np.uint8), matrix @ grow
