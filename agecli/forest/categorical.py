"""Categorical leaves (DLDLF): each is a distribution over the age grid, learned by variational bounding.

Shapes: B faces, K trees, L leaves, A ages.   log_p: log P(l | x), (B, K, L).   d: label distributions, (B, A).
pi: leaves, (K, L, A).
"""

from __future__ import annotations

import torch
from torch import Tensor

from agecli.forest.precision import wide

REACHED = 1e-6  # sum of responsibilities below which a leaf counts as not reached by any face


def log_output(log_p: Tensor, pi: Tensor) -> Tensor:
    """log g_c of each tree, the mixture of its leaves.   (B, K, L), (K, L, A) -> (B, K, A)

    A matrix product is many times faster than logsumexp over (B, K, L, A). The largest log P is never below -log L, so
    only negligible leaves round to 0; a g_c of 0 is raised to the smallest normal number, so that its log is finite.
    """
    g = torch.einsum("bkl,kla->bka", log_p.exp(), pi)
    return g.clamp_min(torch.finfo(g.dtype).tiny).log()


def risk(log_p: Tensor, d: Tensor, pi: Tensor) -> Tensor:
    """R of each tree, the cross entropy of d(y) against its output.  [eqn:tree_loss_ldl]   (B, K, L), (B, A) -> (K,)"""
    return -(d.unsqueeze(1) * log_output(log_p, pi)).sum(-1).mean(0)


def accumulate(log_p: Tensor, d: Tensor, pi: Tensor) -> Tensor:
    """Sufficient statistics: the sum over the batch of d_c * rho(l | pi_lc, x).   Returns (K, L, A), float64.

    rho = P * pi_lc / g_c, so the sum over faces of d_c * rho is pi_lc times a product of matrices.
    """
    share = d.unsqueeze(1) / log_output(log_p, pi).exp()  # (B, K, A)
    sums = wide(torch.einsum("bkl,bka->kla", log_p.exp(), share)) * pi
    return torch.where(pi > 0, sums, 0.0)  # without a pseudo-count, bins of 0 stay 0, also where g_c is 0


def solve(sums: Tensor, old: Tensor, pseudo_count: float) -> Tensor:
    """The pi that minimises the bound: sums divided by their total.  [eqn:update_leaf_ldl]   (K, L, A)

    sums: of `accumulate`, added over batches and ranks; old: the current pi; pseudo_count: faces, spread over the
    grid, so that no bin becomes 0. A leaf that no face reaches keeps its old distribution.
    """
    reached = sums.sum(-1, keepdim=True) > REACHED
    counts = sums + pseudo_count / sums.shape[-1]
    pi = counts / counts.sum(-1, keepdim=True).clamp_min(REACHED)
    return torch.where(reached, pi.to(old.dtype), old)


def uniform_start(trees: int, leaves: int, ages: int) -> Tensor:
    """The initial leaves, pi = 1 / A.   Returns (K, L, A)."""
    return torch.full((trees, leaves, ages), 1.0 / ages)
