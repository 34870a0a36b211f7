"""Five face landmarks in the box of a detector: dlib's cascade of regression trees, evaluated with numpy.

landmarks.npz is dlib's `shape_predictor_5_face_landmarks.dat`, which its author Davis King released into the public
domain, converted by models/recipe/landmarks.py. The method is that of Kazemi and Sullivan, "One millisecond face
alignment with an ensemble of regression trees", CVPR 2014.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from agecli.images.alignment import Photo

POINTS = 5
GREY = np.array([[1 / 3, 1 / 3, 1 / 3, -1 / 3]])  # rounded to the nearest integer: the mean of R, G, B, rounded down


@dataclass(frozen=True)
class Stage:
    """One step of the cascade: T trees of D levels that compare pairs of P pixels around the current landmarks.

    Node n of tree t is at index n T + t. Its children are the nodes 2n + 1 (left) and 2n + 2 (right); the nodes after
    the last split are the leaves. All splits are compared at once, also those that no path reaches: numpy takes less time
    for a few long arrays than for many short ones.
    """

    x: NDArray[np.float32]  # (P, 10): landmarks x0, y0, x1, … -> x of the pixels
    y: NDArray[np.float32]  # (P, 10): the same for y; one matrix for both would start threads in OpenBLAS
    first: NDArray[np.intp]  # (splits,): the first of the two pixels that a split compares
    second: NDArray[np.intp]  # (splits,)
    threshold: NDArray[np.int16]  # (splits,): left if the first pixel is brighter by more than this
    left: NDArray[np.int32]  # (splits,): index of the left child; the right one is T later
    leaves: NDArray[np.float32]  # (leaves, 10): displacements of the landmarks, as a share of the square's side


def find_landmarks(photo: Photo, left: float, top: float, side: float) -> NDArray[np.float32]:
    """The landmarks of the face in a square of the photo.

    photo: (H, W, 3) uint8, RGB; left, top, side: the square in pixels, which may reach beyond the photo.
    Returns (5, 2), x and y in pixels: the outer and inner corner of the eye on the photo's right, the outer and inner
    corner of the eye on its left, and the base of the nose.

    >>> find_landmarks(photo, 120, 80, 200)[:4]  # the corners of the eyes
    """
    mean_shape, stages = _model()
    points = (mean_shape * side + (left, top)).astype(np.float32).reshape(-1)
    for stage in stages:
        grey = _sample(photo, stage.x @ points, stage.y @ points)
        points = points + np.float32(side) * _displacement(stage, grey)
    return points.reshape(POINTS, 2)


def _sample(photo: Photo, x: NDArray[np.float32], y: NDArray[np.float32]) -> NDArray[np.int16]:
    """Grey values (P,) of the pixels nearest to x, y (P,); 0 outside of the photo."""
    colours = cv2.remap(photo, x, y, cv2.INTER_NEAREST, borderMode=cv2.BORDER_CONSTANT)
    return cv2.transform(colours, GREY).reshape(-1).astype(np.int16)


def _displacement(stage: Stage, grey: NDArray[np.int16]) -> NDArray[np.float32]:
    """Sum over all trees of the leaf that the pixels lead to, (10,)."""
    splits = len(stage.threshold)
    trees = len(stage.leaves) - splits
    goes_right = grey.take(stage.first) - grey.take(stage.second) <= stage.threshold
    child = stage.left + np.int32(trees) * goes_right
    node = child[:trees]  # of the roots
    while node[0] < splits:
        node = child.take(node)
    values = stage.leaves.take(node - splits, axis=0)
    total: NDArray[np.float32] = np.ones(trees, np.float32) @ values
    return total


@cache
def _model() -> tuple[NDArray[np.float32], list[Stage]]:
    """The mean shape (5, 2), as a share of the square, and the stages of the cascade."""
    with np.load(Path(__file__).with_name("landmarks.npz")) as file:
        arrays = {name: file[name] for name in file.files}
    mean_shape = arrays["mean_shape"]
    stages = [
        Stage(
            *_places(mean_shape, anchors, offsets),
            pairs[0].astype(np.intp),
            pairs[1].astype(np.intp),
            thresholds.astype(np.int16),
            _left_children(len(thresholds), len(leaves) - len(thresholds)),
            leaves.astype(np.float32),
        )
        for anchors, offsets, pairs, thresholds, leaves in zip(
            *(arrays[name] for name in ("anchors", "offsets", "pairs", "thresholds", "leaves")), strict=True
        )
    ]
    return mean_shape, stages


def _left_children(splits: int, trees: int) -> NDArray[np.int32]:
    """The index (2n + 1) T + t of the left child of each split n T + t.   (splits,)"""
    split = np.arange(splits, dtype=np.int32)
    return 2 * split + trees - split % trees


def _places(
    mean_shape: NDArray[np.float32], anchors: NDArray[np.uint8], offsets: NDArray[np.float32]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The linear maps (P, 10) from the landmarks to x and to y of the pixels that a stage reads.

    A pixel lies at its landmark, `anchors` (P,), plus its offset, `offsets` (P, 2), turned and scaled by the similarity
    transform z -> (a + bi) z that best maps the mean shape to the current one. a and b are linear in the landmarks.
    """
    centred = mean_shape - mean_shape.mean(axis=0)
    a = centred.reshape(-1) / (centred**2).sum()
    b = np.stack((-centred[:, 1], centred[:, 0]), axis=1).reshape(-1) / (centred**2).sum()
    dx, dy = offsets[:, :1], offsets[:, 1:]
    unit = np.eye(2 * POINTS, dtype=np.float32)
    x = unit[2 * anchors.astype(np.intp)] + a * dx - b * dy
    y = unit[2 * anchors.astype(np.intp) + 1] + a * dy + b * dx
    return x.astype(np.float32), y.astype(np.float32)
