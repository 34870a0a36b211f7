"""Figures of an evaluation: what was said of faces in, SVG, PNG or PDF out."""

from __future__ import annotations

import functools
import io
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, ParamSpec

import numpy as np
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from agecli.core import ages
from agecli.core.ages import COVERAGE
from agecli.scoring.metrics import CS_YEARS, Predictions, within

Models = Mapping[str, Predictions]  # by the name in the legend
Rows = Sequence[Mapping[str, Any]]  # of `groups.breakdown`
Look = Mapping[str, Any]
P = ParamSpec("P")

WIDTH, HEIGHT = 4.2, 3.2  # inches: a column of a paper, or the width of a phone
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")  # Okabe and Ito: for colour-blind eyes too
MARKERS = "osD^v"  # with the lines, they tell models apart in print without colour
LINES = ("-", "--", "-.", ":")
SOFT, WHISKER = "#767676", 1.4
PROMISED = f"{100 * COVERAGE:.0f} %"
STYLE = {
    "font.size": 10,
    "axes.labelsize": 10,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": SOFT,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "lines.linewidth": 1.6,
    "lines.markersize": 5,
    "savefig.dpi": 200,  # of the parts that are pixels
    "svg.hashsalt": "agecli",  # names inside the file follow from its content: the same figure is the same bytes
    "text.parse_math": False,  # a name may hold a $
    "pdf.fonttype": 42,  # TrueType, which printers of papers ask for
}
PRINT = 300  # dots per inch of a PNG
METADATA: dict[str, dict[str, None]] = {  # without dates and versions: the same figure is the same bytes
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}


class drawn(Generic[P]):
    """A decorator of functions that draw a figure: they return it as SVG, or as a file of another kind.

    It looks the same whatever matplotlibrc says.
    """

    def __init__(self, draw: Callable[P, Figure]) -> None:
        self.draw = draw
        functools.update_wrapper(self, draw)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> bytes:
        return self.file("svg", *args, **kwargs)

    def file(self, kind: str, /, *args: P.args, **kwargs: P.kwargs) -> bytes:
        """The content of a file of that kind: svg, png or pdf."""
        stream = io.BytesIO()
        with style.context(["default", STYLE]), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph")  # a name in a script that the font lacks
            figure = self.draw(*args, **kwargs)
            figure.savefig(stream, format=kind, metadata=METADATA[kind], dpi=PRINT if kind == "png" else None)
        return stream.getvalue()


@drawn
def cs_curve(models: Models) -> Figure:
    """The share of faces with an error of at most so many years."""
    figure, axes = _figure()
    for said, look in _each(models):
        axes.plot(list(CS_YEARS), [100 * within(said, years).mean() for years in CS_YEARS], clip_on=False, **look)
    axes.set(xlabel="error in years, at most", ylabel="share of faces, %", xlim=(0, CS_YEARS[-1]), ylim=(0, 100))
    axes.set_xticks(list(CS_YEARS))
    legend(figure, models)
    return figure


