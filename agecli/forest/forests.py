"""Forests: phi and the leaves of K trees as buffers, behind one interface for all families.

Buffers are saved with the model, moved by `.to(device)`, and out of the optimiser's reach.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from agecli.core.ages import AgeGrid, Readout
from agecli.forest import categorical, gaussian
from agecli.forest.gaussian import Gaussians
from agecli.forest.grids import gaussian_pmf, label_distribution
from agecli.forest.routing import entropy, leaf_log_probs

Reduce = Callable[[Tensor], Tensor]


def alone(sums: Tensor) -> Tensor:
    """The reduction of a run that is not distributed."""
    return sums


class Top(nn.Module):
    """What stands on the units of f and makes ages of them. The engine knows no more of a model than this."""

    readout: Readout  # how an age is read; a family begins with the paper's way

    def __init__(self, grid: AgeGrid) -> None:
        super().__init__()
        self.grid = grid

    def start(self, ages: Tensor, source: torch.Generator) -> None:
        """What can be known from the training ages alone, before the first iteration."""

    def route(self, units: Tensor) -> Tensor:
        """What the units say of each face, all that ages depend on: log P(l | x) in a forest.   (B, M) -> (B, …)"""
        raise NotImplementedError

    def energy(self, routing: Tensor, y: Tensor, T: float, tree: int | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """E = R - T * H, which back-propagation lowers, and its parts; of one tree alone if it is named."""
        raise NotImplementedError

    def update(self, routing: Tensor, y: Tensor, tau: float, rounds: int, reduce: Reduce = alone) -> None:
        """Learn from the routing of some faces what is not learned by back-propagation.

        `reduce` adds up the sums of several ranks, so that all of them end with the same leaves.
        """
        raise NotImplementedError

    def pmf(self, routing: Tensor) -> Tensor:
        """The distribution of the age of each face.   (B, …) -> (B, A)"""
        raise NotImplementedError

    def finished(self) -> nn.Module:
        """Units -> pmf for a model that learns no more, as simple a graph as can be."""
        raise NotImplementedError


class Forest(Top):
    """K trees over the units of f. A family says what its leaves are; all else is here."""

    phi: Tensor

    def __init__(self, phi: Tensor, grid: AgeGrid) -> None:
        super().__init__(grid)
        self.register_buffer("phi", phi)  # (K, N)

    def route(self, units: Tensor) -> Tensor:
        """log P(l | x) in float32 at least, whatever the network computes in.   (B, M) -> (B, K, L)"""
        return leaf_log_probs(units.to(torch.promote_types(units.dtype, torch.float32))[:, self.phi])

    def energy(self, routing: Tensor, y: Tensor, T: float, tree: int | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Each the mean over the trees, so that all of them learn jointly.  [eqn:new_tree_loss_ldl, eqn:forest_loss]"""
        R, H = self.risk(routing, y), entropy(routing)
        R, H = (R.mean(), H.mean()) if tree is None else (R[tree], H[tree])
        return R - T * H, R, H

    def risk(self, log_p: Tensor, y: Tensor) -> Tensor:
        """R of each tree.   (B, K, L), (B,) -> (K,)"""
        raise NotImplementedError

    def leaf_pmf(self) -> Tensor:
        """Each leaf as a distribution on the age grid.   (K, L, A)"""
        raise NotImplementedError

    def pmf(self, routing: Tensor) -> Tensor:
        """The mean over the trees of their mixtures of leaves.   (B, K, L) -> (B, A)"""
        return torch.einsum("bkl,kla->ba", routing.exp(), self.leaf_pmf().to(routing.dtype)) / routing.shape[1]

    def finished(self) -> nn.Module:
        return LeafTable(self)


class LeafTable(nn.Module):
    """A forest whose leaves are a table, whatever their family."""

    leaves: Tensor

    def __init__(self, forest: Forest) -> None:
        super().__init__()
        self.forest = forest
        self.register_buffer("leaves", forest.leaf_pmf().float())  # (K, L, A)

    def forward(self, units: Tensor) -> Tensor:
        K, L, A = self.leaves.shape
        return self.forest.route(units).exp().reshape(-1, K * L) @ self.leaves.reshape(K * L, A) / K


