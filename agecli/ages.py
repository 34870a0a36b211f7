"""The age grid, label distributions d(y) on it, and what is read from a probability mass function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from agecli.precision import wide

Readout = Literal["mean", "median", "mode"]
READOUTS: tuple[str, ...] = get_args(Readout)
COVERAGE = 0.9  # of the interval printed beside each age


@dataclass(frozen=True)
class AgeGrid:
    """Whole years from `low` to `high`, both included: A of them."""

    low: int = 0
    high: int = 120

    def __len__(self) -> int:
        return self.high - self.low + 1

    def __contains__(self, age: float) -> bool:
        return self.low <= age <= self.high

    def years(self, like: Tensor) -> Tensor:
        """The ages on the grid, (A,), with the type and device of `like`."""
        return torch.arange(self.low, self.high + 1, dtype=like.dtype, device=like.device)


def label_distribution(y: Tensor, alpha: float, grid: AgeGrid) -> Tensor:
    """d(y): a Gaussian of std alpha around each age, normalised on the grid.  [eqn:age_distribution]

    y: (B,).   Returns (B, A). With alpha = 0 all of it lies on the nearest year.
    """
    years = grid.years(y)
    if alpha == 0:
        return (years == y.round().unsqueeze(-1)).to(y.dtype)
    return (-((years - y.unsqueeze(-1)) ** 2) / (2 * alpha**2)).softmax(dim=-1)


def gaussian_pmf(mean: Tensor, variance: Tensor, grid: AgeGrid) -> Tensor:
    """Gaussians laid on the grid so that each keeps its mean, also at the ends.   (...,) -> (..., A)

    A Gaussian cut off at age 0 has a larger mean than before, and small children would be read as too old. So each is
    tilted, p(c) ~ N(c; mean, variance) * exp(slope * c), with the slope that gives the mean back. Away from the
    ends the slope is 0. The mean of a forest's pmf is then exactly the paper's sum of P(l|x) * mu_l.
    """
    mean, variance = wide(mean), wide(variance)
    mean = mean.clamp(grid.low + 1e-3, grid.high - 1e-3).unsqueeze(-1)
    offset = grid.years(mean) - mean  # (..., A)
    log_density = -(offset**2) / (2 * variance.unsqueeze(-1))
    low, high = torch.full_like(mean, -50.0), torch.full_like(mean, 50.0)
    for _ in range(45):  # bisection: the mean grows with the slope
        slope = (low + high) / 2
        above = ((log_density + slope * offset).softmax(-1) * offset).sum(-1, keepdim=True) > 0
        low, high = torch.where(above, low, slope), torch.where(above, slope, high)
    return (log_density + (low + high) / 2 * offset).softmax(-1)


def mean(pmf: Tensor, grid: AgeGrid) -> Tensor:
    return (pmf * grid.years(pmf)).sum(-1)


def std(pmf: Tensor, grid: AgeGrid) -> Tensor:
    years = grid.years(pmf)
    return (pmf * (years - mean(pmf, grid).unsqueeze(-1)) ** 2).sum(-1).sqrt()


def mode(pmf: Tensor, grid: AgeGrid) -> Tensor:
    """The most likely year.  (The paper's text says argmin: a slip.)"""
    return grid.years(pmf)[pmf.argmax(-1)]


def quantile(pmf: Tensor, q: float, grid: AgeGrid) -> Tensor:
    """The age below which a share q lies, each year's mass spread evenly over the year around it.   (..., A) -> (...,)"""
    upto = (pmf / pmf.sum(-1, keepdim=True)).cumsum(-1)
    year = (upto < q).sum(-1).clamp(max=len(grid) - 1)
    mass = pmf.gather(-1, year.unsqueeze(-1)).squeeze(-1).clamp_min(torch.finfo(pmf.dtype).tiny)
    before = upto.gather(-1, year.unsqueeze(-1)).squeeze(-1) - mass
    age = grid.low + year + ((q - before) / mass).clamp(0, 1) - 0.5
    return age.clamp(grid.low, grid.high)


def median(pmf: Tensor, grid: AgeGrid) -> Tensor:
    return quantile(pmf, 0.5, grid)


def read(pmf: Tensor, readout: Readout, grid: AgeGrid) -> Tensor:
    """One age from each pmf.   (..., A) -> (...,)"""
    return {"mean": mean, "median": median, "mode": mode}[readout](pmf, grid)


def interval(pmf: Tensor, coverage: float, grid: AgeGrid) -> tuple[Tensor, Tensor]:
    """The central interval that holds `coverage` of each pmf."""
    tail = (1 - coverage) / 2
    return quantile(pmf, tail, grid), quantile(pmf, 1 - tail, grid)
