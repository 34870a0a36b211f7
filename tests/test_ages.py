"""Laws of distributions on the age grid, whatever model they come from."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from agecli import ages
from agecli.ages import AgeGrid, gaussian_pmf, label_distribution

GRID = AgeGrid(0, 100)


def one_hot(age: int) -> Tensor:
    return (GRID.years(torch.zeros(1)) == age).double()


def random_pmf(seed: int, sharpness: float = 3.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (sharpness * torch.randn(5, len(GRID), generator=generator, dtype=torch.double)).softmax(-1)


@given(y=st.floats(0, 100), alpha=st.sampled_from([0.0, 0.5, 2.0, 10.0]))
def test_a_label_distribution_sums_to_one_and_peaks_at_the_age(y: float, alpha: float) -> None:
    d = label_distribution(torch.tensor([y], dtype=torch.double), alpha, GRID)
    assert d.sum().item() == pytest.approx(1)
    assert abs(d.argmax().item() - y) <= 0.5


def test_alpha_0_is_one_hot() -> None:
    assert torch.equal(label_distribution(torch.tensor([7.0]), 0.0, GRID)[0].double(), one_hot(7))


def test_a_label_distribution_has_the_ratios_of_its_gaussian() -> None:
    d = label_distribution(torch.tensor([20.0], dtype=torch.double), 2.0, GRID)[0]
    assert (d[22] / d[20]).item() == pytest.approx(torch.tensor(-0.5).exp().item(), rel=1e-6)


@given(mean=st.floats(0, 100), variance=st.floats(0.5, 900))
def test_a_gaussian_laid_on_the_grid_keeps_its_mean_also_at_the_ends(mean: float, variance: float) -> None:
    pmf = gaussian_pmf(torch.tensor([mean]), torch.tensor([variance]), GRID)
    assert pmf.sum().item() == pytest.approx(1)
    assert ages.mean(pmf, GRID).item() == pytest.approx(mean, abs=2e-3)


def test_away_from_the_ends_it_is_the_plain_gaussian() -> None:
    years = GRID.years(torch.zeros(1, dtype=torch.double))
    plain = torch.exp(-((years - 40.3) ** 2) / (2 * 9))
    tilted = gaussian_pmf(torch.tensor([40.3], dtype=torch.double), torch.tensor([9.0]), GRID)[0]
    assert torch.allclose(tilted, plain / plain.sum(), atol=1e-9)


@given(seed=st.integers(0, 10**6), q=st.floats(0.01, 0.98))
def test_quantiles_rise_with_q_and_stay_on_the_grid(seed: int, q: float) -> None:
    pmf = random_pmf(seed)
    low, high = ages.quantile(pmf, q, GRID), ages.quantile(pmf, q + 0.01, GRID)
    assert (low <= high).all()
    assert (low >= 0).all()
    assert (high <= 100).all()


@given(seed=st.integers(0, 10**6), coverage=st.sampled_from([0.5, 0.8, 0.9, 0.95]))
def test_an_interval_holds_its_share(seed: int, coverage: float) -> None:
    pmf = random_pmf(seed, 1.0)
    low, high = ages.interval(pmf, coverage, GRID)
    edges = GRID.years(pmf) - 0.5
    inside = (((high[:, None] - edges).clamp(0, 1) - (low[:, None] - edges).clamp(0, 1)) * pmf).sum(-1)
    uncut = (low > 0) & (high < 100)  # half of the first and the last year lies outside of the grid
    assert torch.allclose(inside[uncut], torch.tensor(coverage, dtype=torch.double), atol=1e-9)


@pytest.mark.parametrize("readout", ages.READOUTS)
def test_a_sure_age_is_read_as_itself(readout: ages.Readout) -> None:
    for age in (0, 33, 100):
        assert ages.read(one_hot(age)[None], readout, GRID).item() == pytest.approx(age)


def test_readouts_of_a_known_distribution() -> None:
    pmf = 0.5 * one_hot(10) + 0.3 * one_hot(20) + 0.2 * one_hot(40)
    assert ages.mode(pmf, GRID) == 10
    assert ages.mean(pmf, GRID).item() == pytest.approx(19)
    assert ages.median(pmf, GRID).item() == pytest.approx(10.5)
    assert ages.std(pmf, GRID).item() == pytest.approx((0.5 * 81 + 0.3 * 1 + 0.2 * 441) ** 0.5)
