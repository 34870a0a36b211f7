"""Laws of what is read from a distribution on the age grid, whatever model it comes from."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agecli.core import ages
from agecli.core.ages import AgeGrid, Floats

GRID = AgeGrid(0, 100)


def one_hot(age: int) -> Floats:
    return np.asarray(GRID.years == age, dtype=np.float64)


def random_pmf(seed: int, sharpness: float = 3.0) -> Floats:
    mass = np.exp(sharpness * np.random.default_rng(seed).standard_normal((5, len(GRID))))
    return np.asarray(mass / mass.sum(-1, keepdims=True))


@given(seed=st.integers(0, 10**6), q=st.floats(0.01, 0.98))
def test_quantiles_rise_with_q_and_stay_on_the_grid(seed: int, q: float) -> None:
    pmf = random_pmf(seed)
    low, high = ages.quantile(pmf, q, GRID), ages.quantile(pmf, q + 0.01, GRID)
    assert (low <= high).all()
    assert (low >= 0).all()
    assert (high <= 100).all()


def test_each_pmf_may_have_a_q_of_its_own() -> None:
    pmf = random_pmf(0)
    q = np.array([0.1, 0.3, 0.5, 0.7, 0.9])
    each = [ages.quantile(pmf[i], q[i], GRID) for i in range(5)]
    assert ages.quantile(pmf, q, GRID).tolist() == [value.item() for value in each]


@given(seed=st.integers(0, 10**6), coverage=st.sampled_from([0.5, 0.8, 0.9, 0.95]))
def test_an_interval_holds_its_share(seed: int, coverage: float) -> None:
    pmf = random_pmf(seed, 1.0)
    low, high = ages.interval(pmf, coverage, GRID)
    edges = GRID.years - 0.5
    inside = ((np.clip(high[:, None] - edges, 0, 1) - np.clip(low[:, None] - edges, 0, 1)) * pmf).sum(-1)
    uncut = (low > 0) & (high < 100)  # half of the first and the last year lies outside of the grid
    assert inside[uncut] == pytest.approx(coverage, abs=1e-9)


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


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [(19.5, 50.5, "20 to 50"), (14.5, 48.5, "15 to 48"), (3.0, 5.0, "3 to 5"), (3.2, 3.6, "3.4")],
)
def test_an_interval_is_said_in_the_whole_years_it_holds(low: float, high: float, said: str) -> None:
    assert ages.span(low, high) == said
