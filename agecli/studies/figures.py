"""The figure of each study, as in the paper: the rows of study.csv in, the bytes of a file out.

All drawing functions have the same parameters: the study, its rows, and the setup that the faces are split by.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from agecli.reports.columns import LEVEL, column
from agecli.reports.figures.style import (
    COLOURS,
    GREY,
    HEIGHT,
    TEXT_WIDTH,
    WIDTH,
    drawn,
    legend,
    line_style,
    single_axes,
)
from agecli.studies.cells import ANNEALED, Study
from agecli.studies.paper import BENCHMARKS, PHI_STD

Rows = Sequence[Mapping[str, Any]]  # of study.csv
OURS, PAPER = COLOURS[0], COLOURS[1]
MAE = column("mae").label


@drawn
def ablation(study: Study, rows: Rows, setup: str) -> Figure:
    """Our MAE with its 95 % CI and the paper's MAE, a line for each cell."""
    figure = Figure(figsize=(WIDTH + 1.6, 0.9 + 0.3 * len(rows)), layout="constrained")
    _plot_rows(figure, rows, "MORPH, Setup I" if study.name == "ablation" else "its table of CACD")
    return figure


@drawn
def lines(study: Study, rows: Rows, setup: str) -> Figure:
    """MAE over the varied setting, a line for each group of cells."""
    figure = Figure(figsize=(WIDTH, HEIGHT + 0.3), layout="constrained")
    axes = figure.subplots()
    groups = list(dict.fromkeys(row["group"] for row in rows))
    for number, group in enumerate(groups):
        cells = [row for row in rows if row["group"] == group]
        x = [row["x"] for row in cells]
        axes.plot(x, [row["mae"] for row in cells], **line_style(number))
        if len(groups) <= 2:  # more bands would hide each other; study.csv has them
            low, high = ([row[f"mae_{end}"] for row in cells] for end in ("low", "high"))
            axes.fill_between(x, low, high, color=COLOURS[number], alpha=0.12, lw=0)
    axes.set(xlabel=study.varies, ylabel=MAE)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    legend(figure, {}, **{group: Line2D([], [], **line_style(number)) for number, group in enumerate(groups)})
    return figure


@drawn
def phi(study: Study, rows: Rows, setup: str) -> Figure:
    """MAE of each random assignment, with their mean and std, and the std in the paper."""
    cells = [row for row in rows if row["cell"] not in ("mean", "std")]
    mae = {row["cell"]: row["mae"] for row in rows}
    figure, axes = single_axes()
    axes.plot([row["x"] for row in cells], [row["mae"] for row in cells], "o", color=OURS)
    if "std" in mae:
        mean, std = mae["mean"], mae["std"]
        axes.axhline(mean, color=GREY)
        axes.axhspan(mean - std, mean + std, color=OURS, alpha=0.15, lw=0)
        axes.axhspan(mean - PHI_STD, mean + PHI_STD, color=PAPER, alpha=0.35, lw=0)
        axes.set_ylim(mean - max(0.2, 5 * std), mean + max(0.2, 5 * std))
        entries = {
            f"mean ± std, {mean:.2f} ± {std:.3f}": Line2D([], [], color=OURS, lw=6, alpha=0.3),
            f"the paper's std, {PHI_STD:g}": Line2D([], [], color=PAPER, lw=6, alpha=0.5),
        }
        legend(figure, {}, **entries)
    axes.set(xlabel="random assignment φ", ylabel=MAE)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure


@drawn
def entropy(study: Study, rows: Rows, setup: str) -> Figure:
    """Entropy H of the routing over the iterations, a panel for each model family, as in the paper."""
    groups = list(dict.fromkeys(row["group"] for row in rows))
    figure = Figure(figsize=(2 * WIDTH - 1.2, HEIGHT), layout="constrained")
    panels = figure.subplots(1, max(1, len(groups)), sharey=True, squeeze=False)[0]
    for axes, group in zip(panels, groups, strict=False):
        names = list(dict.fromkeys(row["label"] for row in rows if row["group"] == group))
        for number, name in enumerate(names):
            cell = [row for row in rows if row["label"] == name]
            x, y = [row["iteration"] for row in cell], [row["entropy"] for row in cell]
            axes.plot(x, y, label=name, **line_style(number))
        axes.set(xlabel="iteration", ylabel="mean entropy H, nats")
        axes.set_ylim(bottom=0)
        axes.legend()
        axes.label_outer()
    return figure


