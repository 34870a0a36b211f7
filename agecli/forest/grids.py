"""Distributions on the age grid: label distributions d(y), and the Gaussians of leaves."""

from __future__ import annotations

import torch
from torch import Tensor

from agecli.core.ages import AgeGrid
from agecli.forest.precision import wide

SMALLEST_VARIANCE = 0.01  # years^2, of a Gaussian on the grid: with less, no tilt between two years restores its mean


def years(grid: AgeGrid, like: Tensor) -> Tensor:
    """The ages of the grid, (A,), in years, with the dtype and device of `like`."""
    return torch.arange(grid.low, grid.high + 1, dtype=like.dtype, device=like.device)


def label_distribution(y: Tensor, alpha: float, grid: AgeGrid) -> Tensor:
    """d(y): a Gaussian of std alpha around each age, normalised on the grid.  [eqn:age_distribution]

    y: (B,), alpha: both in years.   Returns (B, A). With alpha = 0, one-hot at the nearest year.
    """
    c = years(grid, y)
    if alpha == 0:
        return (c == y.round().unsqueeze(-1)).to(y.dtype)
    return (-((c - y.unsqueeze(-1)) ** 2) / (2 * alpha**2)).softmax(dim=-1)


def gaussian_pmf(mean: Tensor, variance: Tensor, grid: AgeGrid) -> Tensor:
    """Gaussians as pmfs on the grid, each with its own mean, also near the ends.   (...,) -> (..., A), float64

    Truncation at age 0 would raise the mean, and small children would be predicted too old. So each Gaussian is
    tilted exponentially, p(c) ~ N(c; mean, variance) * exp(slope * c), with the slope that restores the mean. Away from
    the ends the slope is 0. The mean of a forest's pmf is then exactly the paper's sum of P(l|x) * mu_l.
    """
    mean, variance = wide(mean), wide(variance)
    mean = mean.clamp(grid.low + 1e-3, grid.high - 1e-3).unsqueeze(-1)
    offset = years(grid, mean) - mean  # (..., A)
    log_density = -(offset**2) / (2 * variance.unsqueeze(-1))
    low, high = torch.full_like(mean, -50.0), torch.full_like(mean, 50.0)
    for _ in range(45):  # bisection: the mean increases with the slope
        slope = (low + high) / 2
        above = ((log_density + slope * offset).softmax(-1) * offset).sum(-1, keepdim=True) > 0
        low, high = torch.where(above, low, slope), torch.where(above, slope, high)
    return (log_density + (low + high) / 2 * offset).softmax(-1)


def youth_prior(grid: AgeGrid, power: float, until: float = 0.0) -> Tensor:
    """(age + 3) ** -power for each year of the grid, scaled to a maximum of 1.   (A,), float32

    Log-uniform but for the first years: with power 1, an age between 10 and 20 is as likely as one between 23 and 43.
    until: the age from which on it is flat, so that it shifts no older people; 0 for none.
    """
    age = years(grid, torch.zeros(1, dtype=torch.float64))
    weight = ((age.clamp(max=until) if until else age) + 3) ** -power
    return (weight / weight.max()).float()
