"""Forests: phi and the leaves of K trees as buffers, behind one interface for all leaf families.

Buffers are saved with the model and moved by `.to(device)`, but the optimiser does not change them.
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
from agecli.forest.starts import start_gaussians

Reduce = Callable[[Tensor], Tensor]  # adds a tensor up over the ranks of a distributed run


def alone(sums: Tensor) -> Tensor:
    """The reduction of a run in one process: the sums themselves."""
    return sums


class Top(nn.Module):
    """Base class of the heads, which turn the units of f into ages. The training loop uses only these methods."""

    readout: Readout  # how an age is read from the pmf; by default as in the paper
    prior: Tensor | None  # (A,): pmfs are multiplied by it and normalised

    def __init__(self, grid: AgeGrid) -> None:
        super().__init__()
        self.grid = grid
        self.register_buffer("prior", None, persistent=False)  # made from the settings

    def start(self, ages: Tensor, source: torch.Generator) -> None:
        """Initialise from the training ages (n,), in years, before the first iteration; `source` draws random numbers."""

    def route(self, units: Tensor) -> Tensor:
        """What ages depend on: log P(l | x) in a forest, (B, K, L), or the age itself in regression, (B,).

        units: f(x), (B, M).
        """
        raise NotImplementedError

    def energy(self, routing: Tensor, y: Tensor, T: float, tree: int | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """The loss E = R - T * H, and R and H, each the mean over the batch; of one tree alone if `tree` is given.

        routing: of `route`; y: ages (B,), in years; T: temperature of the splits.
        """
        raise NotImplementedError

    def update(self, routing: Tensor, y: Tensor, tau: float, rounds: int, reduce: Reduce = alone) -> None:
        """Update the leaves from the routing of some faces, which may be none on this rank.

        routing: of `route`; y: ages (B,), in years; tau: temperature of the leaves; rounds: of variational bounding;
        reduce: adds up the sums of all ranks, which then compute the same leaves.
        """
        raise NotImplementedError

    def pmf(self, routing: Tensor) -> Tensor:
        """The distribution of the age of each face, from the routing.   (B, …) -> (B, A)"""
        raise NotImplementedError

    def finished(self) -> nn.Module:
        """A module units (B, M) -> pmf (B, A) for a trained model, as a simple graph for the ONNX export."""
        raise NotImplementedError


def with_prior(pmf: Tensor, prior: Tensor | None) -> Tensor:
    """p(y | x) * prior(y), normalised again: for people of other ages than those of the training.   (B, A), (A,) -> (B, A)"""
    if prior is None:
        return pmf
    weighted = pmf * prior.to(pmf.dtype)
    return weighted / weighted.sum(-1, keepdim=True)


class Forest(Top):
    """K trees over the units of f. Subclasses define the leaves.

    phi: (K, N), the unit of f behind each split node.
    """

    phi: Tensor

    def __init__(self, phi: Tensor, grid: AgeGrid) -> None:
        super().__init__(grid)
        self.register_buffer("phi", phi)  # (K, N)

    def route(self, units: Tensor) -> Tensor:
        """log P(l | x), in float32 also under mixed precision.   (B, M) -> (B, K, L)"""
        return leaf_log_probs(units.to(torch.promote_types(units.dtype, torch.float32))[:, self.phi])

    def energy(self, routing: Tensor, y: Tensor, T: float, tree: int | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Each the mean over the trees, so that all of them learn jointly.  [eqn:new_tree_loss_ldl, eqn:forest_loss]"""
        R, H = self.risk(routing, y), entropy(routing)
        R, H = (R.mean(), H.mean()) if tree is None else (R[tree], H[tree])
        return R - T * H, R, H

    def risk(self, log_p: Tensor, y: Tensor) -> Tensor:
        """R of each tree, the mean over the batch.   (B, K, L), (B,) -> (K,)"""
        raise NotImplementedError

    def leaf_pmf(self) -> Tensor:
        """Each leaf as a distribution on the age grid.   (K, L, A)"""
        raise NotImplementedError

    def pmf(self, routing: Tensor) -> Tensor:
        """The mean over the trees of their mixtures of leaves.   (B, K, L) -> (B, A)"""
        pmf = torch.einsum("bkl,kla->ba", routing.exp(), self.leaf_pmf().to(routing.dtype)) / routing.shape[1]
        return with_prior(pmf, self.prior)

    def finished(self) -> nn.Module:
        """Routing and one matrix product with the tabulated leaves."""
        return LeafTable(self)


class LeafTable(nn.Module):
    """A trained forest, its leaves tabulated on the age grid: units (B, M) -> pmf (B, A)."""

    leaves: Tensor

    def __init__(self, forest: Forest) -> None:
        super().__init__()
        self.forest, self.normalised = forest, forest.prior is None
        leaves = forest.leaf_pmf()  # (K, L, A)
        if forest.prior is not None:
            weighted = leaves * forest.prior
            leaves = torch.cat((weighted, weighted.sum(-1, keepdim=True)), dim=-1)  # (K, L, A + 1)
        self.register_buffer("leaves", leaves.float())

    def forward(self, units: Tensor) -> Tensor:
        """The mean over the trees of their mixtures of leaves, times the prior, normalised.   (B, M) -> (B, A)

        What to divide by is one more column of the table: onnxruntime adds up a row in an order that depends on where it
        is in the batch, a matrix product does not.
        """
        K, L, A = self.leaves.shape
        mixture = self.forest.route(units).exp().reshape(-1, K * L) @ self.leaves.reshape(K * L, A)
        return mixture / K if self.normalised else mixture[:, :-1] / mixture[:, -1:]


