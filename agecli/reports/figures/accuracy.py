"""Figures of errors: cumulative score, error by age and by group, predicted against true age.

All take what they draw by the name of the model, which the legend shows if there are several, and return SVG; see
`style.drawn` for other kinds of files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from agecli.reports.columns import column
from agecli.reports.figures.style import (
    COLOURS,
    ERROR_BAR,
    GREY,
    HEIGHT,
    WIDTH,
    LineStyle,
    drawn,
    label,
    legend,
    line_style,
    single_axes,
)
from agecli.scoring.metrics import CS_YEARS, Predictions, within

Models = Mapping[str, Predictions]  # by the name in the legend
Rows = Sequence[Mapping[str, Any]]  # of `scoring.groups.breakdown`


@drawn
def cs_curve(models: Models) -> Figure:
    """Cumulative score: share of faces with an absolute error of at most 0, 1, … 10 years.

    Example: `Path("cs.svg").write_bytes(cs_curve({"drf": predictions}))`
    """
    figure, axes = single_axes()
    for number, predictions in enumerate(models.values()):
        scores = [100 * within(predictions, years).mean() for years in CS_YEARS]
        axes.plot(list(CS_YEARS), scores, clip_on=False, **line_style(number))
    axes.set(xlabel="absolute error, at most, years", ylabel="share of faces, %")
    axes.set(xlim=(0, CS_YEARS[-1]), ylim=(0, 100))
    axes.set_xticks(list(CS_YEARS))
    legend(figure, models)
    return figure


@drawn
def error_by_age(models: Mapping[str, Rows]) -> Figure:
    """MAE with its 95 % CI, and bias, of each decade of true age; markers of small groups are hollow.

    models: the rows of `scoring.groups.breakdown`
    """
    figure = Figure(figsize=(WIDTH, HEIGHT + 0.6), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    for axes, metric in ((above, "mae"), (below, "bias")):
        plot_by_decade(axes, models, metric)
        axes.set(ylabel=column(metric).label)
    above.set_ylim(bottom=0)
    below.axhline(0, color=GREY, linewidth=1)
    legend(figure, models)
    return figure


@drawn
def predicted_against_true(models: Models) -> Figure:
    """Predicted against true age, a dot for each face and a panel for each model.

    A line shows the mean prediction in bins of five years of true age: where it leaves the diagonal, predictions shrink
    towards the middle ages.
    """
    columns = min(len(models), 3)
    rows = -(-len(models) // columns)
    size = (WIDTH, WIDTH - 0.4) if columns == 1 else (3.4 * columns, 3.5 * rows + 0.3)
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).flat
    end = 1 + max(float(np.maximum(some.age, some.predicted).max()) for some in models.values())
    lines = {"exact": GREY}
    for (name, predictions), axes in zip(models.items(), panels, strict=False):
        opacity = float(np.clip(12 / np.sqrt(len(predictions)), 0.05, 0.5))  # 10,000 dots stay distinguishable
        dots = {"s": 9, "color": COLOURS[0], "alpha": opacity, "linewidths": 0, "rasterized": True}
        axes.scatter(predictions.age, predictions.predicted, **dots)
        axes.plot([0, end], [0, end], color=GREY, linewidth=1.2)
        means = _mean_by_age(predictions)
        axes.plot(*means, color=COLOURS[1])
        if means[0]:  # empty if there are only a few faces
            lines["mean prediction"] = COLOURS[1]
        axes.set(xlim=(0, end), ylim=(0, end), aspect="equal", xlabel="true age, years", ylabel="predicted age, years")
        axes.label_outer()
        if len(models) > 1:
            axes.set_title(label(name), fontsize=10)
    for axes in panels:  # unused panels of the last row
        axes.set_axis_off()
    legend(figure, {}, **{name: Line2D([], [], color=colour) for name, colour in lines.items()})
    return figure


def _mean_by_age(predictions: Predictions, step: int = 5, min_faces: int = 10) -> tuple[list[float], list[float]]:
    """The centre of each bin of five years of true age with enough faces, and the mean prediction there."""
    bins = np.floor(predictions.age / step)
    known = [bin_ for bin_ in np.unique(bins) if (bins == bin_).sum() >= min_faces]
    return [step * (b + 0.5) for b in known], [float(predictions.predicted[bins == b].mean()) for b in known]


@drawn
def group_errors(models: Mapping[str, Rows], kinds: Sequence[str] = ("sex", "race", "sex x race")) -> Figure:
    """MAE of groups with its 95 % CI; dotted lines are the MAE of all faces.

    models: the rows of `scoring.groups.breakdown`
    kinds: of groups to show, from top to bottom, as in the column `by`
    """
    faces: dict[tuple[str, str], int] = {}
    for row in (row for rows in models.values() for row in rows if row["by"] in ("all", *kinds)):
        faces.setdefault((row["by"], row["group"]), row["images"])
    order = sorted(faces, key=lambda key: ("all", *kinds).index(key[0]))
    places, last = {}, -1.0
    for before, key in zip([None, *order], order, strict=False):
        last += 1 if before is None or before[0] == key[0] else 1.6  # a gap between kinds of groups
        places[key] = last
    row_height = 0.2 + 0.06 * len(models)
    figure = Figure(figsize=(WIDTH, 0.9 + row_height * (last + 1)), layout="constrained")
    axes = figure.subplots()
    for shift, rows, line in _side_by_side(models, 0.2):
        shown = [row for row in rows if (row["by"], row["group"]) in places]
        _dots(axes, [places[row["by"], row["group"]] + shift for row in shown], shown, "mae", line, sideways=True)
        axes.axvline(rows[0]["mae"], color=line["color"], linestyle=":", linewidth=1)
    names = ["all faces" if by == "all" else label(name, 24) for by, name in order]
    axes.set_yticks([*places.values()], [f"{n}  ({faces[key]:,})" for n, key in zip(names, order, strict=True)])
    axes.grid(visible=False, axis="y")
    axes.set(xlabel=column("mae").label, ylim=(last + 0.6, -0.6))
    legend(figure, models)
    return figure


def plot_by_decade(axes: Axes, models: Mapping[str, Rows], metric: str, scale: float = 1) -> None:
    """Plot a metric over the decades of true age, with its 95 % CI and the number of faces below each decade.

    metric: a column of the rows; scale: factor on its values, such as 100 for percent
    """
    faces: dict[int, int] = {}
    for shift, rows, line in _side_by_side(models, 0.12):
        shown = [row for row in rows if row["by"] == "decade"]
        decades = [int(row["group"].partition("-")[0]) // 10 for row in shown]
        for decade, row in zip(decades, shown, strict=True):
            faces.setdefault(decade, row["images"])
        axes.plot([d + shift for d in decades], [scale * row[metric] for row in shown], **{**line, "marker": ""})
        _dots(axes, [d + shift for d in decades], shown, metric, line, scale)
    ticks = sorted(faces)
    counts = [f"{n}" if n < 10_000 else f"{n / 1000:.0f}k" for n in (faces[decade] for decade in ticks)]
    labels = [f"{10 * decade}s\n{count}" for decade, count in zip(ticks, counts, strict=True)]
    axes.set_xticks(ticks, labels, fontsize=8 if len(ticks) <= 10 else 7)
    axes.set_xlabel("decade of true age, number of faces")
    axes.set_xlim(ticks[0] - 0.5, ticks[-1] + 0.5)
    axes.label_outer()


def plot_rows(axes: Axes, places: Sequence[float], rows: Rows, metric: str, line: LineStyle) -> None:
    """Plot a metric of some rows as a line, with a dot and a 95 % CI for each; dots of small groups are hollow."""
    axes.plot(places, [row[metric] for row in rows], **{**line, "marker": ""})
    _dots(axes, places, rows, metric, line)


def _side_by_side(models: Mapping[str, Rows], step: float) -> Iterator[tuple[float, Rows, LineStyle]]:
    """The shift, rows and style of each model: shifted, so that error bars do not hide each other."""
    step = min(step, 0.6 / len(models))
    for number, rows in enumerate(models.values()):
        yield step * (number - (len(models) - 1) / 2), rows, line_style(number)


def _dots(
    axes: Axes,
    places: Sequence[float],
    rows: Rows,
    metric: str,
    line: LineStyle,
    scale: float = 1,
    sideways: bool = False,
) -> None:
    """A dot for each row with its 95 % CI as an error bar; hollow for a small group."""
    for place, row in zip(places, rows, strict=True):
        low, high = (row.get(f"{metric}_{end}") for end in ("low", "high"))
        ends = [] if low is None or high is None else [scale * low, scale * high]
        there = [place] * len(ends)
        axes.plot(*((ends, there) if sideways else (there, ends)), color=line["color"], linewidth=ERROR_BAR)
        dot = ([scale * row[metric]], [place]) if sideways else ([place], [scale * row[metric]])
        face = "white" if row["small"] else line["color"]
        axes.plot(*dot, **{**line, "linestyle": "", "markerfacecolor": face, "markeredgewidth": ERROR_BAR}, zorder=3)