@drawn
def initialisation(study: Study, rows: Rows, setup: str) -> Figure:
    """Training NLL, test NLL and MAE of each start, by the kind of annealing; over seeds the mean with its std."""
    starts = list(dict.fromkeys(row["group"] for row in rows if row.get("group")))
    figure = Figure(figsize=(TEXT_WIDTH + 1, HEIGHT), layout="constrained")
    panels = figure.subplots(1, 3)
    for axes, key in zip(panels, ("train_nll", "test_nll", "mae"), strict=True):
        for number, start in enumerate(starts):
            cells = [row for row in rows if row.get("group") == start and row.get(key) is not None]
            x = [row["x"] + 0.1 * (number - (len(starts) - 1) / 2) for row in cells]
            spread = [row.get(f"{key}_std") or 0.0 for row in cells]
            look = line_style(number) | {"linestyle": ""}
            axes.errorbar(x, [row[key] for row in cells], yerr=spread if any(spread) else None, capsize=2, **look)
        axes.set_xticks(range(len(ANNEALED)), ["none", *[*ANNEALED][1:]])
        axes.set(xlabel=study.varies, ylabel=column(key).label, xlim=(-0.5, len(ANNEALED) - 0.5))
        axes.grid(visible=False, axis="x")
    marks = {start: Line2D([], [], **(line_style(number) | {"linestyle": ""})) for number, start in enumerate(starts)}
    legend(figure, {}, **marks)
    return figure


@drawn
def benchmark(study: Study, rows: Rows, setup: str) -> Figure:
    """Our MAE among those of all methods in the paper's table, the best at the bottom."""
    title, printed = BENCHMARKS.get(setup, ("", ()))
    ours = [{**row, "label": f"{row['label']}, agecli", "paper_mae": None} for row in rows if row["cell"]]
    theirs = [{"label": row.method, "mae": None, "paper_mae": row.mae} for row in printed]
    order = sorted([*ours, *theirs], key=lambda row: -(row["mae"] or row["paper_mae"]))
    figure = Figure(figsize=(WIDTH + 0.8, 0.9 + 0.22 * len(order)), layout="constrained")
    _plot_rows(figure, order, title)
    return figure


def _plot_rows(figure: Figure, rows: Rows, title: str) -> None:
    """A line for each row from the top: a dot with its 95 % CI for our MAE, an open diamond for the paper's.

    title: of the paper's table
    """
    axes: Axes = figure.subplots()
    diamond: dict[str, Any] = {"marker": "D", "markerfacecolor": "white", "markeredgecolor": PAPER, "linestyle": ""}
    for place, row in enumerate(rows):
        if row.get("mae") is not None:
            axes.plot([row["mae_low"], row["mae_high"]], [place, place], color=OURS, linewidth=1.4)
            axes.plot([row["mae"]], [place], "o", color=OURS)
        if row.get("paper_mae") is not None:
            axes.plot([row["paper_mae"]], [place], **diamond)
    axes.set_yticks(range(len(rows)), [row["label"] for row in rows])
    axes.set(xlabel=MAE, ylim=(len(rows) - 0.4, -0.6))
    axes.grid(visible=False, axis="y")
    range_of = "mean ± std over seeds" if any("seeds" in row for row in rows) else LEVEL
    entries = {f"agecli, {range_of}": Line2D([], [], color=OURS, marker="o")}
    if any(row.get("paper_mae") is not None for row in rows):
        entries[f"the paper, {title}"] = Line2D([], [], **diamond)
    legend(figure, {}, **entries)


FIGURES: dict[str, drawn[[Study, Rows, str]]] = {
    "ablation": ablation,
    "initialisation": initialisation,
    "trees": lines,
    "depth": lines,
    "alpha": lines,
    "phi": phi,
    "entropy": entropy,
    "benchmark": benchmark,
    "cacd": ablation,
}


def draw(study: Study, rows: Rows, setup: str, kind: str) -> bytes:
    """The bytes of a study's figure.

    rows: of study.csv; setup: the protocol of the study; kind: svg, png or pdf
    Example: `draw(outcome.study, outcome.rows, outcome.setup, "png")`
    """
    return FIGURES[study.name].render(kind, study, [_with_range(row) for row in rows], setup)


def _with_range(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """A row with the ends of its range: its 95 % CI, or of a mean over seeds one std to each side."""
    if "seeds" not in row or row.get("mae") is None:
        return row
    std = row.get("mae_std") or 0.0
    return {**row, "mae_low": row["mae"] - std, "mae_high": row["mae"] + std}
