"""Gaussian leaves (DRF): a mean in years and a variance in years^2 each, learned by variational bounding.

The paper's sigma is a standard deviation in the density and a variance in the update; here it is always the variance.

Shapes: B faces, K trees, L leaves.   log_p: log P(l | x), (B, K, L).   y: ages, (B,).   rho: (B, K, L).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from agecli.forest.precision import wide

REACHED = 1e-6  # sum of responsibilities below which a leaf counts as not reached by any face


@dataclass(frozen=True)
class Gaussians:
    """The leaves of K trees. Each is (K, L)."""

    mean: Tensor
    variance: Tensor


@dataclass(frozen=True)
class GaussianSums:
    """Sufficient statistics of the leaves over a batch. Each is (K, L), float64."""

    weight: Tensor  # sum of rho
    age: Tensor  # sum of rho * y
    square: Tensor  # sum of rho * y^2; y is centred, against cancellation in the variance

    def __add__(self, other: GaussianSums) -> GaussianSums:
        return GaussianSums(self.weight + other.weight, self.age + other.age, self.square + other.square)

    def map(self, change: Callable[[Tensor], Tensor]) -> GaussianSums:
        """The sums after `change` was applied to each, such as an all-reduce over ranks."""
        return GaussianSums(change(self.weight), change(self.age), change(self.square))


def log_density(y: Tensor, leaves: Gaussians) -> Tensor:
    """log N(y; mu_l, var_l) for every leaf.   y: (B,) -> (B, K, L)"""
    square = (y[:, None, None] - leaves.mean) ** 2
    return -0.5 * (square / leaves.variance + leaves.variance.log() + math.log(2 * math.pi))


def risk(log_p: Tensor, y: Tensor, leaves: Gaussians) -> Tensor:
    """R of each tree, the negative log likelihood of the true ages.  [eqn:tree_loss_reg]   (B, K, L), (B,) -> (K,)"""
    return -(log_p + log_density(y, leaves)).logsumexp(-1).mean(0)


def bounded_risk(log_p: Tensor, y: Tensor, leaves: Gaussians, noise: float, ages: int) -> Tensor:
    """R with a share `noise` of labels drawn uniformly from the age grid: -log((1 - noise) p + noise / A).

    No face costs more than log(A / noise), so wrong labels can't dominate the gradient.   (B, K, L), (B,) -> (K,)
    """
    clean = (log_p + log_density(y, leaves)).logsumexp(-1) + math.log1p(-noise)
    return -torch.logaddexp(clean, torch.full_like(clean, math.log(noise / ages))).mean(0)


def clean_share(log_p: Tensor, y: Tensor, leaves: Gaussians, noise: float, ages: int) -> Tensor:
    """The posterior probability that a label is no noise, for each tree.   (B, K, L), (B,) -> (B, K)"""
    clean = (log_p + log_density(y, leaves)).logsumexp(-1) + math.log1p(-noise)
    return torch.sigmoid(clean - math.log(noise / ages))


def free_energy(log_p: Tensor, y: Tensor, leaves: Gaussians, tau: float) -> Tensor:
    """J' at the posterior that minimises it; a leaf update never raises it. R if tau is 1.  [eqn:new_free_energy]

    Returns (K,).
    """
    return -(tau * (log_p + log_density(y, leaves))).logsumexp(-1).mean(0) / tau


def responsibility(log_p: Tensor, y: Tensor, leaves: Gaussians, tau: float) -> Tensor:
    """rho, the annealed posterior of the leaves given a face and its age.  [eqn:new_posterior]   (B, K, L)"""
    return (tau * (log_p + log_density(y, leaves))).softmax(-1)


def accumulate(rho: Tensor, y: Tensor, centre: float) -> GaussianSums:
    """The sums of a batch; `centre`, in years, is subtracted from all ages."""
    rho, y = wide(rho), wide(y) - centre
    return GaussianSums(rho.sum(0), torch.einsum("bkl,b->kl", rho, y), torch.einsum("bkl,b->kl", rho, y**2))


def solve(sums: GaussianSums, old: Gaussians, floor: float, centre: float) -> Gaussians:
    """The leaf means and variances that minimise the bound.  [eqn:mean_new, eqn:covar_new]

    sums: added over batches and ranks; floor: the least variance; centre: that of `accumulate`. A leaf that no face
    reaches keeps its old parameters.
    """
    weight = sums.weight.clamp_min(REACHED)
    mean = sums.age / weight
    variance = (sums.square / weight - mean**2).clamp_min(floor)  # a leaf with a single age must not become a spike
    reached = sums.weight > REACHED
    return Gaussians(
        torch.where(reached, (mean + centre).to(old.mean.dtype), old.mean),
        torch.where(reached, variance.to(old.variance.dtype), old.variance),
    )
