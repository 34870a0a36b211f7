"""The age grid, and point estimates, standard deviations and intervals of probability mass functions (pmf) on it.

NumPy only: `predict` uses this module without torch. A pmf has shape (..., A): one probability per year of the grid.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

Readout = Literal["mean", "median", "mode"]
READOUTS: tuple[str, ...] = get_args(Readout)
COVERAGE = 0.9  # nominal coverage of the interval printed beside each age
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class AgeGrid:
    """The ages a model can predict: whole years from `low` to `high`, both included; `len(grid)` is A.

    `age in grid` tests the bounds only: 31.5 is in AgeGrid(0, 120).
    """

    low: int = 0
    high: int = 120

    def __len__(self) -> int:
        return self.high - self.low + 1

    def __contains__(self, age: float) -> bool:
        return self.low <= age <= self.high

    @property
    def years(self) -> Floats:
        """The ages on the grid in years, (A,)."""
        return np.arange(self.low, self.high + 1, dtype=np.float64)


def decade_name(age: float) -> str:
    """The name of the decade of an age in years: 0-9, 10-19, …"""
    start = int(age // 10) * 10
    return f"{start}-{start + 9}"


def mean(pmf: NDArray[Any], grid: AgeGrid) -> Floats:
    """The expected age in years.   (..., A) -> (...,)"""
    return np.asarray(pmf @ grid.years)


def std(pmf: NDArray[Any], grid: AgeGrid) -> Floats:
    """The standard deviation in years.   (..., A) -> (...,)"""
    return np.asarray(np.sqrt((pmf * (grid.years - mean(pmf, grid)[..., None]) ** 2).sum(-1)))


def mode(pmf: NDArray[Any], grid: AgeGrid) -> Floats:
    """The most probable year.   (..., A) -> (...,)   (The paper's text says argmin: a slip.)"""
    return np.asarray(grid.years[pmf.argmax(-1)])


def cumulative(pmf: NDArray[Any]) -> Floats:
    """The cumulative distribution at the end of each year, normalised to end at 1.   (..., A) -> (..., A)"""
    upto = np.cumsum(pmf, axis=-1, dtype=np.float64)
    return np.asarray(upto / upto[..., -1:])


def quantile(pmf: NDArray[Any], q: float | NDArray[Any], grid: AgeGrid) -> Floats:
    """The age below which a share q of the mass lies.   (..., A) -> (...,)

    q: one number from 0 to 1, or one for each pmf. The mass of year y is spread evenly over [y - 1/2, y + 1/2]; the result
    is clipped to the grid.
    """
    upto = cumulative(pmf)
    q = np.asarray(q, dtype=np.float64)
    year = np.minimum((upto < q[..., None]).sum(-1), len(grid) - 1)[..., None]
    after = np.take_along_axis(upto, year, -1)[..., 0]
    before = np.where(year[..., 0] > 0, np.take_along_axis(upto, np.maximum(year - 1, 0), -1)[..., 0], 0.0)
    part = (q - before) / np.maximum(after - before, np.finfo(np.float64).tiny)
    age = grid.low + year[..., 0] + np.clip(part, 0, 1) - 0.5
    return np.asarray(np.clip(age, grid.low, grid.high))


def median(pmf: NDArray[Any], grid: AgeGrid) -> Floats:
    """The 0.5 quantile in years.   (..., A) -> (...,)"""
    return quantile(pmf, 0.5, grid)


def read(pmf: NDArray[Any], readout: Readout, grid: AgeGrid) -> Floats:
    """The point estimate of each pmf, in years.   (..., A) -> (...,)

    readout: mean, median or mode.

        read(pmf, "median", AgeGrid(0, 120))
    """
    return {"mean": mean, "median": median, "mode": mode}[readout](pmf, grid)


def probability_over(pmf: NDArray[Any], age: float, grid: AgeGrid) -> Floats:
    """P(age >= `age`): the probability of the years of the grid from `age` on, since labels are completed years.

    pmf: (n, A); age: years.   Returns (n,), at most 1.
    Example: `probability_over(pmf, 18, grid)`
    """
    return np.minimum(pmf[:, grid.years >= age].sum(-1, dtype=np.float64), 1.0)


def interval(pmf: NDArray[Any], coverage: float, grid: AgeGrid) -> tuple[Floats, Floats]:
    """Low and high end of the central interval that holds `coverage` of each pmf.   (..., A) -> two of (...,)"""
    tail = (1 - coverage) / 2
    return quantile(pmf, tail, grid), quantile(pmf, 1 - tail, grid)


def span(low: float, high: float) -> str:
    """An interval as text: its first and last whole year, or its middle if it holds none: `23 to 31`."""
    first, last = math.ceil(low), math.floor(high)
    return f"{first} to {last}" if first <= last else f"{(low + high) / 2:.1f}"


def parse_age(text: str) -> float | None:
    """An age in years; None if the text is not a finite number: `parse_age("31.5")`."""
    try:
        age = float(text)
    except ValueError:
        return None
    return age if math.isfinite(age) else None
