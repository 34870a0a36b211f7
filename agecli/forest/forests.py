"""Forests: phi and the leaves of K trees as buffers, behind one interface for both families.

Buffers are saved with the model, moved by `.to(device)`, and out of the optimiser's reach.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from agecli.ages import AgeGrid, Readout
from agecli.forest import categorical, gaussian
from agecli.forest.gaussian import Gaussians
from agecli.forest.grids import gaussian_pmf, label_distribution
from agecli.forest.routing import entropy, leaf_log_probs

Reduce = Callable[[Tensor], Tensor]


def alone(sums: Tensor) -> Tensor:
    """The reduction of a run that is not distributed."""
    return sums


class Forest(nn.Module):
    """K trees over the units of f. A family says what its leaves are; all else is here."""

    readout: Readout  # how an age is read; a family begins with the paper's way
    phi: Tensor

    def __init__(self, phi: Tensor, grid: AgeGrid) -> None:
        super().__init__()
        self.grid = grid
        self.register_buffer("phi", phi)  # (K, N)

    def route(self, units: Tensor) -> Tensor:
        """log P(l | x) in float32 at least, whatever the network computes in.   (B, M) -> (B, K, L)"""
        return leaf_log_probs(units.to(torch.promote_types(units.dtype, torch.float32))[:, self.phi])

    def energy(self, log_p: Tensor, y: Tensor, T: float) -> tuple[Tensor, Tensor, Tensor]:
        """E, and its parts R and H, each the mean over the trees.  [eqn:new_tree_loss_ldl, eqn:forest_loss]"""
        R, H = self.risk(log_p, y).mean(), entropy(log_p).mean()
        return R - T * H, R, H

    def risk(self, log_p: Tensor, y: Tensor) -> Tensor:
        """R of each tree.   (B, K, L), (B,) -> (K,)"""
        raise NotImplementedError

    def update(self, log_p: Tensor, y: Tensor, tau: float, rounds: int, reduce: Reduce = alone) -> None:
        """Rounds of variational bounding on the routing of some faces.   (B, K, L), (B,)

        `reduce` adds up the sums of several ranks, so that all of them end with the same leaves.
        """
        raise NotImplementedError

    def leaf_pmf(self) -> Tensor:
        """Each leaf as a distribution on the age grid.   (K, L, A)"""
        raise NotImplementedError

    def pmf(self, log_p: Tensor) -> Tensor:
        """The mean over the trees of their mixtures of leaves.   (B, K, L) -> (B, A)"""
        return torch.einsum("bkl,kla->ba", log_p.exp(), self.leaf_pmf().to(log_p.dtype)) / log_p.shape[1]


class GaussianForest(Forest):
    """DRF: each leaf is a Gaussian over ages."""

    readout: Readout = "mean"
    mean: Tensor
    variance: Tensor

    def __init__(self, phi: Tensor, leaves: Gaussians, grid: AgeGrid, floor: float) -> None:
        super().__init__(phi, grid)
        self.floor = floor
        self.register_buffer("mean", leaves.mean)
        self.register_buffer("variance", leaves.variance)

    @property
    def leaves(self) -> Gaussians:
        return Gaussians(self.mean, self.variance)

    def risk(self, log_p: Tensor, y: Tensor) -> Tensor:
        return gaussian.risk(log_p, y, self.leaves)

    @torch.no_grad()
    def update(self, log_p: Tensor, y: Tensor, tau: float, rounds: int, reduce: Reduce = alone) -> None:
        centre = (self.grid.low + self.grid.high) / 2
        leaves = self.leaves
        for _ in range(rounds):
            rho = gaussian.responsibility(log_p, y, leaves, tau)
            leaves = gaussian.solve(gaussian.accumulate(rho, y, centre).map(reduce), leaves, self.floor, centre)
        self.mean.copy_(leaves.mean)
        self.variance.copy_(leaves.variance)

    def leaf_pmf(self) -> Tensor:
        return gaussian_pmf(self.mean, self.variance, self.grid)


class CategoricalForest(Forest):
    """DLDLF: each leaf is a distribution over the age grid."""

    readout: Readout = "mode"
    log_pi: Tensor

    def __init__(self, phi: Tensor, pi: Tensor, grid: AgeGrid, alpha: float, pseudo_count: float) -> None:
        super().__init__(phi, grid)
        self.alpha, self.pseudo_count = alpha, pseudo_count
        self.register_buffer("log_pi", pi.log())

    def risk(self, log_p: Tensor, y: Tensor) -> Tensor:
        return categorical.risk(log_p, label_distribution(y.to(log_p.dtype), self.alpha, self.grid), self.log_pi.exp())

    @torch.no_grad()
    def update(self, log_p: Tensor, y: Tensor, tau: float, rounds: int, reduce: Reduce = alone) -> None:
        """R is convex in pi, so these leaves need no annealing: tau is not used."""
        d = label_distribution(y.to(log_p.dtype), self.alpha, self.grid)
        pi = self.log_pi.exp()
        for _ in range(rounds):
            pi = categorical.solve(reduce(categorical.accumulate(log_p, d, pi)), pi, self.pseudo_count)
        self.log_pi.copy_(pi.log())

    def leaf_pmf(self) -> Tensor:
        return self.log_pi.exp()
