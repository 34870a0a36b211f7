"""Figures of age checks draw the rates that were measured."""

from __future__ import annotations

import numpy as np
import pytest

from agecli.reports.check_tables import age_checks
from agecli.reports.figures import age_checks as figures
from agecli.reports.figures.style import drawn
from agecli.scoring.groups import breakdown
from tests.reports.figures.test_accuracy import predictions_of

FACES = predictions_of(600)
CHECKS = age_checks(FACES)


def test_the_false_accept_curve_is_the_share_of_minors_above_the_challenge_age() -> None:
    figure = figures.false_accepts.draw(CHECKS.curves)
    _, *lines = figure.axes[0].get_lines()  # the first is the limit of 1 %
    assert len(lines) == 4
    minors = FACES.predicted[FACES.age < 18]
    expected = [100 * float((minors >= challenge).mean()) for challenge in range(18, 18 + figures.SHOWN_YEARS + 1)]
    assert np.asarray(lines[2].get_ydata()) == pytest.approx(expected)  # 13, 16, 18, 21


def test_refusals_are_those_of_each_year_of_age() -> None:
    (name, rates), *_ = CHECKS.costs.items()
    line = figures.refusals.draw({name: rates}).axes[0].get_lines()[0]
    known = {int(year): rate for year, rate in rates.items() if year.isdigit() and rate.of}
    assert np.asarray(line.get_xdata()).tolist() == [*known]
    assert np.asarray(line.get_ydata()) == pytest.approx([100 * (rate.share or 0) for rate in known.values()])


def test_figures_are_svg_whatever_the_number_of_faces() -> None:
    rows = {"drf": breakdown(FACES), "other": breakdown(predictions_of(30, seed=1))}
    assert isinstance(figures.error_by_year, drawn)
    for content in (figures.false_accepts(CHECKS.curves), figures.refusals(CHECKS.costs), figures.error_by_year(rows)):
        assert content.startswith(b"<?xml")
