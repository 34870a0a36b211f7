"""Laws of the leaf updates: bounds that never rise, sums that add up, floors, and leaves that nobody reaches."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from agecli.core.ages import AgeGrid
from agecli.forest import categorical, gaussian
from agecli.forest.forests import CategoricalForest, GaussianForest
from agecli.forest.gaussian import Gaussians
from agecli.forest.grids import label_distribution
from agecli.forest.routing import leaf_log_probs
from agecli.forest.starts import start_gaussians

GRID = AgeGrid(0, 100)
CENTRE, FLOOR = 50.0, 0.5
seeds = st.integers(0, 10**6)


def faces(seed: int, count: int = 200, trees: int = 2, leaves: int = 8) -> tuple[Tensor, Tensor]:
    """Routing that depends on the age a little, and the ages."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 101, (count,), generator=generator).double()
    logits = torch.randn(count, trees, leaves - 1, generator=generator, dtype=torch.double)
    slopes = torch.randn(trees, leaves - 1, generator=generator, dtype=torch.double)
    return leaf_log_probs(logits + slopes * (y[:, None, None] - 50) / 20), y


def gaussians(seed: int, ages: Tensor, trees: int = 2, leaves: int = 8) -> Gaussians:
    start = start_gaussians("quantiles", ages, trees, leaves, FLOOR, torch.Generator().manual_seed(seed))
    return Gaussians(start.mean.double(), start.variance.double())


def one_round(log_p: Tensor, y: Tensor, leaves: Gaussians, tau: float) -> Gaussians:
    rho = gaussian.responsibility(log_p, y, leaves, tau)
    return gaussian.solve(gaussian.accumulate(rho, y, CENTRE), leaves, FLOOR, CENTRE)


@given(seed=seeds, tau=st.sampled_from([0.01, 0.1, 0.3, 0.5, 0.8, 1.0]))
def test_a_round_never_raises_the_free_energy_and_at_tau_1_never_the_risk(seed: int, tau: float) -> None:
    log_p, y = faces(seed)
    leaves = gaussians(seed, y)
    before = gaussian.free_energy(log_p, y, leaves, tau)
    for _ in range(8):
        leaves = one_round(log_p, y, leaves, tau)
        after = gaussian.free_energy(log_p, y, leaves, tau)
        assert (after <= before + 1e-9).all()
        if tau == 1:
            assert torch.allclose(after, gaussian.risk(log_p, y, leaves))
        before = after


@given(seed=seeds, alpha=st.sampled_from([0.0, 1.0, 2.0, 5.0]))
def test_a_round_of_categorical_leaves_never_raises_the_risk(seed: int, alpha: float) -> None:
    log_p, y = faces(seed)
    d = label_distribution(y, alpha, GRID)
    pi = categorical.uniform_start(2, 8, len(GRID)).double()
    before = categorical.risk(log_p, d, pi)
    for _ in range(8):
        pi = categorical.solve(categorical.accumulate(log_p, d, pi), pi, pseudo_count=0.0)
        after = categorical.risk(log_p, d, pi)
        assert (after <= before + 1e-9).all()
        before = after


@given(seed=seeds, cuts=st.lists(st.integers(0, 200), max_size=4), tau=st.sampled_from([0.5, 1.0]))
def test_sums_over_any_split_of_the_faces_agree(seed: int, cuts: list[int], tau: float) -> None:
    log_p, y = faces(seed)
    leaves = gaussians(seed, y)
    d, pi = label_distribution(y, 2.0, GRID), torch.rand(2, 8, len(GRID), dtype=torch.double).softmax(-1)
    edges = [0, *sorted(cuts), 200]
    parts = [slice(a, b) for a, b in pairwise(edges)][::-1]  # in another order, too
    whole = gaussian.accumulate(gaussian.responsibility(log_p, y, leaves, tau), y, CENTRE)
    total, counts = None, torch.zeros_like(pi)
    for part in parts:
        sums = gaussian.accumulate(gaussian.responsibility(log_p[part], y[part], leaves, tau), y[part], CENTRE)
        total = sums if total is None else total + sums
        counts += categorical.accumulate(log_p[part], d[part], pi)
    assert total is not None
    for name in ("weight", "age", "square"):
        assert torch.allclose(getattr(total, name), getattr(whole, name))
    assert torch.allclose(counts, categorical.accumulate(log_p, d, pi))


@given(seed=seeds, count=st.integers(1, 6), tau=st.sampled_from([0.5, 1.0]))
def test_the_variance_never_falls_below_its_floor(seed: int, count: int, tau: float) -> None:
    log_p, y = faces(seed, count)
    leaves = gaussians(seed, y)
    for _ in range(20):
        leaves = one_round(log_p, y, leaves, tau)
    assert (leaves.variance >= FLOOR).all()
    assert torch.isfinite(leaves.mean).all()


def test_a_leaf_that_no_face_reaches_keeps_what_it_had() -> None:
    y = torch.tensor([20.0, 40.0])
    log_p = leaf_log_probs(torch.full((2, 1, 3), 200.0))  # all go left: only leaf 0 is reached
    old = Gaussians(torch.tensor([[1.0, 2.0, 3.0, 4.0]]), torch.tensor([[9.0, 8.0, 7.0, 6.0]]))
    new = one_round(log_p, y, old, tau=1.0)
    assert torch.equal(new.mean[0, 1:], old.mean[0, 1:])
    assert torch.equal(new.variance[0, 1:], old.variance[0, 1:])
    assert new.mean[0, 0] == 30
    pi = torch.rand(1, 4, len(GRID)).softmax(-1)
    d = label_distribution(y, 2.0, GRID)
    solved = categorical.solve(categorical.accumulate(log_p, d, pi), pi, pseudo_count=0.01)
    assert torch.equal(solved[0, 1:], pi[0, 1:])
    assert torch.allclose(solved.sum(-1), torch.ones(1, 4))


