"""The figure of a training: loss, entropy, temperatures and errors by iteration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import LogLocator, NullLocator

from agecli.reports.columns import column
from agecli.reports.figure_data import History
from agecli.reports.figures.style import COLOURS, LINES, TEXT_WIDTH, drawn

LOG_RATIO = 6  # of the largest to the smallest error, above which the axis is logarithmic
PANELS = {  # the label of each panel, and the columns of history.csv in it with their names
    "loss": {"loss": "E = R − T·H", "nll": "R"},
    "entropy of routing, nats": {"entropy": "H"},
    "temperature T, inverse τ": {"T": "T, of splits", "tau": "τ, of leaves"},
    column("mae").label: {"train_mae": "training", "val_mae": "validation"},
}


@drawn
def history(folds: Mapping[int, History]) -> Figure:
    """Loss, entropy, temperatures and errors by iteration, a line for each fold.

    folds: the history of each fold by its number, as of `figure_data.read_histories`
    Example: `history.render("png", read_histories(Path("runs/drf")))`
    """
    figure = Figure(figsize=(TEXT_WIDTH, 4.8), layout=ConstrainedLayoutEngine(wspace=0.03, hspace=0.04))
    panels = figure.subplots(2, 2, sharex=True)
    for axes, (title, columns) in zip(panels.flat, PANELS.items(), strict=True):
        _lines(axes, folds, columns)
        axes.set_ylabel(title)
        _scale(axes, columns)
        if axes.lines:
            axes.legend(
                loc="lower left", bbox_to_anchor=(0, 1), ncols=2, borderpad=0.2, borderaxespad=0, handlelength=1.8
            )
    last = max(1, *(float(fold["iteration"].max()) for fold in folds.values()))
    xlabel = "iteration" if len(folds) == 1 else f"iteration (thin lines: {len(folds)} folds)"
    for axes in panels[-1]:
        axes.set(xlabel=xlabel, xlim=(0, last))
    return figure


def _lines(axes: Axes, folds: Mapping[int, History], columns: Mapping[str, str]) -> None:
    """A line for each fold and column, with one entry in the legend for each column."""
    for number, (key, name) in enumerate(columns.items()):
        line: dict[str, Any] = {
            "color": COLOURS[number],
            "linestyle": LINES[number],
            "linewidth": 1.6 if len(folds) == 1 else 0.8,
        }
        line |= {"marker": "s", "markersize": 3} if key == "val_mae" else {}  # measured at some iterations only
        known = [fold[["iteration", key]].dropna() for fold in folds.values()]
        for fold in known:
            if len(fold):  # an empty line outside the axes would push the panels apart
                axes.plot(fold["iteration"].to_numpy(), fold[key].to_numpy(), clip_on=False, **line)
        if any(len(fold) for fold in known):
            axes.plot([], [], label=name, **line)


def _scale(axes: Axes, columns: Mapping[str, str]) -> None:
    """The y axis from 0, except for losses, which may be negative; logarithmic for errors of very different size."""
    least, most = axes.dataLim.intervaly
    if "loss" not in columns:
        axes.set_ylim(0, 1.08 * most if most > 0 else 1)
    if "val_mae" in columns and 0 < LOG_RATIO * least < most < np.inf:
        axes.set_yscale("log")
        axes.set_ylim(least / 1.2, 1.2 * most)
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5, 7)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_locator(NullLocator())
