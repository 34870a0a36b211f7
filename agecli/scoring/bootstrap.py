"""How sure a measured number is: resampling of whole subjects, since the faces of one person fail together."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from agecli.core.ages import Floats
from agecli.core.records import Sample
from agecli.core.seeding import generator

RESAMPLES = 1000
LEVEL = 0.95
CHUNK = 2_000_000  # draws at a time: 55,000 subjects a thousand times would not fit in memory


def people(samples: Sequence[Sample]) -> NDArray[np.int64]:
    """A number for each face's subject. A photo without one is its own, also if several folds tested it."""
    known: dict[str, int] = {}
    return np.array([known.setdefault(s.subject or f"\0{s.path}", len(known)) for s in samples], dtype=np.int64)


def resampled(top: Floats, bottom: Floats, who: NDArray[np.int64], resamples: int = RESAMPLES, seed: int = 0) -> Floats:
    """sum(top) / sum(bottom) over as many subjects as there are, drawn with replacement.   (n, m), (n, m) -> (R, m)

    Each column is a mean over some of the faces: `bottom` says which ones. It is NaN where none was drawn.
    """
    count = int(who.max()) + 1
    order = np.argsort(who, kind="stable")
    first = np.searchsorted(who[order], np.arange(count))
    sums = np.add.reduceat(np.hstack([top, bottom])[order], first, axis=0)  # of each subject, (count, 2 m)
    dice = generator(seed, "bootstrap")
    parts = []
    step = max(1, CHUNK // count)
    for start in range(0, resamples, step):
        rows = min(step, resamples - start)
        drawn = dice.integers(count, size=(rows, count)) + count * np.arange(rows)[:, None]
        weight = np.bincount(drawn.ravel(), minlength=rows * count).reshape(rows, count)
        parts.append(weight.astype(np.float64) @ sums)
    total = np.vstack(parts)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(total[:, : top.shape[1]] / total[:, top.shape[1] :])


def limits(draws: Floats, level: float = LEVEL) -> tuple[Floats, Floats]:
    """The percentile interval of each column.   (R, m) -> (m,), (m,); NaN for a column without a number"""
    tail = 50 * (1 - level)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a column without a number is NaN, which is what we want
        low, high = np.nanpercentile(draws, [tail, 100 - tail], axis=0)
    return np.asarray(low), np.asarray(high)


def rate_limits(share: float, people: int, level: float = LEVEL) -> tuple[float, float]:
    """The score interval (Wilson) of a share of so many people: for shares of 0 and 1, which no resample can vary."""
    z = NormalDist().inv_cdf(0.5 + level / 2)
    middle = (share + z**2 / (2 * people)) / (1 + z**2 / people)
    half = z / (1 + z**2 / people) * math.sqrt(share * (1 - share) / people + z**2 / (4 * people**2))
    return max(0.0, middle - half), min(1.0, middle + half)


def two_sided_p(difference: Floats) -> float:
    """How often a resampled difference is on the other side of 0, twice: small if the sign is sure.   (R,)"""
    tail = min((difference <= 0).mean(), (difference >= 0).mean())
    return float(min(1.0, 2 * max(tail, 1 / len(difference))))
