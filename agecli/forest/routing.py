"""Routing: P(l | x), the probability that a face reaches each leaf."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid


def draw_phi(trees: int, splits: int, units: int, generator: torch.Generator) -> Tensor:
    """phi_k: the unit of f behind each split node, drawn without replacement, independently for each tree.

    trees: K; splits: N, at most `units`, M.   Returns (K, N), int64.
    """
    return torch.stack([torch.randperm(units, generator=generator)[:splits] for _ in range(trees)])


def leaf_log_probs(logits: Tensor) -> Tensor:
    """log P(l | x), the sum of log split decisions on the way to leaf l.  [eqn:prob_leaf]

    logits: (B, K, N), one per split node, breadth first, N = L - 1.   Returns (B, K, L).
    """
    left, right = logsigmoid(logits), logsigmoid(-logits)
    reach = logits.new_zeros(*logits.shape[:2], 1)  # (B, K, 1): every face reaches the root
    start = 0
    while start < logits.shape[-1]:
        level = slice(start, start + reach.shape[-1])  # the split nodes of this level
        reach = torch.stack((reach + left[..., level], reach + right[..., level]), dim=-1).flatten(-2)
        start = level.stop
    return reach


def entropy(log_p: Tensor) -> Tensor:
    """H, the Shannon entropy of P(l | x), in nats, averaged over the batch.  [eqn:entropy]   (B, K, L) -> (K,)"""
    return -(log_p.exp() * log_p).sum(-1).mean(0)


def divergence(log_q: Tensor, log_p: Tensor) -> Tensor:
    """KL(Q || P) of two routings of the same faces, in nats, averaged over the batch and the trees.   (B, K, L) twice -> ()

    By the chain rule it is the sum, over the split nodes, of the KL divergence of their decisions, weighted by the
    probability under Q that a face reaches the node.
    """
    return (log_q.exp() * (log_q - log_p)).sum(-1).mean()
