"""Shift alarm: whether photos look other than those that the intervals of a model were calibrated on. Needs no labels.

Each face is described by a few statistics of its pixels: light, colour, contrast and detail. The shift of some faces is
the root mean square, over the statistics, of the difference between their mean and that of the calibration faces, in
stds of the latter. Of contrast and detail only a lack counts: sharper photos are no harder. Paler colours, down to grey,
don't count either: intervals hold on grey photos that are sharp (docs/evaluate.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from agecli.core.ages import Floats
from agecli.images.reading import PictureSpec, Pixels, UnreadableError, cut, read_picture

COLOURS = slice(1, 3)  # of STATISTICS; both are 0 for grey
LACKS = slice(3, None)  # of STATISTICS: those of which only a lack counts
STATISTICS = (
    "light",
    "red-green",
    "blue-yellow",
    "contrast",
    "highlights",
    "fine detail",
    "medium detail",
    "coarse detail",
)
FACE = ((0.21, 0.89), (0.18, 0.82))  # rows and columns of the face in the network's input, as shares
# Each of four sets against the three others: 0.05 to 0.21 as a whole, up to 0.37 for its men, Black people, or people over 60;
# FG-NET 0.61 to 0.67 (docs/evaluate.md, benchmarks/evaluation/shift_alarm.py).
MOST_SHIFT = 0.40
NOISE = 0.6  # divided by the root of the number of faces and added to MOST_SHIFT
HIGHLIGHTS = 98  # percentile of the grey values
LEAST_FACES = 20  # fewer faces raise no alarm
VARIED = 0.5  # of the calibration faces' stds: faces that vary less, such as frames of one video, raise no alarm
UNUSUAL = 0.99  # quantile of the calibration faces: a face with a larger distance has a shift above 1
MOST_READ = 1000  # faces that a reference or a measurement reads


@dataclass(frozen=True)
class ShiftReference:
    """The statistics of the calibration faces; stored in model files."""

    faces: int
    mean: tuple[float, ...]  # of each of STATISTICS
    std: tuple[float, ...]
    unusual: float  # quantile UNUSUAL of the distances of single faces

    def header(self) -> dict[str, Any]:
        """The fields, for the header of a model file; `read` is the inverse."""
        return asdict(self)

    @classmethod
    def read(cls, header: Mapping[str, Any] | None) -> ShiftReference | None:
        """The reference in the header of a model file; None if there is none. Raises KeyError, TypeError, ValueError."""
        if not header:
            return None
        mean, std = (tuple(float(value) for value in header[name]) for name in ("mean", "std"))
        unusual = float(header["unusual"])
        if not len(mean) == len(std) == len(STATISTICS) or not np.isfinite((*mean, *std)).all():
            raise ValueError(f"a shift reference has {len(STATISTICS)} means and stds")
        if min(std) <= 0 or not 0 < unusual < np.inf:
            raise ValueError("the stds of a shift reference are positive")
        return cls(int(header["faces"]), mean, std, unusual)

    def standardised(self, statistics: Floats) -> Floats:
        """Statistics in stds from the mean of the calibration faces; 0 for a difference that does not count.   (n, S)"""
        mean, std = np.array(self.mean), np.array(self.std)
        z = (statistics - mean) / std
        z[:, LACKS] = np.minimum(z[:, LACKS], 0)
        beyond_grey = np.minimum(statistics, 0) / std  # 0 for any colour of the usual kind, however pale
        z[:, COLOURS] = np.where(z < 0, np.maximum(z, beyond_grey), z)[:, COLOURS]
        return np.asarray(z)

    def distances(self, statistics: Floats) -> Floats:
        """How unusual each face is: above 1 for one in a hundred of the calibration faces.   (n, S) -> (n,)"""
        return np.asarray(np.sqrt((self.standardised(statistics) ** 2).mean(1)) / self.unusual)


def picture_statistics(pixels: Pixels) -> Floats:
    """The statistics of faces.   (B, 3, H, W) uint8, as a network sees them -> (B, S)"""
    return np.array([_statistics(face) for face in pixels], dtype=float).reshape(len(pixels), len(STATISTICS))


def _statistics(pixels: Pixels) -> list[float]:
    """The statistics of one face.   (3, H, W) uint8"""
    height, width = pixels.shape[1:]
    rows, columns = (
        slice(round(start * side), round(stop * side))
        for (start, stop), side in zip(FACE, (height, width), strict=True)
    )
    face = cv2.merge([*pixels[:, rows, columns]])  # (h, w, 3)
    red, green, blue = (value / 255 for value in cv2.mean(face)[:3])  # OpenCV's Lab takes 0.1 s when it is used first
    grey = cv2.cvtColor(face.astype(np.float32) / 255, cv2.COLOR_RGB2GRAY)
    details = []
    level: NDArray[Any] = grey
    for _ in range(3):  # a Laplacian pyramid: the finest detail is lost first, by blur, compression and small faces
        smaller = cv2.pyrDown(level)
        rest = cv2.norm(level, cv2.pyrUp(smaller, dstsize=(level.shape[1], level.shape[0])), cv2.NORM_L1) / level.size
        details.append(math.log(rest + 2e-4))
        level = smaller
    light, contrast = (float(value[0, 0]) for value in cv2.meanStdDev(grey))
    highlights = _percentile(grey, HIGHLIGHTS)
    return [light, red - green, (red + green) / 2 - blue, contrast, highlights, *details]


def _percentile(values: NDArray[Any], percent: float) -> float:
    """As np.percentile, which imports `numpy.ma`: that takes longer than the rest of a photo."""
    place = percent / 100 * (values.size - 1)
    around = [int(place), min(int(place) + 1, values.size - 1)]
    low, high = np.partition(values.ravel(), around)[around].tolist()
    return float(low + (place - int(place)) * (high - low))


def read_statistics(folder: Path, paths: Sequence[str], spec: PictureSpec) -> Floats:
    """The statistics of aligned faces, at most MOST_READ of them, evenly chosen; unreadable ones are left out.   (n, S)"""
    chosen = [paths[index] for index in np.linspace(0, len(paths) - 1, min(len(paths), MOST_READ)).astype(int)]
    rows = []
    for path in chosen:
        try:
            rows.append(picture_statistics(cut(read_picture(folder / path), spec)[None]))
        except UnreadableError:
            continue
    return np.concatenate(rows) if rows else np.zeros((0, len(STATISTICS)))


def shift_reference(statistics: Floats, like: ShiftReference | None = None) -> ShiftReference | None:
    """The reference of calibration faces; None if there are fewer than LEAST_FACES.   statistics: (n, S)

    like: a reference of more faces, whose stds are used
    """
    if len(statistics) < LEAST_FACES:
        return None
    mean = statistics.mean(0)
    std = np.array(like.std) if like else np.maximum(statistics.std(0), 1e-3)
    plain = ShiftReference(len(statistics), tuple(mean.tolist()), tuple(std.tolist()), 1.0)
    unusual = float(np.quantile(plain.distances(statistics), UNUSUAL))
    return ShiftReference(plain.faces, plain.mean, plain.std, max(unusual, 1e-3))


def shift_of(statistics: Floats, reference: ShiftReference) -> float:
    """The shift of some faces, without what chance adds to it: 0 for faces as in the calibration.   (n, S)"""
    mean = reference.standardised(statistics.mean(0)[None])[0]
    return float(np.sqrt(np.maximum(mean**2 - 1 / len(statistics), 0).mean()))


class ShiftMonitor:
    """Collects the statistics of the first face of each photo of a run, and tells when they are too far off.

    >>> monitor = ShiftMonitor(card.shift)
    >>> monitor.add(["a.jpg"], picture_statistics(pixels))
    """

    def __init__(self, reference: ShiftReference | None) -> None:
        self.reference = reference
        self.sources: set[str] = set()
        self.rows: list[Floats] = []

    def add(self, sources: Sequence[str], statistics: Floats) -> None:
        """Add faces; of a photo or video that has one already, no other is added."""
        for source, row in zip(sources, statistics, strict=True):
            if source not in self.sources:
                self.sources.add(source)
                self.rows.append(row)

    def message(self) -> str | None:
        """The alarm as one line, if these photos differ from the calibration faces; else None."""
        if self.reference is None or len(self.rows) < LEAST_FACES:
            return None
        statistics = np.stack(self.rows)
        shift = shift_of(statistics, self.reference)
        varied = float((statistics.std(0) / np.array(self.reference.std)).mean()) >= VARIED
        if not varied or shift <= MOST_SHIFT + NOISE / np.sqrt(len(statistics)):
            return None
        means = self.reference.standardised(statistics.mean(0)[None])[0]
        name = STATISTICS[int(np.abs(means).argmax())]
        return (
            f"these {len(statistics)} photos look unlike those the intervals were calibrated on (shift {shift:.2f},"
            f" most in {name}): don't rely on the intervals; `agecli calibrate MODEL --data DIR --out FILE` adapts them"
        )
