"""Looks: YuNet on a photo, as a whole at one resolution or in tiles at a higher one, at bounded cost and memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

import cv2
import numpy as np
from numpy.typing import NDArray

from agecli.images import yunet
from agecli.images.alignment import Photo
from agecli.images.faces import Face

TILE = 1024  # pixels; the longest side that the network sees at once
OVERLAP = 128  # pixels of a tile that its neighbour shows too: a face up to this size is whole in one of them
# A face seen from the side, in YuNet's landmarks: the eyes are closer together than this share of the box's side, and the
# nose is farther from their middle than this share of the distance between them. No face of FG-NET or All-Age-Faces is.
PROFILE_EYES, PROFILE_NOSE = 0.2, 0.5


def look(photo: Photo, side: int, min_score: float, turn: int = 0) -> list[Face]:
    """The faces of a photo whose long side is resized to `side` pixels, with YuNet's own eyes.

    photo: (H, W, 3), RGB, of any size.   turn: quarter turns anticlockwise of the photo, before it is looked at.
    """
    height, width = photo.shape[:2]
    small = shrunk(photo, side)
    faces = detect(np.rot90(small, turn), min_score)
    back = width / small.shape[1], height / small.shape[0]
    return [face.turned_back(turn, small.shape[1], small.shape[0]).scaled(*back) for face in faces]


def look_in_tiles(photo: Photo, most_pixels: int, min_score: float) -> list[Face]:
    """The faces of a photo in tiles, at its own resolution or, if it has more, at that of `most_pixels` pixels.

    Faces at the border of a tile are left out: they are whole in another one, or larger than OVERLAP pixels.
    """
    height, width = photo.shape[:2]
    scale = min(1.0, math.sqrt(most_pixels / (height * width)))
    faces = []
    for (top, bottom), (left, right) in product(_parts(height, scale), _parts(width, scale)):
        cut = photo[top:bottom, left:right]
        tile = resized(cut, round((right - left) * scale), round((bottom - top) * scale))
        back = cut.shape[1] / tile.shape[1], cut.shape[0] / tile.shape[0]
        for face in detect(tile, min_score):
            whole = face.scaled(*back).moved(left, top)
            x, y, w, h = whole.box
            inside = (x > left or left == 0) and (y > top or top == 0)
            if inside and (x + w < right or right == width) and (y + h < bottom or bottom == height):
                faces.append(whole)
    return faces


def _parts(length: int, scale: float) -> Iterator[tuple[int, int]]:
    """The first and last pixel of each tile along one side of a photo."""
    tile, overlap = TILE / scale, OVERLAP / scale
    count = max(1, math.ceil((length - overlap) / (tile - overlap)))
    step = (length - overlap) / count
    for number in range(count):
        yield int(number * step), length if number == count - 1 else int((number + 1) * step + overlap)


def shrunk(photo: Photo, side: int) -> Photo:
    """The photo with so many pixels along its long side."""
    height, width = photo.shape[:2]
    scale = side / max(height, width)
    return resized(photo, max(1, round(width * scale)), max(1, round(height * scale)))


def resized(photo: Photo, width: int, height: int) -> Photo:
    """The photo in another size; area averaging, which is slower, only where it makes a difference."""
    if photo.shape[:2] == (height, width):
        return photo
    interpolation = cv2.INTER_AREA if max(width, height) < 0.5 * max(photo.shape[:2]) else cv2.INTER_LINEAR
    size = (max(1, width), max(1, height))
    return np.asarray(cv2.resize(photo, size, interpolation=interpolation), np.uint8)


def detect(photo: Photo, min_score: float) -> list[Face]:
    """YuNet's faces, at the photo's own resolution."""
    return [_face(row) for row in yunet.detect(photo, min_score)]


def _face(row: NDArray[np.float32]) -> Face:
    """A face from a row of YuNet: box, eyes, nose, corners of the mouth, score."""
    x, y, w, h, *points = (float(value) for value in row[:-1])
    a, b, nose = (complex(*points[start : start + 2]) for start in (0, 2, 4))
    across = b - a
    sideways = ((nose - (a + b) / 2) * across.conjugate()).real  # times |across|
    profile = abs(across) < PROFILE_EYES * math.sqrt(w * h) and abs(sideways) > PROFILE_NOSE * abs(across) ** 2
    left, right = sorted(((a.real, a.imag), (b.real, b.imag)))
    return Face((x, y, w, h), left, right, round(float(row[-1]), 4), "yunet", profile=profile)
