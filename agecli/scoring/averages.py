"""Averages of errors: the MAE with equal weights for decades or for sex and year, RMSE and concordance."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from agecli.core.ages import Floats

NIST_YEARS = range(18, 31)  # NIST FATE AEV averages the MAE of two sexes and these 13 ages: 26 cells
NIST_CELLS = 2 * len(NIST_YEARS)


def balanced_mae(error: Floats, age: Floats) -> float:
    """The mean of the MAE of each decade of true age that has faces: every decade counts the same.

    error, age: (n,), years.   Example: errors 1 and 3 at the ages 5 and 8, and 6 at 40: (2 + 6) / 2 = 4
    """
    decades = np.floor(age / 10)
    return float(np.mean([np.abs(error[decades == decade]).mean() for decade in np.unique(decades)]))


def nist_mae(error: Floats, age: Floats, sex: Sequence[str]) -> tuple[float | None, int]:
    """The mean of the MAEs of each sex and year of age from 18 to 30, as NIST FATE AEV averages it.

    error, age: (n,), years; an age of 18.7 is in the year 18.   sex: F, M or ""
    Returns the mean over the cells that have faces (None if there is none), and their number, `NIST_CELLS` if complete.
    """
    sexes, year = np.array(sex, dtype=str), np.floor(age)
    cells = ((sexes == one) & (year == y) for one in ("F", "M") for y in NIST_YEARS)
    maes = _means(np.abs(error), cells)
    return (float(np.mean(maes)) if maes else None), len(maes)


def rmse(error: Floats) -> float:
    """The root of the mean squared error, years.  error: (n,)."""
    return float(np.sqrt(np.mean(error**2)))


def concordance(predicted: Floats, age: Floats) -> float | None:
    """Lin's concordance correlation coefficient, -1 to 1: 2 cov(p, a) / (var p + var a + (mean p - mean a)^2).

    Moments are of the sample, divided by n. predicted, age: (n,).   Returns None if it is 0 / 0.
    """
    spread = predicted.var() + age.var() + (predicted.mean() - age.mean()) ** 2
    covariance = ((predicted - predicted.mean()) * (age - age.mean())).mean()
    return float(2 * covariance / spread) if spread > 0 else None


def _means(values: Floats, cells: Iterable[NDArray[np.bool_]]) -> list[float]:
    """The mean of each cell that has faces."""
    return [float(values[cell].mean()) for cell in cells if cell.any()]
