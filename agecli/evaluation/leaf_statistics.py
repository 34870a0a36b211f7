"""Statistics of a trained forest: usage and width of its leaves, sharpness of its routing, shared units of f.

Leaf widths and shared units follow from the checkpoint alone. Usage and sharpness are means over faces, of
P(l | x) from the routing: B faces, K trees, N split nodes and L leaves of a tree, M units of f.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.special import entr

from agecli.core import ages
from agecli.forest.collapse import collapsed
from agecli.forest.forests import Forest, GaussianForest
from agecli.forest.precision import wide
from agecli.forest.routing import entropy

DEAD = 1e-3  # of an equal share of the faces; relative, so that it does not depend on the number of faces
HARD = 0.05  # a split decision s below this, or above 1 - this, is hard
BATCH = 1024  # faces routed at a time: 5 trees of 512 leaves take 20 MB


@dataclass(frozen=True, kw_only=True)
class LeafStatistics:
    """One leaf; None where no faces were routed."""

    tree: int  # from 1
    leaf: int  # from 1, left to right
    faces: float | None = None  # effective number of samples: the sum over the faces of P(l | x)
    share: float | None = None  # of all faces
    mean: float  # of its distribution on the age grid, years
    std: float  # years
    density_std: float | None = None  # of a Gaussian leaf before it is discretised, years
    peak: float  # largest probability of one year
    dead: bool | None = None  # gets less than DEAD of an equal share of the faces
    collapsed: bool  # Gaussian: its variance is at the floor; categorical: PEAK of its probability is in one year


@dataclass(frozen=True, kw_only=True)
class TreeStatistics:
    """One tree; None where no faces were routed."""

    tree: int  # from 1
    leaves: int
    dead: int | None = None  # number of dead leaves
    collapsed: int  # number of collapsed leaves
    effective_leaves: float | None = None  # exp of the entropy of the mean leaf usage; at most L
    entropy: float | None = None  # H in nats, mean over the faces; at most log L  [eqn:entropy]
    largest: float | None = None  # mean over the faces of the largest P(l | x)
    hard: float | None = None  # share of hard split decisions, weighted by the probability of reaching the node


@dataclass(frozen=True)
class UnitUse:
    """Which units of f the trees use, and how many they share."""

    units: int  # M
    used_by: tuple[int, ...]  # number of units that 0, 1, … K trees use
    shared: tuple[tuple[int, ...], ...]  # (K, K): number of units that trees i and j both use


@dataclass(frozen=True)
class Routing:
    """How faces are routed, as means over the faces."""

    faces: int  # B
    usage: Tensor  # P(l | x)   (K, L)
    entropy: Tensor  # H in nats   (K,)
    largest: Tensor  # largest P(l | x)   (K,)
    hard: Tensor  # share of hard decisions on the path of a face   (K,)


def route(forest: Forest, units: Tensor) -> Routing:
    """Route faces through a forest, BATCH at a time; the result does not depend on the batches.

    units: f(x), (B, M), B > 0
    Example: `route(model.forest, units).usage.amin()` is the share of the least used leaf.
    """
    with torch.inference_mode():
        parts = [_routing_sums(forest, batch) for batch in units.split(BATCH)]
    return Routing(len(units), *(torch.stack(sums).sum(0) / len(units) for sums in zip(*parts, strict=True)))


def _routing_sums(forest: Forest, units: Tensor) -> tuple[Tensor, ...]:
    """The fields of `Routing` after the first, as sums over a batch."""
    log_p = forest.route(units)
    p, s = wide(log_p.exp()), units[:, forest.phi].sigmoid()
    hard = (s < HARD) | (s > 1 - HARD)  # (B, K, N)
    reach = node_reach(p)
    return p.sum(0), entropy(log_p) * len(units), p.amax(-1).sum(0), ((reach * hard).sum(-1) / reach.sum(-1)).sum(0)


def node_reach(p: Tensor) -> Tensor:
    """The probability that a face reaches each split node: the sum of P(l | x) over the leaves below it.

    p: P(l | x), (B, K, L).   Returns (B, K, N), breadth first; 1 for the root.
    """
    widths = (2**level for level in range(p.shape[-1].bit_length() - 1))  # 1, 2, 4, … L / 2: breadth first
    return torch.cat([p.unflatten(-1, (width, -1)).sum(-1) for width in widths], dim=-1)


def leaf_statistics(forest: Forest, routing: Routing | None) -> tuple[LeafStatistics, ...]:
    """The statistics of all K * L leaves, tree by tree, left to right.

    routing: of `route`; without it `faces`, `share` and `dead` are None
    """
    pmf = wide(forest.leaf_pmf()).numpy()  # (K, L, A)
    mean, std, peak = ages.mean(pmf, forest.grid), ages.std(pmf, forest.grid), pmf.max(-1)
    shrunk = collapsed(forest)
    leaves = []
    for at in np.ndindex(mean.shape):  # tree, leaf
        row: dict[str, Any] = {"mean": float(mean[at]), "std": float(std[at]), "peak": float(peak[at])}
        if isinstance(forest, GaussianForest):
            row["density_std"] = math.sqrt(forest.variance[at])
        if routing:
            share = float(routing.usage[at])
            row |= {"faces": share * routing.faces, "share": share, "dead": share < DEAD / mean.shape[1]}
        leaves.append(LeafStatistics(tree=at[0] + 1, leaf=at[1] + 1, collapsed=bool(shrunk[at]), **row))
    return tuple(leaves)


def tree_statistics(forest: Forest, routing: Routing | None) -> tuple[TreeStatistics, ...]:
    """The statistics of each of the K trees.

    routing: of `route`; without it only the number of leaves and of collapsed leaves is known
    """
    shrunk = collapsed(forest)  # (K, L)
    K, L = shrunk.shape
    trees = []
    for k in range(K):
        routed: dict[str, Any] = {}
        if routing:
            usage = routing.usage[k]
            routed = {name: float(getattr(routing, name)[k]) for name in ("entropy", "largest", "hard")}
            routed |= {"dead": int((usage < DEAD / L).sum()), "effective_leaves": math.exp(entr(usage).sum())}
        trees.append(TreeStatistics(tree=k + 1, leaves=L, collapsed=int(shrunk[k].sum()), **routed))
    return tuple(trees)


def unit_use(phi: Tensor, units: int) -> UnitUse:
    """How the trees share the units of f.

    phi: (K, N), the index of the unit behind each split node; units: their number, M
    """
    uses = torch.zeros(len(phi), units, dtype=torch.long).scatter_(1, phi.cpu(), 1)  # (K, M): 1 if the tree uses it
    used_by = uses.sum(0).bincount(minlength=len(phi) + 1)
    return UnitUse(units, tuple(used_by.tolist()), tuple(map(tuple, (uses @ uses.T).tolist())))
