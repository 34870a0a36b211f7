"""Recalibration: a bias that is there is removed, one that is not stays away, and the promised coverage is kept."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from agecli.core import ages
from agecli.core.ages import AgeGrid, Floats
from agecli.scoring.calibration import DECADES, Calibration, corrected, interval
from agecli.scoring.recalibration import SHRINKAGE, choose_shrinkage, fit_bias, recalibrate

GRID = AgeGrid(0, 120)


def predictions(count: int, seed: int, bias: float) -> tuple[NDArray[np.float64], Floats]:
    """Gaussian distributions around a prediction that is off by `bias` and an error of 4 years; and the true ages."""
    rng = np.random.default_rng(seed)
    age = rng.uniform(15, 80, count).round()
    centre = age + bias + rng.normal(0, 4, count)
    pmf = np.exp(-0.5 * ((np.arange(121) - centre[:, None]) / 3) ** 2)
    return pmf / pmf.sum(1, keepdims=True), age


def only_bias(*bias: float) -> Calibration:
    return Calibration(0, 1.0, (1.0,) * DECADES, (1.0,) * DECADES, bias=bias)


def test_a_correction_moves_the_mean_by_the_bias_and_keeps_the_mass() -> None:
    pmf, _ = predictions(20, 0, 0)
    for years in (2.5, -1.25):
        moved = corrected(pmf, GRID, only_bias(*[years] * DECADES))
        assert moved.sum(1) == pytest.approx(1)
        assert ages.mean(pmf, GRID) - ages.mean(moved, GRID) == pytest.approx(years, abs=0.01)
    assert corrected(pmf, GRID, None) is pmf
    assert corrected(pmf, GRID, only_bias()) is pmf


def test_mass_that_would_leave_the_grid_stays_at_its_end() -> None:
    pmf = np.zeros((1, 121))
    pmf[0, 1] = 1
    assert corrected(pmf, GRID, only_bias(*[4.0] * DECADES))[0, 0] == 1


def test_a_constant_bias_is_found_at_every_age_and_shrunk() -> None:
    bias = fit_bias(np.linspace(10, 70, 300), np.full(300, 3.0))
    assert np.array(bias[:7]) == pytest.approx(3.0, abs=0.2)
    assert 0 < bias[-1] < 3  # where there are no faces it is smaller
    assert 0 < max(fit_bias(np.array([30.0]), np.array([3.0]))) < 1.5


def test_a_real_bias_is_corrected_and_the_intervals_hold_on_new_faces() -> None:
    covered, gained = [], []
    new, truth = predictions(500, 99, 4)
    for seed in range(4):
        pmf, age = predictions(60, seed, 4)
        made = recalibrate(pmf, age, np.arange(60), GRID, "median", only_bias())
        assert made.calibration.bias
        assert made.after.mae < made.before.mae
        assert made.before.bias == pytest.approx(4, abs=1.6)
        moved = corrected(new, GRID, made.calibration)
        low, high = interval(moved, GRID, made.calibration)
        covered.append(((low <= truth) & (truth <= high)).mean())
        gained.append(np.abs(ages.median(new, GRID) - truth).mean() - np.abs(ages.median(moved, GRID) - truth).mean())
    assert 0.86 <= np.mean(covered) <= 0.94
    assert min(gained) > 0


def test_without_a_bias_nothing_is_corrected() -> None:
    applied = [
        bool(recalibrate(*predictions(60, seed, 0), np.arange(60), GRID, "median", None).calibration.bias)
        for seed in range(4)
    ]
    assert sum(applied) <= 2


def test_a_calibration_with_a_bias_survives_its_header() -> None:
    known = only_bias(*[1.5] * DECADES)
    assert Calibration.read(known.header()) == known
    with pytest.raises(ValueError, match="bias"):
        Calibration.read({**known.header(), "bias": [1.0]})


def test_the_bias_is_shrunk_most_where_faces_are_few() -> None:
    few, many = (fit_bias(np.full(count, 55.0), np.full(count, 6.0), 3.0)[5] for count in (3, 300))
    assert 0 < few < 3
    assert many == pytest.approx(6, abs=0.4)
    assert fit_bias(np.full(300, 15.0), np.full(300, 6.0), 3.0)[9] < 1  # eight decades from the nearest face


def test_noise_is_shrunk_more_than_a_bias() -> None:
    rng = np.random.default_rng(0)
    predicted, people = rng.uniform(5, 75, 80), np.arange(80)
    assert choose_shrinkage(predicted, rng.normal(0, 6, 80), people) == max(SHRINKAGE)
    assert choose_shrinkage(predicted, rng.normal(6, 2, 80), people) == min(SHRINKAGE)
