"""Bootstrap confidence intervals by resampling whole subjects, since errors on faces of one person are correlated."""

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


def subject_ids(samples: Sequence[Sample]) -> NDArray[np.int64]:
    """A number from 0 for the subject of each face, (n,).

    A photo of an unknown subject is a subject of its own, also if several folds tested it.
    """
    known: dict[str, int] = {}
    return np.array([known.setdefault(s.subject or f"\0{s.path}", len(known)) for s in samples], dtype=np.int64)


def resampled_means(
    values: Floats, weights: Floats, subjects: NDArray[np.int64], resamples: int = RESAMPLES, seed: int = 0
) -> Floats:
    """sum(values) / sum(weights) over as many subjects as there are, drawn with replacement, R times.

    values, weights: (n, m). A weight of 1 counts a face in that column and 0 leaves it out, where its value must be 0.
    subjects: (n,), as of `subject_ids`
    Returns (R, m); NaN where no counted face was drawn.
    """
    count = int(subjects.max()) + 1
    order = np.argsort(subjects, kind="stable")
    first = np.searchsorted(subjects[order], np.arange(count))
    sums = np.add.reduceat(np.hstack([values, weights])[order], first, axis=0)  # of each subject, (count, 2 m)
    random = generator(seed, "bootstrap")
    parts = []
    step = max(1, CHUNK // count)
    for start in range(0, resamples, step):
        rows = min(step, resamples - start)
        drawn = random.integers(count, size=(rows, count)) + count * np.arange(rows)[:, None]
        times = np.bincount(drawn.ravel(), minlength=rows * count).reshape(rows, count)
        parts.append(times.astype(np.float64) @ sums)
    total = np.vstack(parts)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(total[:, : values.shape[1]] / total[:, values.shape[1] :])


def percentile_interval(draws: Floats, level: float = LEVEL) -> tuple[Floats, Floats]:
    """The percentile confidence interval of each column, NaN ignored.

    draws: (R, m).   Returns the lower and upper limits, (m,) each; NaN for a column without any number.
    """
    tail = 50 * (1 - level)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of a column that is all NaN
        low, high = np.nanpercentile(draws, [tail, 100 - tail], axis=0)
    return np.asarray(low), np.asarray(high)


def wilson_interval(share: float, people: int, level: float = LEVEL) -> tuple[float, float]:
    """The Wilson score interval of a share observed among `people` people: for 0 and 1, which no resample can vary."""
    z = NormalDist().inv_cdf(0.5 + level / 2)
    middle = (share + z**2 / (2 * people)) / (1 + z**2 / people)
    half = z / (1 + z**2 / people) * math.sqrt(share * (1 - share) / people + z**2 / (4 * people**2))
    return max(0.0, middle - half), min(1.0, middle + half)


def two_sided_p(difference: Floats) -> float:
    """The two-sided bootstrap p-value of a difference being 0: twice the share of resamples with the other sign.

    difference: (R,), resampled.   Returns at least 2 / R and at most 1.
    """
    tail = min((difference <= 0).mean(), (difference >= 0).mean())
    return float(min(1.0, 2 * max(tail, 1 / len(difference))))