class GaussianForest(Forest):
    """DRF: each leaf is a Gaussian over ages.

    leaves: the initial Gaussians, (K, L) each; floor: the least variance, in years^2.
    """

    readout: Readout = "mean"
    mean: Tensor
    variance: Tensor

    def __init__(
        self,
        phi: Tensor,
        leaves: Gaussians,
        grid: AgeGrid,
        floor: float,
        leaf_init: str = "quantiles",
        posterior: bool = True,
        noise: float = 0.0,
    ) -> None:
        super().__init__(phi, grid)
        self.noise = noise  # share of labels taken as uniform noise
        self.floor = floor
        self.leaf_init = leaf_init  # a name in `forest.starts.STARTS`
        self.posterior = posterior  # whether rho depends on the face's age, too; False in NRF
        self.register_buffer("mean", leaves.mean)
        self.register_buffer("variance", leaves.variance)

    @property
    def leaves(self) -> Gaussians:
        """The current leaves."""
        return Gaussians(self.mean, self.variance)

    @torch.no_grad()
    def start(self, ages: Tensor, source: torch.Generator) -> None:
        """Set the leaves to the start `leaf_init` (`forest.starts`), from the training ages (n,)."""
        K, L = self.mean.shape
        leaves = start_gaussians(self.leaf_init, ages, K, L, self.floor, source)
        self.mean.copy_(leaves.mean)
        self.variance.copy_(leaves.variance)

    def risk(self, log_p: Tensor, y: Tensor) -> Tensor:
        """The negative log likelihood of the ages, bounded if `noise` is above 0.   (B, K, L), (B,) -> (K,)"""
        if self.noise:
            return gaussian.bounded_risk(log_p, y, self.leaves, self.noise, len(self.grid))
        return gaussian.risk(log_p, y, self.leaves)

    @torch.no_grad()
    def update(self, routing: Tensor, y: Tensor, tau: float, rounds: int, reduce: Reduce = alone) -> None:
        """Rounds of variational bounding; without the posterior, the rule of NRF, in which rho = P(l | x)."""
        centre = (self.grid.low + self.grid.high) / 2
        leaves = self.leaves
        for _ in range(rounds if self.posterior else min(rounds, 1)):  # in NRF, rho does not depend on the leaves
            rho = gaussian.responsibility(routing, y, leaves, tau) if self.posterior else routing.exp()
            if self.noise:
                rho = rho * gaussian.clean_share(routing, y, leaves, self.noise, len(self.grid))[..., None]
            leaves = gaussian.solve(gaussian.accumulate(rho, y, centre).map(reduce), leaves, self.floor, centre)
        self.mean.copy_(leaves.mean)
        self.variance.copy_(leaves.variance)

    def leaf_pmf(self) -> Tensor:
        """The Gaussians as pmfs with the same means.   (K, L, A)"""
        return gaussian_pmf(self.mean, self.variance, self.grid)


class CategoricalForest(Forest):
    """DLDLF: each leaf is a distribution over the age grid. With alpha = 0, one class for each age, it is DNDF.

    pi: the initial leaves, (K, L, A); alpha: std of a label distribution, in years; pseudo_count: in faces.
    """

    readout: Readout = "mode"
    log_pi: Tensor

    def __init__(self, phi: Tensor, pi: Tensor, grid: AgeGrid, alpha: float, pseudo_count: float) -> None:
        super().__init__(phi, grid)
        self.alpha, self.pseudo_count = alpha, pseudo_count
        self.register_buffer("log_pi", pi.log())

    def risk(self, log_p: Tensor, y: Tensor) -> Tensor:
        """The cross entropy of the label distributions and the trees' outputs.   (B, K, L), (B,) -> (K,)"""
        return categorical.risk(log_p, label_distribution(y.to(log_p.dtype), self.alpha, self.grid), self.log_pi.exp())

    @torch.no_grad()
    def update(self, routing: Tensor, y: Tensor, tau: float, rounds: int, reduce: Reduce = alone) -> None:
        """Rounds of variational bounding. R is convex in pi, so that no annealing is needed: tau is not used."""
        d = label_distribution(y.to(routing.dtype), self.alpha, self.grid)
        pi = self.log_pi.exp()
        for _ in range(rounds):
            pi = categorical.solve(reduce(categorical.accumulate(routing, d, pi)), pi, self.pseudo_count)
        self.log_pi.copy_(pi.log())

    def leaf_pmf(self) -> Tensor:
        """The leaves themselves.   (K, L, A)"""
        return self.log_pi.exp()
