"""Figures of intervals: coverage by age, reliability of the predicted distributions, risk-coverage curve."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from agecli.core import ages
from agecli.core.ages import COVERAGE
from agecli.reports.columns import NOMINAL, column
from agecli.reports.figures.accuracy import Models, Rows, plot_by_decade
from agecli.reports.figures.style import GREY, drawn, legend, line_style, single_axes


@drawn
def coverage_by_age(models: Mapping[str, Rows]) -> Figure:
    """Share of faces whose true age lies in the reported interval, by decade of true age, with its 95 % CI.

    models: the rows of `scoring.groups.breakdown`, by the name in the legend
    """
    figure, axes = single_axes()
    axes.axhline(100 * COVERAGE, color=GREY, linestyle="--", linewidth=1.2)
    plot_by_decade(axes, models, "coverage", scale=100)
    axes.set(ylabel="coverage, %")
    axes.set_ylim(max(0, min(axes.get_ylim()[0], 60)), 102)
    legend(figure, models, **{f"nominal {NOMINAL}": Line2D([], [], color=GREY, linestyle="--")})
    return figure


@drawn
def reliability(models: Models) -> Figure:
    """Actual against nominal coverage of central intervals of the pmf; a star for the reported interval.

    Curves below the diagonal belong to overconfident distributions. The star of a calibrated model is on the diagonal
    whatever its curve, since conformal calibration changes the interval and not the pmf.
    """
    shares = np.arange(10, 100, 5)
    figure, axes = single_axes()
    axes.plot([0, 100], [0, 100], color=GREY, linewidth=1)
    for number, predictions in enumerate(models.values()):
        line = line_style(number)
        ends = [ages.interval(predictions.pmf, share / 100, predictions.grid) for share in shares]
        actual = [100 * ((low <= predictions.age) & (predictions.age <= high)).mean() for low, high in ends]
        axes.plot(shares, actual, **{**line, "marker": ""})
        star = {**line, "marker": "*", "markersize": 13, "markeredgecolor": "black", "markeredgewidth": 0.8}
        axes.plot([100 * COVERAGE], [100 * predictions.covered.mean()], clip_on=False, zorder=3, **star)
    axes.set(xlabel="nominal coverage, %", ylabel="actual coverage, %", xlim=(0, 100), ylim=(0, 100))
    star_entry = Line2D([], [], marker="*", markersize=11, color="white", markeredgecolor="black", linestyle="")
    ideal = Line2D([], [], color=GREY, linewidth=1)
    legend(figure, models, **{"ideal": ideal, f"reported {NOMINAL} interval": star_entry})
    return figure


@drawn
def risk_coverage(models: Models) -> Figure:
    """Risk-coverage curve: MAE over the faces with the narrowest intervals, by their share of all faces.

    It falls towards the left if the width of the interval predicts the error. At 100 % it is the MAE of all faces.
    """
    figure, axes = single_axes()
    shares = np.arange(5, 101)
    for number, predictions in enumerate(models.values()):
        order = np.argsort(predictions.high - predictions.low, kind="stable")
        running_mae = np.cumsum(np.abs(predictions.error)[order]) / np.arange(1, len(predictions) + 1)
        kept = np.maximum(np.round(shares / 100 * len(predictions)).astype(int), 1)
        axes.plot(shares, running_mae[kept - 1], markevery=(5, 10), clip_on=False, **line_style(number))
    axes.set(xlabel="share of faces with the narrowest intervals, %", ylabel=column("mae").label, xlim=(0, 100))
    axes.set_ylim(bottom=0)
    legend(figure, models)
    return figure
