"""Deep Regression, the baseline of the paper without a forest: one unit, and the squared error."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from agecli.core.ages import AgeGrid, Readout
from agecli.forest.forests import Reduce, Top, alone
from agecli.forest.grids import gaussian_pmf
from agecli.forest.precision import wide


class Regression(Top):
    """The age is centre + spread * f(x), with the mean and the std of the training ages, in years.

    The predicted distribution is a Gaussian with the mean squared error of the last mini-batches as its variance.
    floor: the least variance, in years^2.
    """

    readout: Readout = "mean"
    centre: Tensor
    spread: Tensor
    variance: Tensor

    def __init__(self, grid: AgeGrid, floor: float) -> None:
        super().__init__(grid)
        self.floor = floor
        for name, value in (("centre", 0.0), ("spread", 1.0), ("variance", 1.0)):
            self.register_buffer(name, torch.tensor(value))

    @torch.no_grad()
    def start(self, ages: Tensor, source: torch.Generator) -> None:
        """Set centre, spread and variance from the training ages (n,)."""
        ages = wide(ages)
        self.centre.copy_(ages.mean())
        self.spread.copy_(ages.std(correction=0).clamp_min(self.floor**0.5))
        self.variance.copy_(self.spread**2)

    def route(self, units: Tensor) -> Tensor:
        """The age, in years.   (B, 1) -> (B,)"""
        return self.centre + self.spread * units[:, 0].to(torch.promote_types(units.dtype, torch.float32))

    def energy(self, routing: Tensor, y: Tensor, T: float, tree: int | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """The squared error over the variance of the training ages, twice, and an entropy of 0. T and tree are not used."""
        R = (((routing - y) / self.spread) ** 2).mean()
        return R, R, torch.zeros_like(R)

    @torch.no_grad()
    def update(self, routing: Tensor, y: Tensor, tau: float, rounds: int, reduce: Reduce = alone) -> None:
        """Set the variance to the mean squared error over the faces of all ranks. tau and rounds are not used."""
        square = wide(routing - y) ** 2
        total, count = reduce(torch.stack((square.sum(), square.new_tensor(len(square)))))
        self.variance.copy_((total / count).clamp_min(self.floor))

    def pmf(self, routing: Tensor) -> Tensor:
        """A Gaussian around each age.   (B,) -> (B, A)"""
        return gaussian_pmf(routing, self.variance.expand_as(routing), self.grid).to(routing.dtype)

    def finished(self) -> nn.Module:
        """A module units (B, 1) -> pmf (B, A)."""
        return Reading(self)


class Reading(nn.Module):
    """The head of a trained model as one module: units (B, M) -> pmf (B, A)."""

    def __init__(self, top: Top) -> None:
        super().__init__()
        self.top = top

    def forward(self, units: Tensor) -> Tensor:
        """The distribution of each age.   (B, M) -> (B, A)"""
        return self.top.pmf(self.top.route(units))
