"""Metrics by hand, and against numerical integrals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agecli.core import ages
from agecli.core.ages import AgeGrid, Floats
from agecli.core.errors import InputError
from agecli.core.records import Sample
from agecli.scoring.metrics import (
    Predictions,
    crps,
    measure,
    nll,
    pick,
    pool,
    tidy,
)

GRID = AgeGrid(0, 100)


def random_pmf(seed: int, faces: int = 4, sharpness: float = 2.0) -> Floats:
    mass = np.exp(sharpness * np.random.default_rng(seed).standard_normal((faces, len(GRID))))
    return np.asarray(mass / mass.sum(-1, keepdims=True))


def predictions_of(*faces: tuple[float, ...]) -> Predictions:
    """Each is (age, predicted) or (age, predicted, low, high)."""
    whole = [(*face, 0, 100)[:4] for face in faces]
    samples = tuple(Sample(f"{i}.jpg", face[0]) for i, face in enumerate(whole))
    pmf = random_pmf(0, len(whole)).astype(np.float32) if whole else np.zeros((0, len(GRID)), np.float32)
    predicted, low, high = (np.array([face[place] for face in whole], dtype=float) for place in (1, 2, 3))
    return Predictions(samples, pmf, GRID, predicted, np.ones(len(whole)), low, high, calibrated=False)


def test_mae_cs_bias_and_coverage_of_a_known_example() -> None:
    metrics = measure(predictions_of((10, 15, 9, 21), (20, 14.9, 21, 30), (30, 30, 20, 30), (40, 52)))
    assert metrics.images == 4
    assert metrics.mae == pytest.approx((5 + 5.1 + 0 + 12) / 4)
    assert metrics.bias == pytest.approx((5 - 5.1 + 0 + 12) / 4)
    assert metrics.median == pytest.approx(5.05)
    assert metrics.p95 == pytest.approx(5.1 + 0.85 * (12 - 5.1))
    assert metrics.cs == (0.25, 0.25, 0.25, 0.25, 0.25, 0.5, 0.75, 0.75, 0.75, 0.75, 0.75)
    assert metrics.coverage == 0.75
    assert metrics.width == pytest.approx((12 + 9 + 10 + 100) / 4)
    assert metrics.row()["cs5"] == metrics.cs5 == 0.5


def test_an_error_of_exactly_five_years_counts() -> None:
    assert measure(predictions_of((20, 25.0))).cs5 == 1
    assert measure(predictions_of((0.1, 5.1))).cs5 == 1  # 5.1 - 0.1 is 4.999… or 5.000…1 in binary
    assert measure(predictions_of((20, 25.001))).cs5 == 0


def density(pmf: Floats, x: Floats) -> Floats:
    """Each year's mass spread evenly over the year around it."""
    year = np.floor(x + 0.5).astype(int)
    return np.where((year >= 0) & (year <= 100), pmf[np.clip(year, 0, 100)], 0.0)


STEP = 1e-3
X = np.arange(-3 + STEP / 2, 104, STEP)  # the middles of small steps


@given(seed=st.integers(0, 1000), age=st.floats(0, 100))
def test_crps_is_the_integral_of_the_squared_distance_to_a_step(seed: int, age: float) -> None:
    pmf = random_pmf(seed, 1)
    upto = np.cumsum(density(pmf[0], X)) * STEP
    integral = ((upto - (age <= X)) ** 2).sum() * STEP
    assert crps(pmf, np.array([age]), GRID)[0] == pytest.approx(integral, abs=3e-3)


@given(seed=st.integers(0, 1000))
def test_nll_is_that_of_a_density_whose_integral_is_one(seed: int) -> None:
    pmf = random_pmf(seed, 1)
    inside = X[(X > -0.5) & (X < 100.5)]
    some = np.repeat(pmf, len(inside), axis=0)
    assert np.exp(-nll(some, inside, GRID)).sum() * STEP == pytest.approx(1, abs=1e-3)


def test_nll_and_crps_of_a_model_that_predicts_one_year() -> None:
    pmf = np.asarray(GRID.years == 30, dtype=float)[None]
    assert nll(pmf, np.array([30.0]), GRID)[0] == 0
    assert crps(pmf, np.array([50.0]), GRID)[0] == pytest.approx(20 - 1 / 6)  # the MAE, less half the spread of a year
    assert 20 < nll(pmf, np.array([31.0]), GRID)[0] < 40  # ruled out, and yet not infinite


def test_the_interval_holds_the_age_whatever_the_readout() -> None:
    pmf = random_pmf(3, 50, 4.0).astype(np.float32)
    for readout in ("mean", "median", "mode"):
        predictions = Predictions.from_pmf(pmf, [Sample(f"{i}.jpg", 20.0) for i in range(50)], readout, GRID)
        assert (predictions.low <= predictions.predicted).all()
        assert (predictions.predicted <= predictions.high).all()
        assert predictions.predicted == pytest.approx(ages.read(pmf, readout, GRID))


def test_parts_pooled_and_picked_are_the_whole() -> None:
    whole = predictions_of((10, 15, 9, 21), (20, 14.9, 21, 30), (30, 30, 20, 30), (40, 52))
    parts = [pick(whole, [0, 1]), pick(whole, [2, 3])]
    assert measure(pool(parts)) == measure(whole)
    assert pick(whole, [3]).samples[0].age == 40


def test_no_faces_is_an_error() -> None:
    with pytest.raises(InputError):
        measure(predictions_of())


def test_numbers_are_written_short() -> None:
    assert [tidy(value) for value in (26.0, 7.123456, 3, "x", None)] == [26, 7.1235, 3, "x", None]