class GaussianForest(Forest):
    """DRF: each leaf is a Gaussian over ages."""

    readout: Readout = "mean"
    mean: Tensor
    variance: Tensor

    def __init__(
        self,
        phi: Tensor,
        leaves: Gaussians,
        grid: AgeGrid,
        floor: float,
        kmeans: bool = False,
        posterior: bool = True,
        noise: float = 0.0,
    ) -> None:
        super().__init__(phi, grid)
        self.noise = noise  # the share of labels that may be anything
        self.floor = floor
        self.kmeans = kmeans  # whether leaves start as clusters of the ages
        self.posterior = posterior  # whether a leaf's share in a face depends on the face's age, too
        self.register_buffer("mean", leaves.mean)
        self.register_buffer("variance", leaves.variance)

    @property
    def leaves(self) -> Gaussians:
        return Gaussians(self.mean, self.variance)

    @torch.no_grad()
    def start(self, ages: Tensor, source: torch.Generator) -> None:
        K, L = self.mean.shape
        leaves = (
            gaussian.kmeans_start(ages, K, L, self.floor)
            if self.kmeans
            else gaussian.random_start(ages, K, L, self.floor, source)
        )
        self.mean.copy_(leaves.mean)
        self.variance.copy_(leaves.variance)

    def risk(self, log_p: Tensor, y: Tensor) -> Tensor:
        if self.noise:
            return gaussian.bounded_risk(log_p, y, self.leaves, self.noise, len(self.grid))
        return gaussian.risk(log_p, y, self.leaves)

    @torch.no_grad()
    def update(self, routing: Tensor, y: Tensor, tau: float, rounds: int, reduce: Reduce = alone) -> None:
        """Rounds of variational bounding; without the posterior, NRF's rule, whose weights are P(l | x) alone."""
        centre = (self.grid.low + self.grid.high) / 2
        leaves = self.leaves
        for _ in range(rounds if self.posterior else 1):  # NRF's weights don't change with the leaves
            rho = gaussian.responsibility(routing, y, leaves, tau) if self.posterior else routing.exp()
            if self.noise:
                rho = rho * gaussian.clean_share(routing, y, leaves, self.noise, len(self.grid))[..., None]
            leaves = gaussian.solve(gaussian.accumulate(rho, y, centre).map(reduce), leaves, self.floor, centre)
        self.mean.copy_(leaves.mean)
        self.variance.copy_(leaves.variance)

    def leaf_pmf(self) -> Tensor:
        return gaussian_pmf(self.mean, self.variance, self.grid)


class CategoricalForest(Forest):
    """DLDLF: each leaf is a distribution over the age grid. With alpha = 0, one class for each age, it is DNDF."""

    readout: Readout = "mode"
    log_pi: Tensor

    def __init__(self, phi: Tensor, pi: Tensor, grid: AgeGrid, alpha: float, pseudo_count: float) -> None:
        super().__init__(phi, grid)
        self.alpha, self.pseudo_count = alpha, pseudo_count
        self.register_buffer("log_pi", pi.log())

    def risk(self, log_p: Tensor, y: Tensor) -> Tensor:
        return categorical.risk(log_p, label_distribution(y.to(log_p.dtype), self.alpha, self.grid), self.log_pi.exp())

    @torch.no_grad()
    def update(self, routing: Tensor, y: Tensor, tau: float, rounds: int, reduce: Reduce = alone) -> None:
        """R is convex in pi, so these leaves need no annealing: tau is not used."""
        d = label_distribution(y.to(routing.dtype), self.alpha, self.grid)
        pi = self.log_pi.exp()
        for _ in range(rounds):
            pi = categorical.solve(reduce(categorical.accumulate(routing, d, pi)), pi, self.pseudo_count)
        self.log_pi.copy_(pi.log())

    def leaf_pmf(self) -> Tensor:
        return self.log_pi.exp()
