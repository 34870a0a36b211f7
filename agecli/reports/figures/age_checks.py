"""Figures of age checks: false accepts by challenge age, refusals by true age, and the error of each year from 0 to 30."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from agecli.reports.columns import column
from agecli.reports.figures.accuracy import Rows, plot_rows
from agecli.reports.figures.style import GREY, HEIGHT, WIDTH, drawn, legend, line_style, single_axes
from agecli.scoring.challenge import MOST, CheckPoint
from agecli.scoring.rates import Rate

TICKS = (0, 1, 2, 5, 10, 20, 50, 100)  # percent
SHOWN_YEARS = 15  # challenge ages above the legal age that are drawn


@drawn
def false_accepts(curves: Mapping[float, Sequence[CheckPoint]]) -> Figure:
    """Of those younger than a legal age, the share whose predicted age is at least the challenge age, with its 95 % CI.

    curves: of `scoring.challenge.curve`, by the legal age in years
    """
    figure, axes = single_axes()
    axes.axhline(100 * MOST, color=GREY, linestyle="--", linewidth=1.2)
    lines = {}
    for number, (legal, points) in enumerate(curves.items()):
        some = [(p.threshold, p.accepted) for p in points[: SHOWN_YEARS + 1] if p.accepted.share is not None]
        _line(axes, number, [x for x, _ in some], [rate for _, rate in some])
        lines[f"under {legal:g}"] = Line2D([], [], **line_style(number))
    axes.set(xlabel="challenge age, years", ylabel="accepted, % of those too young")
    _percent_axis(axes)
    legend(figure, {}, **lines, **{f"{100 * MOST:g} %": Line2D([], [], color=GREY, linestyle="--")})
    return figure


@drawn
def refusals(costs: Mapping[str, Mapping[str, Rate]]) -> Figure:
    """Of the people of each year of age who are old enough, the share that is asked for a proof of age, with its 95 % CI.

    costs: of `scoring.challenge.refused_by_year`, by the name in the legend
    """
    figure, axes = single_axes()
    for number, rates in enumerate(costs.values()):
        some = {int(year): rate for year, rate in rates.items() if year.isdigit() and rate.of}
        _line(axes, number, [*some], [*some.values()])
    axes.set(xlabel="true age, years", ylabel="refused, % of that age", ylim=(0, 102))
    legend(figure, {}, **{name: Line2D([], [], **line_style(number)) for number, name in enumerate(costs)})
    return figure


@drawn
def error_by_year(models: Mapping[str, Rows]) -> Figure:
    """MAE with its 95 % CI, and bias, of each year of true age from 0 to 30; markers of small groups are hollow.

    models: the rows of `scoring.groups.breakdown`
    """
    figure = Figure(figsize=(WIDTH, HEIGHT + 0.6), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    for axes, metric in ((above, "mae"), (below, "bias")):
        for number, rows in enumerate(models.values()):
            shown = [row for row in rows if row["by"] == "year"]
            plot_rows(axes, [int(row["group"]) for row in shown], shown, metric, line_style(number))
        axes.set_ylabel(column(metric).label)
    above.set_ylim(bottom=0)
    below.axhline(0, color=GREY, linewidth=1)
    below.set(xlabel="true age, years", xlim=(-0.7, 30.7))
    legend(figure, models)
    return figure


def _line(axes: Axes, number: int, x: Sequence[float], rates: Sequence[Rate]) -> None:
    """A line of rates in percent, with its 95 % CI as a band."""
    line = line_style(number)
    axes.plot(x, [100 * (rate.share or 0) for rate in rates], **line, markevery=2 if len(x) > 8 else 1)
    low, high = ([100 * (getattr(rate, end) or 0) for rate in rates] for end in ("low", "high"))
    axes.fill_between(x, low, high, color=line["color"], alpha=0.12, linewidth=0)


def _percent_axis(axes: Axes) -> None:
    """Shares from 0 to 100 %, the small ones spread out: linear up to 1 %, logarithmic above."""
    axes.set_yscale("symlog", linthresh=1)
    axes.set_ylim(0, 100)
    axes.set_yticks(TICKS)
    axes.minorticks_off()
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
