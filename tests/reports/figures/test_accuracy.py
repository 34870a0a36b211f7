"""Figures say what was measured, come out for any faces and any names, and are the same bytes each time."""

from __future__ import annotations

import functools
import inspect
import subprocess
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from agecli.core.ages import AgeGrid
from agecli.core.records import Sample
from agecli.reports.figures import accuracy, intervals
from agecli.scoring.calibration import calibrate
from agecli.scoring.groups import breakdown
from agecli.scoring.metrics import Predictions, measure

GRID = AgeGrid(0, 100)
OF_PREDICTIONS = (accuracy.cs_curve, accuracy.predicted_against_true, intervals.reliability, intervals.risk_coverage)
OF_ROWS = (accuracy.error_by_age, intervals.coverage_by_age, accuracy.group_errors)


def predictions_of(
    count: int = 400, *, seed: int = 0, spread: float = 6, known: bool = True, calibrated: bool = False
) -> Predictions:
    """Gaussian pmfs around ages that are off by `spread` years; six faces a subject, with sex and race if `known`."""
    dice = np.random.default_rng(seed)
    age = dice.integers(1, 90, count).astype(float)
    centre = np.clip(age + dice.normal(0, spread, count), 0, 100)
    pmf = np.exp(-((GRID.years - centre[:, None]) ** 2) / (2 * spread**2))
    pmf = (pmf / pmf.sum(-1, keepdims=True)).astype(np.float32)
    samples = [
        Sample(f"{i}.jpg", age[i], f"s{i // 6}", "FM"[i // 6 % 2], ("Asian", "Black", "White")[i // 6 % 3])
        if known
        else Sample(f"{i}.jpg", age[i])
        for i in range(count)
    ]
    return Predictions.from_pmf(pmf, samples, "mean", GRID, calibrate(pmf, age, GRID) if calibrated else None)


CASES: dict[str, dict[str, Predictions]] = {
    "one model": {"drf": predictions_of()},
    "three models": {
        "drf": predictions_of(),
        "dldlf": predictions_of(spread=9, calibrated=True),
        "other faces": predictions_of(50, seed=1),
    },
    "one face": {"drf": predictions_of(1)},
    "sex and race unknown": {"drf": predictions_of(40, known=False)},
    "odd names": {
        "_$x_1$ <b>&": predictions_of(40),
        "\x01\udce9 -- 年齢": predictions_of(40),
        "long/" * 40: predictions_of(40),
    },
}


@functools.cache
def rows_of(case: str) -> dict[str, list[dict[str, Any]]]:
    return {name: breakdown(some) for name, some in CASES[case].items()}


def figure(draw: Callable[..., bytes], data: Mapping[str, Any]) -> Figure:
    """What was drawn, before it became SVG."""
    drawn = inspect.unwrap(draw)(data)
    assert isinstance(drawn, Figure)
    return drawn


def line(draw: Callable[..., bytes], data: Mapping[str, Any], place: int = 0) -> Line2D:
    return figure(draw, data).axes[0].get_lines()[place]


@functools.cache
def svg(draw: Callable[..., bytes], case: str) -> bytes:
    return draw(rows_of(case) if draw in OF_ROWS else CASES[case])


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("draw", [*OF_PREDICTIONS, *OF_ROWS], ids=lambda draw: draw.__name__)
def test_any_faces_and_names_make_valid_svg(draw: Callable[..., bytes], case: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ElementTree.fromstring(svg(draw, case)).tag.endswith("svg")


@pytest.mark.parametrize("draw", [*OF_PREDICTIONS, *OF_ROWS], ids=lambda draw: draw.__name__)
def test_a_figure_is_the_same_bytes_twice_whatever_the_settings(draw: Callable[..., bytes]) -> None:
    first = svg(draw, "one model")
    with matplotlib.rc_context({"font.size": 30, "axes.grid": False}):  # somebody's own matplotlibrc
        assert svg.__wrapped__(draw, "one model") == first


def test_thousands_of_faces_stay_a_small_file() -> None:
    assert len(accuracy.predicted_against_true({"drf": predictions_of(11_000)})) < 400_000


def test_the_cs_curve_shows_the_metrics() -> None:
    assert line(accuracy.cs_curve, CASES["one model"]).get_ydata() == pytest.approx(
        [100 * share for share in measure(predictions_of()).cs]
    )


def test_small_groups_are_hollow() -> None:
    dots = [
        dot
        for dot in figure(accuracy.group_errors, rows_of("one model")).axes[0].get_lines()
        if dot.get_marker() == "o"
    ]
    shown = [row for row in rows_of("one model")["drf"] if row["by"] in ("all", "sex", "race", "sex x race")]
    assert [dot.get_markerfacecolor() == "white" for dot in dots] == [bool(row["small"]) for row in shown]
    alone = [
        dot for dot in figure(accuracy.group_errors, rows_of("one face")).axes[0].get_lines() if dot.get_marker() == "o"
    ]
    assert {dot.get_markerfacecolor() for dot in alone} == {"white"}


def test_the_command_line_starts_without_matplotlib_and_figures_without_pyplot() -> None:
    code = "import sys, agecli.cli; assert 'matplotlib' not in sys.modules; import agecli.reports.figures.accuracy"
    code += "; assert 'matplotlib.pyplot' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
