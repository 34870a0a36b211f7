"""Starts of Gaussian leaves (DRF): their means and variances before the first update, informed by the ages or not.

`quantiles` and `kmeans` know how the training ages are distributed. `uniform`, `identical` and `narrow` know little or
nothing of it: a method that is free of initial values must not depend on which of them it gets.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from agecli.forest.gaussian import Gaussians

OLDEST = 100.0  # years: upper end of the means of `uniform`
WIDE = 100.0  # years: std of the leaves of `identical`
NEAR = 1.0  # years: means of `narrow` are within this of the mean training age
THIN = 2.0  # years: std of the leaves of `narrow`

Start = Callable[[Tensor, int, int, torch.Generator], Gaussians]


def quantiles(ages: Tensor, trees: int, leaves: int, generator: torch.Generator) -> Gaussians:
    """Means at quantiles of the training ages (n,), in another order for each tree; all variances that of the ages."""
    spread = torch.rand(trees, leaves, generator=generator)
    share = (torch.arange(leaves) + spread) / leaves  # one quantile from each of L equal parts
    means = torch.quantile(ages.double(), share.double().flatten()).view(trees, leaves)
    order = torch.stack([torch.randperm(leaves, generator=generator) for _ in range(trees)])
    return Gaussians(means.gather(1, order).float(), _of_all(ages, trees, leaves))


def uniform(ages: Tensor, trees: int, leaves: int, generator: torch.Generator) -> Gaussians:
    """Means drawn uniformly from 0 to OLDEST years, wherever the training ages (n,) are; all variances that of the ages."""
    return Gaussians(OLDEST * torch.rand(trees, leaves, generator=generator), _of_all(ages, trees, leaves))


def identical(ages: Tensor, trees: int, leaves: int, generator: torch.Generator) -> Gaussians:
    """All leaves the same, as in the authors' code: the mean of the training ages (n,), and a std of WIDE years.

    The gradient of R is then exactly 0 until the first leaf update tells leaves apart, by their routing alone.
    """
    mean = ages.double().mean().float()
    return Gaussians(mean.expand(trees, leaves).clone(), torch.full((trees, leaves), WIDE**2))


def narrow(ages: Tensor, trees: int, leaves: int, generator: torch.Generator) -> Gaussians:
    """All leaves within NEAR years of the mean of the training ages (n,), with a std of THIN years."""
    offset = NEAR * (2 * torch.rand(trees, leaves, generator=generator) - 1)
    return Gaussians(ages.double().mean().float() + offset, torch.full((trees, leaves), THIN**2))


def kmeans(ages: Tensor, trees: int, leaves: int, generator: torch.Generator) -> Gaussians:
    """k-means clusters of the training ages (n,), by age and the same for each tree: their means and variances.

    A cluster of a single age has a variance of 0.
    """
    y = ages.double().sort().values
    centres = torch.quantile(y, (torch.arange(leaves, dtype=torch.double) + 0.5) / leaves)
    for _ in range(100):  # Lloyd's algorithm in one dimension
        cluster = torch.bucketize(y, (centres[1:] + centres[:-1]) / 2)
        count = torch.bincount(cluster, minlength=leaves)
        mean = torch.bincount(cluster, y, minlength=leaves) / count.clamp_min(1)
        new = torch.where(count > 0, mean, centres)
        if torch.equal(new, centres):
            break
        centres = new
    variance = torch.bincount(cluster, (y - centres[cluster]) ** 2, minlength=leaves) / count.clamp_min(1)
    return Gaussians(centres.float().repeat(trees, 1), variance.float().repeat(trees, 1))


STARTS: dict[str, Start] = {start.__name__: start for start in (quantiles, uniform, identical, narrow, kmeans)}


def start_gaussians(
    name: str, ages: Tensor, trees: int, leaves: int, floor: float, source: torch.Generator
) -> Gaussians:
    """The leaves of the start `name` in STARTS, with variances of at least `floor`, years^2.   ages: (n,) -> (K, L) each"""
    made = STARTS[name](ages, trees, leaves, source)
    return Gaussians(made.mean, made.variance.clamp_min(floor))


def _of_all(ages: Tensor, trees: int, leaves: int) -> Tensor:
    """The variance of the training ages, for each leaf.   (n,) -> (K, L)"""
    return ages.double().var(correction=0).float().expand(trees, leaves).clone()
