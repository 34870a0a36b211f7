"""Checks: a second look at a face that the first one was not sure of, enlarged and in four directions.

A smiley, a collar or gravel looks like a face at one resolution only, and a face that lies on its side or upside down
gets a box in an upright look, but wrong eyes and a lower score than in its own direction (docs/detectors.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from agecli.images.alignment import Alignment, Photo, align
from agecli.images.faces import Face
from agecli.images.looks import detect

SIZE = 96  # pixels of a face in an enlarged crop; the crop is twice as wide
MORE_SIZES = (128, 192)
UPRIGHT_SCORE = 0.9  # of a face that is not compared with its turned copies
TURNED_SCORE, TURNED_MARGIN = 0.85, 0.04  # of a turned face, at least; and how much better than upright
ANY_SCORE = 0.02  # of YuNet, when the question is how high the score is


def check(photo: Photo, face: Face, min_score: float) -> Face | None:
    """A small face with box, eyes and score of the second look; None if that does not confirm it.

    min_score: of the second look, in which box and eyes are more exact.
    """
    seen = _seen(photo, face, SIZE, 0)
    return _turned(photo, face, seen) or (seen if seen and seen.score >= min_score else None)


def check_first(photo: Photo, face: Face, min_score: float) -> Face | None:
    """A face of the first look as it is, or in another direction; None if it is not confirmed at any of three sizes."""
    seen = _seen(photo, face, SIZE, 0)
    if turned := _turned(photo, face, seen):
        return turned
    others = (_seen(photo, face, size, 0) for size in MORE_SIZES)
    return face if any(found and found.score >= min_score for found in chain([seen], others)) else None


def _turned(photo: Photo, face: Face, upright: Face | None) -> Face | None:
    """The face in another direction, if it is seen better than upright there."""
    best = max(face.score, upright.score if upright else 0.0)
    if best >= UPRIGHT_SCORE:
        return None
    found = [seen for turn in (1, 2, 3) if (seen := _seen(photo, face, SIZE, turn))]
    other = max(found, key=lambda seen: seen.score, default=None)
    if other is None or other.score < max(TURNED_SCORE, best + TURNED_MARGIN):
        return None
    return replace(other, detector=f"{other.detector}+turned")


def _seen(photo: Photo, face: Face, size: int, turn: int) -> Face | None:
    """The best face that YuNet sees in the same place, enlarged or shrunk to about `size` pixels, in the photo's pixels."""
    x, y, w, h = face.box
    half = max(w, h) / 2
    crop = Alignment(size=2 * size, eye_distance=0.5, eye_height=0.5)  # the ends of the box in place of the eyes
    ends = (x + w / 2 - half, y + h / 2), (x + w / 2 + half, y + h / 2)
    pixels = align(photo, *ends, crop)
    found = detect(np.rot90(pixels, turn), ANY_SCORE)
    best = max(_central(found, size), key=lambda face: face.score, default=None)
    if best is None:
        return None
    scale = 2 * half / size
    corner = crop.eyes[0]
    back = best.turned_back(turn, 2 * size, 2 * size).scaled(scale, scale)
    return back.moved(ends[0][0] - corner[0] * scale, ends[0][1] - corner[1] * scale)


def _central(faces: Sequence[Face], size: int) -> list[Face]:
    """Those of about the expected size in the middle of an enlarged crop."""
    kept = []
    for face in faces:
        x, y, w, h = face.box
        if math.dist((x + w / 2, y + h / 2), (size, size)) < 0.35 * size and 0.5 < max(w, h) / size < 2:
            kept.append(face)
    return kept