@drawn
def error_by_age(models: Mapping[str, Rows]) -> Figure:
    """Mean |error| and bias of each decade of true age."""
    figure = Figure(figsize=(WIDTH, HEIGHT + 0.6), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    for axes, metric in ((above, "mae"), (below, "bias")):
        _by_decade(axes, models, metric)
    above.set(ylabel="mean |error|, years")
    above.set_ylim(bottom=0)
    below.axhline(0, color=SOFT, linewidth=1)
    below.set(ylabel="bias, years")
    legend(figure, models)
    return figure


@drawn
def coverage_by_age(models: Mapping[str, Rows]) -> Figure:
    """How often the reported interval holds the true age, for each decade of it."""
    figure, axes = _figure()
    axes.axhline(100 * COVERAGE, color=SOFT, linestyle="--", linewidth=1.2)
    _by_decade(axes, models, "coverage", scale=100)
    axes.set(ylabel="true age inside, %")
    axes.set_ylim(max(0, min(axes.get_ylim()[0], 60)), 102)
    legend(figure, models, **{f"promised {PROMISED}": Line2D([], [], color=SOFT, linestyle="--")})
    return figure


@drawn
def predicted_against_true(models: Models) -> Figure:
    """Each face as a dot, a panel for each model."""
    columns = min(len(models), 3)
    rows = -(-len(models) // columns)
    size = (WIDTH, WIDTH - 0.4) if columns == 1 else (3.4 * columns, 3.5 * rows + 0.3)
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).flat
    end = 1 + max(float(np.maximum(said.age, said.predicted).max()) for said in models.values())
    lines = {"exact": SOFT}
    for (name, said), axes in zip(models.items(), panels, strict=False):
        faint = float(np.clip(12 / np.sqrt(len(said)), 0.05, 0.5))  # 10,000 dots must not become one blot
        axes.scatter(said.age, said.predicted, s=9, color=COLOURS[0], alpha=faint, linewidths=0, rasterized=True)
        axes.plot([0, end], [0, end], color=SOFT, linewidth=1.2)
        means = _mean_by_age(said)
        axes.plot(*means, color=COLOURS[1])
        if means[0]:  # a handful of faces has none
            lines["mean prediction"] = COLOURS[1]
        axes.set(xlim=(0, end), ylim=(0, end), aspect="equal", xlabel="true age", ylabel="predicted age")
        axes.label_outer()
        if len(models) > 1:
            axes.set_title(label(name), fontsize=10)
    for axes in panels:  # the rest of the last row
        axes.set_axis_off()
    legend(figure, {}, **{name: Line2D([], [], color=colour) for name, colour in lines.items()})
    return figure


@drawn
def reliability(models: Models) -> Figure:
    """How often central intervals of the pmf hold the true age, against how often they should."""
    shares = np.arange(10, 100, 5)
    figure, axes = _figure()
    axes.plot([0, 100], [0, 100], color=SOFT, linewidth=1)
    for said, look in _each(models):
        ends = [ages.interval(said.pmf, share / 100, said.grid) for share in shares]
        actual = [100 * ((low <= said.age) & (said.age <= high)).mean() for low, high in ends]
        axes.plot(shares, actual, **{**look, "marker": ""})
        point = {**look, "marker": "*", "markersize": 13, "markeredgecolor": "black", "markeredgewidth": 0.8}
        axes.plot([100 * COVERAGE], [100 * said.covered.mean()], clip_on=False, zorder=3, **point)
    axes.set(xlabel="nominal coverage, %", ylabel="actual coverage, %", xlim=(0, 100), ylim=(0, 100))
    star = Line2D([], [], marker="*", markersize=11, color="white", markeredgecolor="black", linestyle="")
    ideal = Line2D([], [], color=SOFT, linewidth=1)
    legend(figure, models, **{"ideal": ideal, f"reported {PROMISED} interval": star})
    return figure


@drawn
def risk_coverage(models: Models) -> Figure:
    """Mean |error| of the faces that a model is most certain of, by the width of the interval."""
    figure, axes = _figure()
    shares = np.arange(5, 101)
    for said, look in _each(models):
        order = np.argsort(said.high - said.low, kind="stable")
        upto = np.cumsum(np.abs(said.error)[order]) / np.arange(1, len(said) + 1)
        kept = np.maximum(np.round(shares / 100 * len(said)).astype(int), 1)
        axes.plot(shares, upto[kept - 1], markevery=(5, 10), clip_on=False, **look)
    axes.set(xlabel="share of faces kept, most certain first, %", ylabel="mean |error|, years", xlim=(0, 100))
    axes.set_ylim(bottom=0)
    legend(figure, models)
    return figure


@drawn
def group_errors(models: Mapping[str, Rows], kinds: Sequence[str] = ("sex", "race", "sex x race")) -> Figure:
    """Mean |error| of groups with its 95 % confidence."""
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
    for shift, rows, look in _side_by_side(models, 0.2):
        shown = [row for row in rows if (row["by"], row["group"]) in places]
        _dots(axes, [places[row["by"], row["group"]] + shift for row in shown], shown, "mae", look, sideways=True)
        axes.axvline(rows[0]["mae"], color=look["color"], linestyle=":", linewidth=1)
    names = ["all faces" if by == "all" else label(name, 24) for by, name in order]
    axes.set_yticks([*places.values()], [f"{n}  ({faces[key]:,})" for n, key in zip(names, order, strict=True)])
    axes.grid(visible=False, axis="y")
    axes.set(xlabel="mean |error|, years", ylim=(last + 0.6, -0.6))
    legend(figure, models)
    return figure


def _figure() -> tuple[Figure, Axes]:
    figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
    return figure, figure.subplots()


def _look(number: int) -> dict[str, Any]:
    return {
        "color": COLOURS[number % len(COLOURS)],
        "marker": MARKERS[number % len(MARKERS)],
        "linestyle": LINES[number % len(LINES)],
    }


def _each(models: Models) -> Iterator[tuple[Predictions, Look]]:
    for number, said in enumerate(models.values()):
        yield said, _look(number)


def _side_by_side(models: Mapping[str, Rows], step: float) -> Iterator[tuple[float, Rows, Look]]:
    """How far each model's dots are moved, so that their whiskers don't hide each other."""
    step = min(step, 0.6 / len(models))
    for number, rows in enumerate(models.values()):
        yield step * (number - (len(models) - 1) / 2), rows, _look(number)


def _by_decade(axes: Axes, models: Mapping[str, Rows], metric: str, scale: float = 1) -> None:
    faces: dict[int, int] = {}
    for shift, rows, look in _side_by_side(models, 0.12):
        shown = [row for row in rows if row["by"] == "decade"]
        decades = [int(row["group"].partition("-")[0]) // 10 for row in shown]
        for decade, row in zip(decades, shown, strict=True):
            faces.setdefault(decade, row["images"])
        axes.plot([d + shift for d in decades], [scale * row[metric] for row in shown], **{**look, "marker": ""})
        _dots(axes, [d + shift for d in decades], shown, metric, look, scale)
    ticks = sorted(faces)
    counts = [f"{n}" if n < 10_000 else f"{n / 1000:.0f}k" for n in (faces[decade] for decade in ticks)]
    labels = [f"{10 * decade}s\n{count}" for decade, count in zip(ticks, counts, strict=True)]
    axes.set_xticks(ticks, labels, fontsize=8 if len(ticks) <= 10 else 7)
    axes.set_xlabel("decade of true age, and its number of faces")
    axes.set_xlim(ticks[0] - 0.5, ticks[-1] + 0.5)
    axes.label_outer()


def _dots(
    axes: Axes, places: Sequence[float], rows: Rows, metric: str, look: Look, scale: float = 1, sideways: bool = False
) -> None:
    """A dot for each row with its 95 % confidence as a whisker; hollow for a small group."""
    for place, row in zip(places, rows, strict=True):
        low, high = (row.get(f"{metric}_{end}") for end in ("low", "high"))
        span = [] if low is None or high is None else [scale * low, scale * high]
        there = [place] * len(span)
        axes.plot(*((span, there) if sideways else (there, span)), color=look["color"], linewidth=WHISKER)
        dot = ([scale * row[metric]], [place]) if sideways else ([place], [scale * row[metric]])
        face = "white" if row["small"] else look["color"]
        axes.plot(*dot, **{**look, "linestyle": "", "markerfacecolor": face, "markeredgewidth": WHISKER}, zorder=3)


def _mean_by_age(said: Predictions, step: int = 5, least: int = 10) -> tuple[list[float], list[float]]:
    """The middle of each five years of true age, and the mean prediction there if there are enough faces for one."""
    places = np.floor(said.age / step)
    known = [place for place in np.unique(places) if (places == place).sum() >= least]
    return [step * (p + 0.5) for p in known], [float(said.predicted[places == p].mean()) for p in known]


def label(name: str, most: int = 40) -> str:
    """A name as a figure can show it: some characters would make the SVG invalid, and long names don't fit."""
    name = "".join(letter if letter.isprintable() else "?" for letter in name)
    return name if len(name) <= most else f"{name[: most // 2 - 1]}…{name[-most // 2 :]}"


def legend(figure: Figure, models: Mapping[str, Any], **others: Line2D) -> None:
    """Above the figure, which grows by it, so that it hides nothing. A single model needs no name."""
    lines = {label(name): Line2D([], [], **_look(number)) for number, name in enumerate(models)}
    entries = (lines if len(models) > 1 else {}) | others
    if not entries:
        return
    points = 72 * figure.get_figwidth()
    columns = len(entries)
    while columns > 1 and sum(40 + 5.2 * max(map(len, part)) for part in _split([*entries], columns)) > points:
        columns -= 1  # a line and its gaps take 40 points, a letter 5.2
    figure.set_figheight(figure.get_figheight() + 0.18 * -(-len(entries) // columns))
    figure.legend([*entries.values()], [*entries], loc="outside upper left", ncols=columns)


def _split(names: Sequence[str], columns: int) -> list[list[str]]:
    """As matplotlib fills the columns of a legend."""
    return [part.tolist() for part in np.array_split(np.array(names, dtype=object), columns)]
