"""The figure of a study, as the paper draws it: rows of its table in, a file out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from agecli.reports.figures.evaluation import COLOURS, HEIGHT, LINES, MARKERS, SOFT, WIDTH, drawn, legend
from agecli.studies.cells import Study
from agecli.studies.paper import BENCHMARKS, PHI_STD

Rows = Sequence[Mapping[str, Any]]
OURS, PRINTED = COLOURS[0], COLOURS[1]


def looks(number: int) -> dict[str, Any]:
    return {"color": COLOURS[number], "marker": MARKERS[number], "linestyle": LINES[number]}


@drawn
def ablation(study: Study, rows: Rows, setup: str) -> Figure:
    """Ours with its confidence, and the paper's number, row by row."""
    figure = Figure(figsize=(WIDTH + 1.6, 0.9 + 0.3 * len(rows)), layout="constrained")
    axes = figure.subplots()
    _rows(axes, rows, "MORPH, Setup I")
    return figure


@drawn
def lines(study: Study, rows: Rows, setup: str) -> Figure:
    """The MAE over what is varied, a line for each group."""
    figure = Figure(figsize=(WIDTH, HEIGHT + 0.3), layout="constrained")
    axes = figure.subplots()
    groups = list(dict.fromkeys(row["group"] for row in rows))
    for number, group in enumerate(groups):
        some = [row for row in rows if row["group"] == group]
        x, mae = [row["x"] for row in some], [row["mae"] for row in some]
        axes.plot(x, mae, **looks(number))
        if len(groups) <= 2:  # more bands would hide each other; study.csv has them
            low, high = ([row[f"mae_{end}"] for row in some] for end in ("low", "high"))
            axes.fill_between(x, low, high, color=COLOURS[number], alpha=0.12, lw=0)
    axes.set(xlabel=study.varies, ylabel="MAE, years")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    legend(figure, {}, **{group: Line2D([], [], **looks(number)) for number, group in enumerate(groups)})
    return figure


@drawn
def phi(study: Study, rows: Rows, setup: str) -> Figure:
    """The MAE of each assignment, their mean, and one std to both sides; the paper's std beside it."""
    cells = [row for row in rows if row["cell"] not in ("mean", "std")]
    said = {row["cell"]: row["mae"] for row in rows}
    figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
    axes = figure.subplots()
    axes.plot([row["x"] for row in cells], [row["mae"] for row in cells], "o", color=OURS)
    if "std" in said:
        axes.axhline(said["mean"], color=SOFT)
        axes.axhspan(said["mean"] - said["std"], said["mean"] + said["std"], color=OURS, alpha=0.15, lw=0)
        axes.axhspan(said["mean"] - PHI_STD, said["mean"] + PHI_STD, color=PRINTED, alpha=0.35, lw=0)
        axes.set_ylim(said["mean"] - max(0.2, 5 * said["std"]), said["mean"] + max(0.2, 5 * said["std"]))
        shown = {
            f"mean ± std, {said['mean']:.2f} ± {said['std']:.3f}": Line2D([], [], color=OURS, lw=6, alpha=0.3),
            f"the paper's std, {PHI_STD:g}": Line2D([], [], color=PRINTED, lw=6, alpha=0.5),
        }
        legend(figure, {}, **shown)
    axes.set(xlabel="random assignment φ", ylabel="MAE, years")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure


@drawn
def entropy(study: Study, rows: Rows, setup: str) -> Figure:
    """H over the iterations, a panel for each family, as in the paper."""
    groups = list(dict.fromkeys(row["group"] for row in rows))
    figure = Figure(figsize=(2 * WIDTH - 1.2, HEIGHT), layout="constrained")
    panels = figure.subplots(1, max(1, len(groups)), sharey=True, squeeze=False)[0]
    for axes, group in zip(panels, groups, strict=False):
        names = list(dict.fromkeys(row["label"] for row in rows if row["group"] == group))
        for number, name in enumerate(names):
            some = [row for row in rows if row["label"] == name]
            axes.plot(
                [row["iteration"] for row in some],
                [row["entropy"] for row in some],
                label=name,
                **looks(number),
            )
        axes.set(xlabel="iteration", ylabel="mean entropy H, nats")
        axes.set_ylim(bottom=0)
        axes.legend()
        axes.label_outer()
    return figure


@drawn
def benchmark(study: Study, rows: Rows, setup: str) -> Figure:
    """Ours among all that the paper compares with, the best at the bottom."""
    title, printed = BENCHMARKS.get(setup, ("", ()))
    ours = [{**row, "label": f"{row['label']}, agecli", "paper_mae": None} for row in rows if row["cell"]]
    theirs = [{"label": row.method, "mae": None, "paper_mae": row.mae} for row in printed]
    order = sorted([*ours, *theirs], key=lambda row: -(row["mae"] or row["paper_mae"]))
    figure = Figure(figsize=(WIDTH + 0.8, 0.9 + 0.22 * len(order)), layout="constrained")
    _rows(figure.subplots(), order, title)
    return figure


def _rows(axes: Axes, rows: Rows, title: str) -> None:
    """A line of the table each, from the top: a dot with whiskers for ours, an open diamond for what is printed."""
    for place, row in enumerate(rows):
        if row.get("mae") is not None:
            axes.plot([row["mae_low"], row["mae_high"]], [place, place], color=OURS, linewidth=1.4)
            axes.plot([row["mae"]], [place], "o", color=OURS)
        if row.get("paper_mae") is not None:
            axes.plot([row["paper_mae"]], [place], "D", markerfacecolor="white", markeredgecolor=PRINTED)
    axes.set_yticks(range(len(rows)), [row["label"] for row in rows])
    axes.set(xlabel="MAE, years", ylim=(len(rows) - 0.4, -0.6))
    axes.grid(visible=False, axis="y")
    shown = {"agecli, 95 %": Line2D([], [], color=OURS, marker="o")}
    if any(row.get("paper_mae") is not None for row in rows):
        shown[f"the paper, {title}"] = Line2D(
            [], [], linestyle="", marker="D", markerfacecolor="white", markeredgecolor=PRINTED
        )
    figure = axes.get_figure()
    assert isinstance(figure, Figure)
    legend(figure, {}, **shown)


FIGURES: dict[str, Callable[..., Any]] = {
    "ablation": ablation,
    "trees": lines,
    "depth": lines,
    "alpha": lines,
    "phi": phi,
    "entropy": entropy,
    "benchmark": benchmark,
}


def draw(study: Study, rows: Rows, setup: str, kind: str) -> bytes:
    """The study's figure as a file of that kind."""
    content: bytes = FIGURES[study.name].file(kind, study, rows, setup)  # type: ignore[attr-defined]
    return content