def test_the_update_divides_by_the_sum_and_a_pseudo_count_keeps_empty_bins_alive() -> None:
    sums = torch.tensor([[[3.0, 1.0, 0.0, 0.0]]], dtype=torch.double)
    assert torch.allclose(categorical.solve(sums, sums, 0.0), sums / 4)
    kept = categorical.solve(sums, sums, 0.4)
    assert torch.allclose(kept, (sums + 0.1) / 4.4)


@pytest.mark.parametrize("count", [1, 16])
@pytest.mark.parametrize("logit", [-80.0, 0.0, 80.0])
@pytest.mark.parametrize("age", [0.0, 100.0])
def test_nothing_becomes_nan_in_float32(count: int, logit: float, age: float) -> None:
    """Extreme splits, an age far from every leaf, one-sample batches: loss, gradient and leaves stay finite."""
    phi = torch.arange(31).repeat(5, 1)
    narrow = Gaussians(torch.full((5, 32), 50.0), torch.full((5, 32), FLOOR))
    for forest in (
        GaussianForest(phi, narrow, GRID, FLOOR),
        CategoricalForest(phi, categorical.uniform_start(5, 32, len(GRID)), GRID, 0.0, 0.01),
    ):
        y = torch.full((count,), age)
        for _ in range(3):
            units = torch.full((count, 31), logit, requires_grad=True)
            log_p = forest.route(units)
            E, _, _ = forest.energy(log_p, y, T=1.0)
            E.backward()
            assert torch.isfinite(E)
            assert units.grad is not None
            assert torch.isfinite(units.grad).all()
            forest.update(log_p.detach(), y, tau=0.5, rounds=20)
            assert all(torch.isfinite(buffer).all() for buffer in forest.buffers())
            pmf = forest.pmf(log_p.detach())
            assert torch.allclose(pmf.sum(-1), torch.ones(count), atol=1e-5)


def spread_of_starts(tau: float) -> float:
    """How far three random starts lie apart after a leaf update, in years."""
    log_p, y = faces(1)
    means = []
    for seed in range(3):
        leaves = gaussians(seed, y)
        for _ in range(20):
            leaves = one_round(log_p, y, leaves, tau)
        means.append(leaves.mean)
    return float((torch.stack(means).amax(0) - torch.stack(means).amin(0)).max())


def test_random_starts_agree_at_small_tau_and_not_at_tau_1() -> None:
    assert spread_of_starts(0.01) < 0.01
    assert spread_of_starts(1.0) > 5


def test_leaves_are_buffers_in_float32_and_follow_the_model() -> None:
    forest = GaussianForest(
        torch.zeros(1, 3, dtype=torch.long), Gaussians(torch.ones(1, 4), torch.ones(1, 4)), GRID, FLOOR
    )
    assert not list(forest.parameters())
    assert set(forest.state_dict()) == {"phi", "mean", "variance"}
    assert forest.route(torch.zeros(2, 3, dtype=torch.float16)).dtype == torch.float32


def test_noise_bounds_the_loss_of_a_single_face() -> None:
    leaves = Gaussians(torch.full((2, 4), 30.0), torch.full((2, 4), 4.0))
    log_p = torch.full((1, 2, 4), 0.25).log()
    far = torch.tensor([110.0])
    assert gaussian.risk(log_p, far, leaves).min() > 500
    assert gaussian.bounded_risk(log_p, far, leaves, 0.02, 121).max() <= math.log(121 / 0.02) + 1e-4
    near = torch.tensor([30.0])
    change = gaussian.bounded_risk(log_p, near, leaves, 0.02, 121) - gaussian.risk(log_p, near, leaves)
    assert change.abs().max() < 0.03


def test_labels_that_are_noise_move_no_leaf() -> None:
    leaves = Gaussians(torch.full((1, 4), 30.0), torch.full((1, 4), 4.0))
    log_p = torch.full((2, 1, 4), 0.25).log()
    share = gaussian.clean_share(log_p, torch.tensor([30.0, 110.0]), leaves, 0.02, 121)
    assert share[0].item() > 0.98
    assert share[1].item() < 1e-6


def test_without_a_pseudo_count_a_bin_that_is_empty_stays_so_and_nothing_breaks() -> None:
    """Also for faces whose age no leaf has left: g_c is 0 there."""
    log_p, y = faces(0)
    pi = torch.zeros(2, 8, 101, dtype=torch.double)
    pi[..., :50] = 1 / 50
    d = label_distribution(y, 0.0, GRID)
    for _ in range(5):
        pi = categorical.solve(categorical.accumulate(log_p, d, pi), pi, 0.0)
    assert torch.isfinite(pi).all()
    assert (pi[..., 50:] == 0).all()
    assert torch.allclose(pi.sum(-1), torch.ones(2, 8, dtype=torch.double))
    assert torch.isfinite(categorical.risk(log_p, d, pi)).all()
