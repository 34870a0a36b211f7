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
AGAIN_SCORE = (
    0.45  # at a second size: the least of 110 unsure faces of five data sets is 0.46; smileys look so at one size
)
CONFIRMED = {96: 0.7, 128: 0.5}  # pixels -> least score; smileys that a retry finds have less than 0.2 at 128
FINE_SIZE, FINE_SCORE = 192, 0.4  # 0.64 and more for large faces that are unsure; smileys and clothes have at most 0.17
ALL_SIZES = (48, 64, 96, 128)
ALL_SCORE = 0.72  # small faces that are unsure have 0.82 and more at all sizes; a spoon or a lamp has less at one
SURE_CHECK = 0.86  # of a small face that need not be seen at all sizes
LARGE_FACE = 150  # pixels of the photo: so large a face has the detail of FINE_SIZE
UPRIGHT_SCORE = 0.905  # of an upright look; a face on its side has less, but one upside down up to 0.915
TURNED_SCORE = 0.85  # of a turned face, at least
TURNED_MARGIN = 0.005  # how much better than upright; the right direction is better by 0.016 and more
UNSURE_MARGIN = 0.04  # if another direction is so much better, but below TURNED_SCORE, the face is none
ANY_SCORE = 0.02  # of YuNet, when the question is how high the score is


def check(photo: Photo, face: Face, min_score: float) -> Face | None:
    """A small face with box, eyes and score of the second look; None if that does not confirm it.

    min_score: of the second look, in which box and eyes are more exact.
    """
    seen = _seen(photo, face, SIZE, 0)
    if seen and seen.score >= UPRIGHT_SCORE:
        return seen
    best = _best_direction(photo, face, seen, (1, 2, 3))
    return best if best and best.score >= min_score and _seen_at_all_sizes(photo, best) else None


def check_first(photo: Photo, face: Face, min_score: float, turn: bool = True) -> Face | None:
    """A face of the first look as it is, or in another direction; None if it is not confirmed at two of three sizes.

    min_score: at one of them; at another one AGAIN_SCORE is enough.   turn: whether its direction is checked, too.
    A large face must also be seen finely, in its direction.
    """
    seen = _seen(photo, face, SIZE, face.turn)
    if turn:
        others = (2,) if face.score >= UPRIGHT_SCORE else (1, 2, 3)
        best = _best_direction(photo, face, seen, [(face.turn + more) % 4 for more in others])
        if best is None or best.turn != face.turn:
            return best if best and _seen_finely(photo, best) else None
    more = (_seen(photo, face, size, face.turn) for size in MORE_SIZES)
    scores: list[float] = []
    for found in chain([seen], more):
        scores.append(found.score if found else 0.0)
        if max(scores) >= min_score and sum(score >= AGAIN_SCORE for score in scores) >= 2:
            return named(face) if _seen_finely(photo, face) else None
    return None


def confirm(photo: Photo, face: Face) -> bool:
    """Whether a face is seen in its direction at each of CONFIRMED's sizes, with the score there; a large one finely, too."""
    found = ((_seen(photo, face, size, face.turn), least) for size, least in CONFIRMED.items())
    return all(seen is not None and seen.score >= least for seen, least in found) and _seen_finely(photo, face)


def _seen_finely(photo: Photo, face: Face) -> bool:
    """Whether a large face is one in detail, too; True for others, which have none."""
    if max(face.box[2:]) < LARGE_FACE:
        return True
    seen = _seen(photo, face, FINE_SIZE, face.turn)
    return seen is not None and seen.score >= FINE_SCORE


def _seen_at_all_sizes(photo: Photo, face: Face) -> bool:
    """Whether a small face that is unsure is one at other sizes, too, as seen from its more exact box."""
    if face.score >= SURE_CHECK:
        return True
    found = (_seen(photo, face, size, face.turn) for size in ALL_SIZES)
    return all(seen is not None and seen.score >= ALL_SCORE for seen in found)


def _best_direction(photo: Photo, face: Face, own: Face | None, turns: Sequence[int]) -> Face | None:
    """The face as it is seen best, in its own direction or after these quarter turns; None if that is not sure.

    own: how it is seen in its own direction; the face itself, with a score of 0, is returned if it is not seen at all.
    """
    own = own or replace(face, score=0.0)
    found = [seen for turn in turns if (seen := _seen(photo, face, SIZE, turn))]
    other = max(found, key=lambda seen: seen.score, default=own)
    if other.score < own.score + TURNED_MARGIN:
        return own
    if other.score >= TURNED_SCORE:
        return named(other)
    return None if other.score >= own.score + UNSURE_MARGIN else own


def named(face: Face) -> Face:
    """The face, with its direction in the name of its detector if it is not upright."""
    return replace(face, detector=f"{face.detector}+turned") if face.turn else face


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
