"""Metrics by hand."""

from __future__ import annotations

import pytest

from agecli.errors import InputError
from agecli.metrics import Prediction, measure, tidy


def said(age: float, predicted: float, low: float = 0, high: float = 100) -> Prediction:
    return Prediction("x.jpg", "", age, predicted, 1.0, low, high)


def test_mae_cs_bias_and_coverage_of_a_known_example() -> None:
    metrics = measure([said(10, 15, 9, 21), said(20, 14.9, 21, 30), said(30, 30, 20, 30), said(40, 52)])
    assert metrics.images == 4
    assert metrics.mae == pytest.approx((5 + 5.1 + 0 + 12) / 4)
    assert metrics.bias == pytest.approx((5 - 5.1 + 0 + 12) / 4)
    assert metrics.cs5 == 0.5
    assert metrics.coverage == 0.75
    assert metrics.width == pytest.approx((12 + 9 + 10 + 100) / 4)


def test_an_error_of_exactly_five_years_counts() -> None:
    assert measure([said(20, 25.0)]).cs5 == 1
    assert measure([said(0.1, 5.1)]).cs5 == 1  # 5.1 - 0.1 is 4.999… or 5.000…1 in binary
    assert measure([said(20, 25.001)]).cs5 == 0


def test_no_faces_is_an_error() -> None:
    with pytest.raises(InputError):
        measure([])


def test_numbers_are_written_short() -> None:
    assert [tidy(value) for value in (26.0, 7.123456, 3, "x", None)] == [26, 7.1235, 3, "x", None]
