"""Balanced MAE, the MAE as NIST averages it, RMSE and concordance by hand and against direct computations."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from agecli.scoring.averages import NIST_CELLS, balanced_mae, concordance, nist_mae, rmse
from agecli.scoring.metrics import measure
from tests.scoring.test_groups import predictions_of


def test_every_decade_counts_the_same_in_the_balanced_mae() -> None:
    assert balanced_mae(np.array([1.0, -3.0, 6.0]), np.array([5.0, 8.0, 40.0])) == pytest.approx((2 + 6) / 2)


def test_nist_averages_the_maes_of_sex_and_year_by_hand() -> None:
    error, age = np.array([1.0, -3.0, 5.0, 9.0, 100.0, 100.0]), np.array([18.0, 18.7, 18.0, 30.0, 17.0, 31.0])
    sex = ["F", "F", "M", "F", "F", "M"]
    mae, cells = nist_mae(error, age, sex)
    assert cells == 3
    assert mae == pytest.approx(((1 + 3) / 2 + 5 + 9) / 3)
    assert nist_mae(error, age, [""] * 6) == (None, 0)


def test_nist_mae_equals_a_direct_computation() -> None:
    random = np.random.default_rng(0)
    age, error = random.integers(10, 40, 3000).astype(float), 5 * random.standard_normal(3000)
    sex = random.choice(["F", "M", ""], 3000, p=[0.2, 0.7, 0.1]).tolist()
    cells = []
    for one, year in itertools.product("FM", range(18, 31)):
        some = [abs(e) for e, a, s in zip(error, age, sex, strict=True) if s == one and a == year]
        cells.append(sum(some) / len(some))
    mae, count = nist_mae(error, age, sex)
    assert count == NIST_CELLS == 26
    assert mae == pytest.approx(sum(cells) / 26)


def test_rmse_and_the_deviation_of_absolute_errors_by_hand() -> None:
    metrics = measure(predictions_of((10, 13, "F", ""), (20, 16, "M", "")))
    assert rmse(np.array([3.0, -4.0])) == metrics.rmse == pytest.approx(12.5**0.5)
    assert metrics.error_std == pytest.approx(0.5)  # of 3 and 4
    assert (metrics.balanced_mae, metrics.nist_mae, metrics.nist_cells) == (3.5, 4, 1)


def test_concordance_by_hand() -> None:
    # means 2 and 3, variances 2/3 and 2/3, covariance 2/3: 2 * 2/3 / (2/3 + 2/3 + 1) = 4/7
    assert concordance(np.array([1.0, 2.0, 3.0]), np.array([2.0, 3.0, 4.0])) == pytest.approx(4 / 7)
    assert concordance(np.array([1.0, 2.0]), np.array([1.0, 2.0])) == pytest.approx(1)
    assert concordance(np.array([30.0]), np.array([30.0])) is None
