"""Layout of labels: where each goes beside its face, so that it covers no face and no other label if there is room.

Rectangles are left, top, right, bottom, in pixels. A label has variants, the preferred one first and smaller ones after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Rectangle = tuple[float, float, float, float]
Size = tuple[float, float]  # width, height
REACH = 3.0  # how far a label may step aside, in units of the larger side of face and label
NEAREST = 32  # obstacles that are considered when a label steps aside: bounds the time in crowds
SLACK = 1e-6  # pixels, of rounding
SMALL_PART = 0.08  # of a face that its own label may cover if there is no room beside it


@dataclass(frozen=True)
class Label:
    """The place of a label, and which of its variants fits there."""

    place: Rectangle
    variant: int


def place_labels(
    photo: Size,
    faces: Sequence[Rectangle],
    variants: Sequence[Sequence[Size]],
    gap: float = 2.0,
    before: Sequence[Label | None] = (),
) -> list[Label]:
    """A place for the label of each face, within the photo.

    variants: for each face, the sizes of its label;   gap: between a face and its label;   before: labels that should
    stay where they are (those of the last frame of a video), if nothing is in the way.

    Larger variants beside the face come first, then the smallest one further away, up to REACH. If nothing is free, the
    label covers as little as possible.
    """
    labels: list[Label] = []
    for index, face in enumerate(faces):
        taken = _array([*faces, *(label.place for label in labels)])
        last = before[index] if index < len(before) else None
        label = None
        if last is not None and _is_free(last.place, taken, photo):
            label = last
        label = label or _beside(photo, face, variants[index], taken, gap)
        label = label or _further(photo, face, variants[index], taken)
        labels.append(label or _least_covered(photo, face, variants[index], taken, gap))
    return labels


def _beside(
    photo: Size, face: Rectangle, variants: Sequence[Size], taken: NDArray[np.float64], gap: float
) -> Label | None:
    """The first variant that is free next to the face."""
    for number, size in enumerate(variants):
        for place in _neighbours(photo, face, size, gap):
            if _is_free(place, taken, photo):
                return Label(place, number)
    return None


def _neighbours(photo: Size, face: Rectangle, size: Size, gap: float) -> Iterator[Rectangle]:
    """Places next to a face: above, below, right and left of it; centred, then in line with its edges."""
    left, top, right, bottom = face
    width, height = size
    middle = min(max((left + right - width) / 2, 0), max(photo[0] - width, 0))
    across = (middle, left, right - width)
    down = (top, (top + bottom - height) / 2, bottom - height)
    for y in (top - gap - height, bottom + gap):
        yield from (_rectangle(x, y, size) for x in across)
    for x in (right + gap, left - gap - width):
        yield from (_rectangle(x, y, size) for y in down)


def _further(photo: Size, face: Rectangle, variants: Sequence[Size], taken: NDArray[np.float64]) -> Label | None:
    """The free place nearest to the face for the smallest variant; None if there is none within reach.

    A label in free space can be moved left and up until it touches an edge. So if there is a free place, there is one
    whose left and top are each an edge of an obstacle, of the reach, or of the photo: only these are tried.
    """
    number, (width, height) = len(variants) - 1, variants[-1]
    left, top, right, bottom = reach(photo, face, (width, height))
    if right - left < width or bottom - top < height:
        return None
    near = taken[(taken[:, 0] < right) & (taken[:, 2] > left) & (taken[:, 1] < bottom) & (taken[:, 3] > top)]
    centre = np.array([face[0] + face[2], face[1] + face[3]]) / 2
    near = near[np.argsort(np.abs((near[:, :2] + near[:, 2:]) / 2 - centre).max(axis=1), kind="stable")[:NEAREST]]
    x = np.concatenate(([left, right - width, centre[0] - width / 2], near[:, 2], near[:, 0] - width))
    y = np.concatenate(([top, bottom - height, centre[1] - height / 2], near[:, 3], near[:, 1] - height))
    x, y = x[(x >= left) & (x + width <= right)], y[(y >= top) & (y + height <= bottom)]
    places = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    away = np.linalg.norm(places + np.array([width, height]) / 2 - centre, axis=1)
    places = places[np.argsort(away, kind="stable")]
    corners = np.concatenate((places, places + np.array([width, height])), axis=1)
    free = np.ones(len(corners), bool)
    for obstacle in near:
        overlaps = np.minimum(corners[:, 2:], obstacle[2:]) - np.maximum(corners[:, :2], obstacle[:2])
        free &= (overlaps <= SLACK).any(axis=1)
    for left, top, *_ in corners[free][:NEAREST]:
        candidate = _rectangle(float(left), float(top), (width, height))
        if _is_free(candidate, taken, photo):
            return Label(candidate, number)
    return None


def reach(photo: Size, face: Rectangle, size: Size) -> Rectangle:
    """The part of the photo in which the label of a face may be."""
    far = REACH * max(face[2] - face[0], face[3] - face[1], *size)
    return (
        max(0, face[0] - far),
        max(0, face[1] - far),
        min(photo[0], face[2] + far),
        min(photo[1], face[3] + far),
    )


def _least_covered(
    photo: Size, face: Rectangle, variants: Sequence[Size], taken: NDArray[np.float64], gap: float
) -> Label:
    """Where the least of faces and other labels is covered; within its own face, a label may be larger."""
    area = (face[2] - face[0]) * (face[3] - face[1])
    large = [number for number, size in enumerate(variants) if size[0] * size[1] <= SMALL_PART * area]
    best, least = Label(_rectangle(0, 0, variants[-1]), len(variants) - 1), np.inf
    for number in dict.fromkeys((*large[:1], len(variants) - 1)):
        width, height = variants[number]
        inside = [(face[0] + face[2] - width) / 2]
        rows = (face[3] - height - gap, face[1] + gap)
        places = [*_neighbours(photo, face, (width, height), gap)]
        places += [_rectangle(x, y, (width, height)) for x in inside for y in rows]
        for place in places:
            moved = _within(photo, place)
            covered = _covered(moved, taken) / (width * height)
            if covered < least:
                best, least = Label(moved, number), covered
    return best


def _within(photo: Size, place: Rectangle) -> Rectangle:
    """The same rectangle, moved into the photo; at its left and top if it is larger."""
    width, height = place[2] - place[0], place[3] - place[1]
    left = max(0.0, min(place[0], photo[0] - width))
    return _rectangle(left, max(0.0, min(place[1], photo[1] - height)), (width, height))


def _covered(place: Rectangle, taken: NDArray[np.float64]) -> float:
    """The area that a rectangle has in common with others, each counted."""
    width = np.minimum(taken[:, 2], place[2]) - np.maximum(taken[:, 0], place[0])
    height = np.minimum(taken[:, 3], place[3]) - np.maximum(taken[:, 1], place[1])
    return float((np.clip(width, 0, None) * np.clip(height, 0, None)).sum())


def _is_free(place: Rectangle, taken: NDArray[np.float64], photo: Size) -> bool:
    """Whether a rectangle is within the photo and overlaps none of the others; they may touch."""
    if place[0] < 0 or place[1] < 0 or place[2] > photo[0] or place[3] > photo[1]:
        return False
    overlaps = np.minimum(taken[:, 2:], place[2:]) - np.maximum(taken[:, :2], place[:2])
    return not bool((overlaps > SLACK).all(axis=1).any())


def _rectangle(left: float, top: float, size: Size) -> Rectangle:
    return left, top, left + size[0], top + size[1]


def _array(rectangles: Sequence[Rectangle]) -> NDArray[np.float64]:
    return np.array(rectangles, dtype=np.float64).reshape(-1, 4)
