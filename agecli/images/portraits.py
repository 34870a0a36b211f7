"""Portraits: the main face of a photo, if it is large and upright, by looks of 96 and 64 pixels.

A look takes time with its area, and these together a quarter of the first look of `detection` and its turned ones. They
decide what is plain, nothing else: a photo that they do not accept is looked at as if they had not been there.

The thresholds were chosen on 5,000 photos of five data sets, each in four directions. A face is accepted in 91 % (APPA-REAL)
to 99 % (FG-NET, UTKFace) of the upright photos, and in none of the 15,000 turned ones (docs/detectors.md).
"""

from __future__ import annotations

import math

import numpy as np

from agecli.images.alignment import Photo
from agecli.images.faces import Face
from agecli.images.looks import detect, shrunk

SIDE = 96  # pixels of the photo's long side
TURNED_SIDE = 64  # pixels, to compare directions: smaller, faces that are not upright lose more of their score
ANY_SCORE = 0.5  # of other faces
MOST_OTHER = 0.25  # of the face's area; a larger one beside it might be the main one (`face_finder.main_face`)
LEAST_SIZE = 40  # pixels of the face at SIDE; of 1,200 pictures without a face, one has one so large, with 0.69
LEAST_SCORE = 0.85  # at SIDE
LEAST_EYES = 0.28  # distance of YuNet's eyes / side of the box; a head that is turned more may be in profile
SURE_SCORE = 0.93  # at SIDE: upright. Upside down, faces have up to 0.926
UPRIGHT_SCORE = 0.905  # at SIDE: upright or upside down. On their side, faces have up to 0.90, few more
UPRIGHT_TURNED_SCORE = 0.85  # at TURNED_SIDE, in its own direction, too: those few have less there
# In another direction, at TURNED_SIDE, the score is lower by so much than at SIDE: upside down, and any if it is unsure
UPSIDE_DOWN_MARGIN, ANY_MARGIN = 0.02, 0.06
SAME_MARGIN = 0.01  # and by so much than in its own direction at TURNED_SIDE


def portrait(photo: Photo) -> Face | None:
    """The main face, with YuNet's box and eyes, if it plainly is large, upright and not in profile; else None.

    photo: (H, W, 3) uint8, RGB.

        portrait(photo) or find_faces(photo)
    """
    height, width = photo.shape[:2]
    small = shrunk(photo, SIDE)
    faces = sorted(detect(small, ANY_SCORE), key=lambda face: -face.size)
    if not faces or not _is_plain(face := faces[0]) or any(other.size > MOST_OTHER * face.size for other in faces[1:]):
        return None
    if not _is_upright(face.score, small):
        return None
    return face.scaled(width / small.shape[1], height / small.shape[0])


def _is_plain(face: Face) -> bool:
    """Whether a face is one, large, and seen from the front or nearly so."""
    apart = face.eye_distance >= LEAST_EYES * math.sqrt(face.size)
    return face.score >= LEAST_SCORE and max(face.box[2:]) >= LEAST_SIZE and apart


def _is_upright(score: float, small: Photo) -> bool:
    """Whether a face with this score at SIDE is upright, as the photo turned the other ways shows less of one."""
    if score >= SURE_SCORE:
        return True
    tiny = shrunk(small, TURNED_SIDE)
    own = max((face.score for face in detect(tiny, ANY_SCORE)), default=None)
    if own is None:
        return False
    sure = score >= UPRIGHT_SCORE and own >= UPRIGHT_TURNED_SCORE
    turns, margin = ((2,), UPSIDE_DOWN_MARGIN) if sure else ((2, 1, 3), ANY_MARGIN)
    least = min(score - margin, own - SAME_MARGIN)
    return not any(detect(np.rot90(tiny, turn), least) for turn in turns)
