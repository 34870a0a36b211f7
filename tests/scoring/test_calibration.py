"""Calibrated intervals hold what they promise, for models that are too sure, not sure enough, or wrong about the old."""

from __future__ import annotations

import numpy as np
import pytest

from agecli.core import ages
from agecli.core.ages import AgeGrid, Floats
from agecli.scoring.calibration import (
    DECADES,
    Calibration,
    calibrate,
    conformal_quantile,
    decade,
    interval,
    widened,
    widening,
)
from agecli.training.finishing import too_few

GRID = AgeGrid()


def faces(seed: int, count: int, told: float, pull: float = 0.0) -> tuple[Floats, Floats]:
    """pmfs of a model whose errors have a std of 6 years and which tells `told`; `pull` draws the old to 40."""
    dice = np.random.default_rng(seed)
    age = np.floor(dice.uniform(1, 90, count))
    middle = age + dice.normal(0, 6, count) - pull * np.maximum(age - 40, 0)
    mass = np.exp(-0.5 * ((GRID.years - middle[:, None]) / told) ** 2) + 1e-12
    return np.asarray(mass / mass.sum(-1, keepdims=True)), age


def covered(pmf: Floats, age: Floats, calibration: Calibration | None) -> Floats:
    low, high = interval(pmf, GRID, calibration)
    return np.asarray((low <= age) & (age <= high), dtype=float)


@pytest.mark.parametrize("told", [1.5, 6.0, 20.0])
def test_the_coverage_is_90_whatever_the_model_predicts(told: float) -> None:
    calibration = calibrate(*faces(0, 2000, told), GRID)
    pmf, age = faces(1, 4000, told)
    assert covered(pmf, age, calibration).mean() == pytest.approx(0.9, abs=0.02)
    plain = covered(pmf, age, None).mean()
    assert plain < 0.6 if told == 1.5 else plain > 0.88


def test_decades_that_the_model_gets_wrong_are_covered_as_well() -> None:
    calibration = calibrate(*faces(0, 3000, 6.0, pull=0.4), GRID)
    assert calibration is not None
    pmf, age = faces(1, 6000, 6.0, pull=0.4)
    hits, plain = covered(pmf, age, calibration), covered(pmf, age, None)
    assert hits.mean() == pytest.approx(0.9, abs=0.02)
    for start in range(0, 90, 10):
        assert hits[decade(age) == start // 10].mean() > 0.78
    assert plain[decade(age) == 8].mean() < 0.2
    said = ages.mean(pmf, GRID)
    for name in set(decade(said).tolist()):
        if (decade(said) == name).sum() >= 200:
            assert hits[decade(said) == name].mean() > 0.84


def test_the_conformal_quantile_covers_one_more_face() -> None:
    assert conformal_quantile(np.arange(1.0, 20.0), 0.9) == 18  # ceil(20 * 0.9)
    assert conformal_quantile(np.arange(1.0, 6.0), 0.9) == 5  # too few: the largest
    dice = np.random.default_rng(0)
    hits = [dice.normal() <= conformal_quantile(dice.normal(size=29) + 5, 0.9) - 5 for _ in range(3000)]
    assert np.mean(hits) == pytest.approx(0.9, abs=0.02)


def test_too_few_faces_give_no_calibration_and_uncalibrated_quantiles() -> None:
    pmf, age = faces(0, 20, 6.0)
    assert calibrate(pmf, age, GRID) is None
    for ours, plain in zip(interval(pmf, GRID, None), ages.interval(pmf, 0.9, GRID), strict=True):
        assert np.array_equal(ours, plain)


def test_a_calibration_survives_the_checkpoints_header() -> None:
    calibration = calibrate(*faces(0, 500, 6.0), GRID)
    assert calibration is not None
    assert len(calibration.by_age) == len(calibration.by_prediction) == DECADES
    assert Calibration.read(calibration.header()) == calibration
    assert Calibration.read(None) is None


def test_intervals_are_never_empty_and_stay_on_the_grid() -> None:
    tight = Calibration(100, 1e-6, (1.0,) * DECADES, (1.0,) * DECADES)
    pmf, _ = faces(0, 200, 3.0)
    low, high = interval(pmf, GRID, tight)
    assert (low <= high).all()
    assert low.min() >= 0
    assert high.max() <= 120


@pytest.mark.parametrize(
    ("faces", "remedy"), [(300, "val_share=0.1"), (95, "val_share=0.32"), (48, "60 photos or more")]
)
def test_a_share_is_named_that_is_enough(faces: int, remedy: str) -> None:
    assert remedy in too_few(5, faces)


def test_a_widened_interval_holds_its_share_of_another_source() -> None:
    calibration = calibrate(*faces(0, 2000, 6.0), GRID)
    assert calibration is not None
    pmf, age = faces(1, 3000, 6.0)
    worse = np.clip(np.round(age + 1.0 * (age - ages.median(pmf, GRID))), 0, 120)  # errors twice as large
    assert covered(pmf, worse, calibration).mean() < 0.7
    factor = widening(pmf, worse, GRID, calibration)
    assert factor > 1.5
    assert covered(pmf, worse, widened(calibration, factor)).mean() == pytest.approx(0.9, abs=0.02)
