"""Figures of intervals show the coverage and the error that were measured."""

from __future__ import annotations

import numpy as np
import pytest

from agecli.reports.figures import intervals
from agecli.scoring.metrics import measure
from tests.reports.figures.test_accuracy import CASES, line, predictions_of


def test_intervals_of_true_distributions_are_on_the_diagonal() -> None:
    curve = line(intervals.reliability, {"true": predictions_of(4000)}, place=1)
    assert np.abs(np.subtract(curve.get_xdata(), curve.get_ydata())).max() < 5


def test_the_star_is_the_printed_interval() -> None:
    model = CASES["three models"]["dldlf"]
    star = line(intervals.reliability, {"dldlf": model}, place=2)
    assert star.get_xdata() == pytest.approx([90])
    assert star.get_ydata() == pytest.approx([100 * measure(model).coverage])


def test_all_faces_kept_have_the_error_of_all() -> None:
    kept = line(intervals.risk_coverage, CASES["one model"])
    assert np.asarray(kept.get_xdata())[-1] == 100
    assert np.asarray(kept.get_ydata())[-1] == pytest.approx(measure(predictions_of()).mae)
