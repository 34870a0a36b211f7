"""The age grid, and what is read from a probability mass function on it: an age, its spread, an interval. No torch here."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

Readout = Literal["mean", "median", "mode"]
READOUTS: tuple[str, ...] = get_args(Readout)
COVERAGE = 0.9  # of the interval printed beside each age
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class AgeGrid:
    """Whole years from `low` to `high`, both included: A of them."""

    low: int = 0
    high: int = 120

    def __len__(self) -> int:
        return self.high - self.low + 1

    def __contains__(self, age: float) -> bool:
        return self.low <= age <= self.high

    @property
    def years(self) -> Floats:
        """The ages on the grid, (A,)."""
        return np.arange(self.low, self.high + 1, dtype=np.float64)


def decade_name(age: float) -> str:
    """What the group of an age is called: 0-9, 10-19, …"""
    start = int(age // 10) * 10
    return f"{start}-{start + 9}"


def mean(pmf: NDArray[Any], grid: AgeGrid) -> Floats:
    return np.asarray(pmf @ grid.years)


def std(pmf: NDArray[Any], grid: AgeGrid) -> Floats:
    return np.asarray(np.sqrt((pmf * (grid.years - mean(pmf, grid)[..., None]) ** 2).sum(-1)))


def mode(pmf: NDArray[Any], grid: AgeGrid) -> Floats:
    """The most likely year.  (The paper's text says argmin: a slip.)"""
    return np.asarray(grid.years[pmf.argmax(-1)])


def cumulative(pmf: NDArray[Any]) -> Floats:
    """The share at or below the end of each year.   (..., A)"""
    upto = np.cumsum(pmf, axis=-1, dtype=np.float64)
    return np.asarray(upto / upto[..., -1:])


def quantile(pmf: NDArray[Any], q: float | NDArray[Any], grid: AgeGrid) -> Floats:
    """The age below which a share q lies, each year's mass spread evenly over the year around it.   (..., A) -> (...,)

    `q` is one number, or one for each pmf.
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
    return quantile(pmf, 0.5, grid)


def read(pmf: NDArray[Any], readout: Readout, grid: AgeGrid) -> Floats:
    """One age from each pmf.   (..., A) -> (...,)"""
    return {"mean": mean, "median": median, "mode": mode}[readout](pmf, grid)


def interval(pmf: NDArray[Any], coverage: float, grid: AgeGrid) -> tuple[Floats, Floats]:
    """The central interval that holds `coverage` of each pmf."""
    tail = (1 - coverage) / 2
    return quantile(pmf, tail, grid), quantile(pmf, 1 - tail, grid)


def span(low: float, high: float) -> str:
    """An interval for people: from the first to the last whole year in it."""
    first, last = math.ceil(low), math.floor(high)
    return f"{first} to {last}" if first <= last else f"{(low + high) / 2:.1f}"


def parse_age(text: str) -> float | None:
    """An age in years, or None for what is no number."""
    try:
        age = float(text)
    except ValueError:
        return None
    return age if math.isfinite(age) else None
