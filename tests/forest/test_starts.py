"""Starts of Gaussian leaves: informed ones follow the ages, uninformed ones don't, and all can be learned from."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agecli.core.config import Config, LeafInit, replace
from agecli.forest import gaussian
from agecli.forest.routing import leaf_log_probs
from agecli.forest.starts import NEAR, OLDEST, STARTS, THIN, WIDE, start_gaussians

FLOOR = 0.5


def test_quantiles_spread_the_means_over_the_ages() -> None:
    ages = torch.tensor([float(age) for age in range(101)])
    start = start_gaussians("quantiles", ages, 5, 32, FLOOR, torch.Generator().manual_seed(0))
    assert (start.mean.sort().values.diff() > 0).all()
    assert (start.mean.min(1).values < 5).all()
    assert (start.mean.max(1).values > 95).all()
    assert torch.allclose(start.variance, ages.var(correction=0).expand(5, 32))
    assert not torch.equal(start.mean[0].argsort(), start.mean[1].argsort())


@given(ages=st.lists(st.integers(0, 100), min_size=1, max_size=60), leaves=st.sampled_from([2, 8, 32]))
def test_kmeans_gives_each_age_to_its_nearest_centre(ages: list[int], leaves: int) -> None:
    y = torch.tensor(ages, dtype=torch.double)
    start = start_gaussians("kmeans", y, 3, leaves, FLOOR, torch.Generator())
    assert start.mean.shape == (3, leaves)
    assert torch.isfinite(start.mean).all()
    assert (start.variance >= FLOOR).all()
    nearest = (y[:, None] - start.mean[0].double()).abs().argmin(1)
    for cluster in nearest.unique().tolist():
        assert abs(y[nearest == cluster].mean() - start.mean[0, cluster]) < 0.51  # ties may fall to either side


def test_every_start_can_be_set_and_the_former_name_is_still_read() -> None:
    assert set(STARTS) == set(LeafInit.__args__)  # type: ignore[attr-defined]
    for name in STARTS:
        assert replace(Config(), {"forest.leaf_init": name}).forest.leaf_init == name
    assert replace(Config(), {"forest.leaf_init": "random"}).forest.leaf_init == "quantiles"


def test_uninformed_starts_know_at_most_the_mean_of_the_ages() -> None:
    young = torch.tensor([1.0, 2.0, 3.0] * 20)
    uniform, identical, narrow = (
        start_gaussians(name, young, 5, 32, FLOOR, torch.Generator().manual_seed(0))
        for name in ("uniform", "identical", "narrow")
    )
    assert uniform.mean.min() >= 0
    assert uniform.mean.max() <= OLDEST
    assert uniform.mean.mean() == pytest.approx(50, abs=8)
    assert (identical.mean == 2).all()
    assert (identical.variance == WIDE**2).all()
    assert ((narrow.mean - 2).abs() <= NEAR).all()
    assert narrow.mean.unique().numel() > 100
    assert (narrow.variance == THIN**2).all()


def test_identical_leaves_have_no_gradient_and_the_first_update_tells_them_apart() -> None:
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(0, 80, (200,), generator=generator).double()
    logits = (0.3 * torch.randn(200, 1, 7, generator=generator, dtype=torch.double)).requires_grad_()
    start = start_gaussians("identical", y, 1, 8, FLOOR, generator)
    leaves = gaussian.Gaussians(start.mean.double(), start.variance.double())
    gaussian.risk(leaf_log_probs(logits), y, leaves).sum().backward()
    assert logits.grad is not None
    assert logits.grad.abs().max() < 1e-15
    rho = gaussian.responsibility(leaf_log_probs(logits.detach()), y, leaves, 1.0)
    assert gaussian.solve(gaussian.accumulate(rho, y, 50.0), leaves, FLOOR, 50.0).mean.unique().numel() == 8


@pytest.mark.parametrize("name", STARTS)
def test_the_same_seed_is_the_same_start(name: str) -> None:
    ages = torch.arange(60.0)
    one, two = (start_gaussians(name, ages, 2, 8, FLOOR, torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(one.mean, two.mean)
    assert (one.variance >= FLOOR).all()
