"""Laws of routing: every face reaches exactly one leaf, as the product along its path says."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from agecli.forest.routing import divergence, draw_phi, entropy, leaf_log_probs

DEPTHS = range(2, 11)


def random_logits(depth: int, seed: int, scale: float = 3.0, faces: int = 4, trees: int = 3) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(faces, trees, 2 ** (depth - 1) - 1, generator=generator, dtype=torch.double)


def slow_leaf_probs(logits: Tensor) -> Tensor:
    """The paper's product, one path at a time: left is s, right is 1 - s, the children of n are 2n + 1 and 2n + 2."""
    faces, trees, splits = logits.shape
    result = torch.ones(faces, trees, splits + 1, dtype=logits.dtype)
    for leaf in range(splits + 1):
        node = splits + leaf  # leaves follow the split nodes in heap order
        while node > 0:
            parent, is_left = (node - 1) // 2, node % 2 == 1
            s = torch.sigmoid(logits[:, :, parent])
            result[:, :, leaf] *= s if is_left else 1 - s
            node = parent
    return result


@given(depth=st.sampled_from(DEPTHS), seed=st.integers(0, 10**6), scale=st.floats(0, 80))
def test_every_face_reaches_exactly_one_leaf(depth: int, seed: int, scale: float) -> None:
    total = leaf_log_probs(random_logits(depth, seed, scale).float()).logsumexp(dim=-1)
    assert torch.allclose(total, torch.zeros_like(total), atol=1e-5)


@given(depth=st.sampled_from(DEPTHS), seed=st.integers(0, 10**6))
def test_leaf_probabilities_are_the_products_along_the_paths(depth: int, seed: int) -> None:
    logits = random_logits(depth, seed)
    assert torch.allclose(leaf_log_probs(logits).exp(), slow_leaf_probs(logits), atol=1e-12)


@pytest.mark.parametrize("depth", DEPTHS)
def test_depth_counts_the_levels_of_nodes_leaves_included(depth: int) -> None:
    assert leaf_log_probs(random_logits(depth, 0)).shape[-1] == 2 ** (depth - 1)


@pytest.mark.parametrize("sharp", [80.0, -80.0, 500.0])
def test_sharp_splits_give_finite_logs_and_gradients_in_float32(sharp: float) -> None:
    logits = torch.full((2, 3, 31), sharp, requires_grad=True)
    log_p = leaf_log_probs(logits)
    assert torch.isfinite(log_p).all()
    entropy(log_p).sum().backward()
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()


def test_entropy_is_largest_where_all_leaves_are_as_likely() -> None:
    assert torch.allclose(entropy(leaf_log_probs(torch.zeros(7, 2, 31))), torch.full((2,), math.log(32)))


@given(trees=st.integers(1, 8), splits=st.integers(1, 31), spare=st.integers(0, 40), seed=st.integers(0, 1000))
def test_phi_draws_units_without_replacement_and_from_the_seed_alone(
    trees: int, splits: int, spare: int, seed: int
) -> None:
    phi = draw_phi(trees, splits, splits + spare, torch.Generator().manual_seed(seed))
    again = draw_phi(trees, splits, splits + spare, torch.Generator().manual_seed(seed))
    assert torch.equal(phi, again)
    assert phi.shape == (trees, splits)
    assert all(len(set(row)) == splits and max(row) < splits + spare for row in phi.tolist())


def test_trees_draw_their_units_independently() -> None:
    phi = draw_phi(5, 31, 128, torch.Generator().manual_seed(0))
    assert len({tuple(row) for row in phi.tolist()}) == 5


@given(depth=st.sampled_from(DEPTHS), seed=st.integers(0, 10**6))
def test_the_divergence_of_two_routings_is_that_of_their_decisions(depth: int, seed: int) -> None:
    goal, own = random_logits(depth, seed), random_logits(depth, seed + 1)
    s, q = torch.sigmoid(own), torch.sigmoid(goal)
    each = q * (q / s).log() + (1 - q) * ((1 - q) / (1 - s)).log()  # (B, K, N): KL of one decision
    reach = torch.ones_like(goal)  # of each node, under the goal
    for node in range(1, goal.shape[-1]):
        parent = (node - 1) // 2
        reach[..., node] = reach[..., parent] * (q if node % 2 else 1 - q)[..., parent]
    expected = (reach * each).sum(-1).mean()
    assert torch.allclose(divergence(leaf_log_probs(goal), leaf_log_probs(own)), expected, rtol=1e-9)


def test_a_routing_does_not_diverge_from_itself() -> None:
    log_p = leaf_log_probs(random_logits(6, 0, scale=80.0).float())
    assert divergence(log_p, log_p) == 0
