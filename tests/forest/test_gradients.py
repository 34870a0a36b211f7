"""Autograd against the paper's closed-form gradients, with and without the entropy term."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from agecli.core.ages import AgeGrid
from agecli.forest import categorical, gaussian
from agecli.forest.gaussian import Gaussians
from agecli.forest.grids import label_distribution
from agecli.forest.routing import entropy, leaf_log_probs

GRID = AgeGrid(0, 60)


def node_sums(of_leaves: Tensor) -> Tensor:
    """A value for every node in heap order, each the sum over the leaves below it: single pass, bottom up.   (B, K, 2L - 1)"""
    levels = [of_leaves]
    while levels[0].shape[-1] > 1:
        levels.insert(0, levels[0].unflatten(-1, (-1, 2)).sum(-1))
    return torch.cat(levels, dim=-1)


def closed_form(logits: Tensor, share: Tensor, T: float) -> Tensor:
    """eqn:gradient_ldl and eqn:gradient_reg: 1/N (s (X_r - T S_r) - (1 - s) (X_l - T S_l)), X being D or Gamma.

    share: (B, K, L), what each leaf adds to D (eqn:D_inter) or Gamma (eqn:Gamma_inter); it sums to 1.
    """
    log_p = leaf_log_probs(logits)
    S = node_sums(log_p.exp() * (1 + log_p))  # eqn:S_inter
    X = node_sums(share)
    s = torch.sigmoid(logits)
    n = torch.arange(logits.shape[-1])
    left, right = 2 * n + 1, 2 * n + 2
    return (s * (X - T * S)[..., right] - (1 - s) * (X - T * S)[..., left]) / len(logits)


def make(depth: int, seed: int) -> tuple[Tensor, Tensor, torch.Generator]:
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(6, 3, 2 ** (depth - 1) - 1, generator=generator, dtype=torch.double)
    y = torch.randint(0, 61, (6,), generator=generator).double()
    return logits.requires_grad_(), y, generator


@pytest.mark.parametrize("T", [0.0, 1.0])
@settings(max_examples=30)
@given(depth=st.integers(2, 7), seed=st.integers(0, 10**6))
def test_drf_gradient_is_the_closed_form(T: float, depth: int, seed: int) -> None:
    logits, y, generator = make(depth, seed)
    shape = (3, 2 ** (depth - 1))
    leaves = Gaussians(
        60 * torch.rand(shape, generator=generator, dtype=torch.double),
        0.5 + 80 * torch.rand(shape, generator=generator, dtype=torch.double),
    )
    log_p = leaf_log_probs(logits)
    (gaussian.risk(log_p, y, leaves) - T * entropy(log_p)).sum().backward()
    gamma = gaussian.responsibility(log_p.detach(), y, leaves, tau=1.0)
    assert logits.grad is not None
    assert torch.allclose(logits.grad, closed_form(logits.detach(), gamma, T), atol=1e-6, rtol=0)


@pytest.mark.parametrize("T", [0.0, 1.0])
@settings(max_examples=30)
@given(depth=st.integers(2, 7), seed=st.integers(0, 10**6), alpha=st.sampled_from([0.0, 1.0, 2.0, 10.0]))
def test_dldlf_gradient_is_the_closed_form(T: float, depth: int, seed: int, alpha: float) -> None:
    logits, y, generator = make(depth, seed)
    pi = torch.rand(3, 2 ** (depth - 1), len(GRID), generator=generator, dtype=torch.double).softmax(-1)
    d = label_distribution(y, alpha, GRID)
    log_p = leaf_log_probs(logits)
    (categorical.risk(log_p, d, pi) - T * entropy(log_p)).sum().backward()
    P = log_p.detach().exp()
    g = torch.einsum("bkl,kla->bka", P, pi)
    D = torch.einsum("ba,bka,bkl,kla->bkl", d, 1 / g, P, pi)
    assert logits.grad is not None
    assert torch.allclose(logits.grad, closed_form(logits.detach(), D, T), atol=1e-6, rtol=0)


def test_identical_leaves_give_no_split_gradient() -> None:
    logits, y, _ = make(5, 0)
    same = torch.ones(3, 16, dtype=torch.double)
    gaussian.risk(leaf_log_probs(logits), y, Gaussians(30 * same, 100 * same)).sum().backward()
    assert logits.grad is not None
    assert logits.grad.abs().max() < 1e-12
