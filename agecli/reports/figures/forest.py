"""Figures of a model: its leaves, how it was trained, and how it comes to an age."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Patch
from matplotlib.patheffects import withStroke
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator
from numpy.typing import NDArray

from agecli.core import ages
from agecli.core.ages import Floats
from agecli.reports.figures.evaluation import COLOURS, LINES, PROMISED, drawn, label
from agecli.reports.figures.sources import Explained, History, Leaves

PAGE = 7.0  # inches: the width of a paper's text
AGE_COLOURS = colormaps["viridis"]  # perceptually uniform, for colour-blind eyes too
BRIGHTEST = 0.92  # of the map: the yellow at its end is lost on white
SHARP = 4  # times the lower quartile of peaks: sharper Gaussians would press the others flat, and are scaled as in the paper
WIDE = 6  # times the smallest error: if the largest is more, both are seen on a logarithmic scale only
SEEN = 0.005  # of the largest probability: less can't be seen
HEAVIEST = 5  # leaves of a face that are named


@drawn
def leaves(panels: Sequence[Leaves], known: Floats | None = None, whose: str = "training faces") -> Figure:
    """A histogram of ages, if they are known, and the leaves of each model beneath, as in the paper's figure."""
    heights = [1.2] * (known is not None) + [2.0] * len(panels)
    figure = Figure(figsize=(PAGE, sum(heights) + 0.5), layout="constrained")
    rows = list(figure.subplots(len(heights), 1, sharex=True, squeeze=False, height_ratios=heights).flat)
    means = np.concatenate([panel.mean for panel in panels])
    if known is not None:
        _histogram(rows[0], known, means, whose)
    for axes, panel in zip(rows[-len(panels) :], panels, strict=True):
        _leaves(axes, panel, means)
    seen = means if known is None else np.concatenate([means, known])
    grid = panels[0].grid
    ends = max(grid.low, 5 * np.floor((seen.min() - 2) / 5)), min(grid.high, 5 * np.ceil((seen.max() + 8) / 5))
    rows[-1].set(xlabel="age, years (the colour of a leaf is that of its mean)", xlim=(ends[0] - 0.5, ends[1] + 0.5))
    figure.align_ylabels()
    return figure


def _colours(at: Floats, means: Floats) -> Floats:
    """A colour for each age, by the share of leaves below it: where leaves are dense, neighbours still differ."""
    shares = np.linspace(0, 1, 11)
    return np.asarray(AGE_COLOURS(BRIGHTEST * np.interp(at, np.quantile(means, shares), shares)))


def _histogram(axes: Axes, known: Floats, means: Floats, whose: str) -> None:
    years, counts = np.unique(np.floor(known + 0.5), return_counts=True)
    axes.bar(years, counts, width=1, color=_colours(years, means), edgecolor="white", linewidth=0.3)
    axes.set_ylabel("faces", fontsize=9)
    axes.set_title(label(f"{len(known):,} {whose}", 90), fontsize=9, loc="left")


def _leaves(axes: Axes, panel: Leaves, means: Floats) -> None:
    peaks = panel.heights.max(-1)
    most = SHARP * float(np.quantile(peaks, 0.25)) if panel.density else 1.0
    for place in np.argsort(panel.mean):
        colour = _colours(panel.mean[place], means)
        heights = panel.heights[place] * min(1.0, most / peaks[place])
        there = np.flatnonzero(heights > SEEN * heights.max() / 10)
        some = slice(max(0, there[0] - 1), there[-1] + 2)  # the rest of it is a line at 0
        axes.plot(panel.ages[place, some], heights[some], color=colour, linewidth=0.9, alpha=0.8)
        axes.fill_between(panel.ages[place, some], heights[some], color=colour, alpha=0.1, linewidth=0)
    scaled = int((peaks > most).sum())
    kind = "probability density" if panel.density else "probability"
    axes.set_ylabel(f"{kind}\n({scaled} peak{'s' * (scaled > 1)} scaled to {most:.2g})" if scaled else kind, fontsize=9)
    axes.set_ylim(bottom=0)
    axes.set_title(label(f"{panel.name} ({panel.source})", 90), fontsize=9, loc="left")


PANELS = {  # of a history: columns of history.csv, and what they are called
    "loss": {"loss": "E = R − T·H", "nll": "R"},
    "entropy of routing, nats": {"entropy": "H"},
    "temperature T, inverse τ": {"t": "T, of splits", "tau": "τ, of leaves"},
    "MAE, years": {"train_mae": "training", "val_mae": "validation"},
}


@drawn
def history(folds: Mapping[int, History]) -> Figure:
    """Loss, entropy, temperatures and errors of each fold by iteration."""
    figure = Figure(figsize=(PAGE, 4.8), layout=ConstrainedLayoutEngine(wspace=0.03, hspace=0.04))
    panels = figure.subplots(2, 2, sharex=True)
    for axes, (title, columns) in zip(panels.flat, PANELS.items(), strict=True):
        for number, (column, name) in enumerate(columns.items()):
            look = {"color": COLOURS[number], "linestyle": LINES[number], "linewidth": 1.6 if len(folds) == 1 else 0.8}
            look |= {"marker": "s", "markersize": 3} if column == "val_mae" else {}  # measured now and then
            there = [(fold, np.isfinite(fold[column])) for fold in folds.values()]
            for fold, known in there:
                if known.any():  # an empty line that may leave its axes would push the panels apart
                    axes.plot(fold["iteration"][known], fold[column][known], clip_on=False, **look)
            if any(known.any() for _, known in there):
                axes.plot([], [], label=name, **look)
        axes.set_ylabel(title)
        least, most = axes.dataLim.intervaly
        if "loss" not in columns:  # which may be below 0
            axes.set_ylim(0, 1.08 * most if most > 0 else 1)
        if "val_mae" in columns and 0 < WIDE * least < most < np.inf:
            axes.set_yscale("log")
            axes.set_ylim(least / 1.2, 1.2 * most)
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5, 7)))
            axes.yaxis.set_major_formatter("{x:g}")
            axes.yaxis.set_minor_locator(NullLocator())
        if axes.lines:
            axes.legend(
                loc="lower left", bbox_to_anchor=(0, 1), ncols=2, borderpad=0.2, borderaxespad=0, handlelength=1.8
            )
    last = max(1, *(float(fold["iteration"].max()) for fold in folds.values()))
    for axes in panels[-1]:
        axes.set(
            xlabel="iteration" if len(folds) == 1 else f"iteration (thin lines: {len(folds)} folds)", xlim=(0, last)
        )
    return figure


@drawn
def distribution(face: Explained) -> Figure:
    """The distribution of a face's age with its interval, and beneath it the leaves that it is made of."""
    figure = Figure(figsize=(PAGE, 4.4), layout="constrained")
    (above, beside), (below, corner) = figure.subplots(2, 2, width_ratios=(3, 1.15), sharex="col")
    seen = [*face.grid.years[face.pmf > SEEN * face.pmf.max()], *face.interval]
    ends = max(face.grid.low, min(seen) - 2) - 0.5, min(face.grid.high, max(seen) + 2) + 0.5
    for axes in (above, below):
        axes.set(xlim=ends, ylim=(0, 1.08 * face.pmf.max()), ylabel="probability")
    below.set_xlabel("age, years")
    below.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    _mixture(above, face)
    heavy = _parts(below, face)
    beside.imshow(face.face)
    beside.set_axis_off()
    corner.set_axis_off()
    corner.legend(*heavy, loc="upper left", bbox_to_anchor=(-0.12, 1.06), title="the heaviest leaves", alignment="left")
    return figure


def _mixture(axes: Axes, face: Explained) -> None:
    """The pmf, the age that is read from it, and its interval."""
    years, (low, high) = face.grid.years, face.interval
    axes.axvspan(low, high, color=COLOURS[5], alpha=0.25, linewidth=0)
    axes.fill_between(years, face.pmf, color=COLOURS[0], alpha=0.35, linewidth=0)
    axes.plot(years, face.pmf, color=COLOURS[0])
    axes.axvline(face.age, color=COLOURS[1], linestyle="--")
    said = f"age {face.age:.1f} (dashed), {PROMISED} interval {low:.1f} to {high:.1f} (shaded)"
    axes.set_title(said, fontsize=10, loc="left")


def _parts(axes: Axes, face: Explained) -> tuple[list[Patch], list[str]]:
    """Leaves on top of each other, the youngest lowest: together they are the mixture. Those to name in a legend."""
    years, means = face.grid.years, ages.mean(face.leaves, face.grid)
    order = np.argsort(means, kind="stable")
    parts, weights = face.parts[order], face.weights[order]
    tops = parts.cumsum(0)
    bottoms = tops - parts
    colours = AGE_COLOURS(BRIGHTEST * (weights.cumsum() - weights / 2))  # by the share of the mixture below a leaf
    for row, part in enumerate(parts):
        there = _around(part > SEEN * face.pmf.max() / 100)  # the file stays small
        axes.fill_between(years, bottoms[row], tops[row], where=there, color=colours[row], linewidth=0)
    patches, names = [], []
    taken: list[tuple[float, float]] = []  # by numbers
    for number, row in enumerate(np.argsort(-weights, kind="stable")[:HEAVIEST], 1):
        there = _around(parts[row] > SEEN * face.pmf.max())  # elsewhere, its outline would be a line on others
        axes.fill_between(
            years, bottoms[row], tops[row], where=there, facecolor="none", edgecolor="black", linewidth=0.8
        )
        if place := _room(axes, years, (bottoms[row] + tops[row]) / 2, np.argsort(-parts[row])[: there.sum()], taken):
            ink = [withStroke(linewidth=1.5, foreground="black")]
            axes.text(*place, str(number), fontsize=8, ha="center", va="center", color="white", path_effects=ink)
            taken.append(place)
        patches.append(Patch(facecolor=colours[row], edgecolor="black"))
        leaf = order[row]
        names.append(f"{number}: {100 * weights[row]:.0f} %, {face.names[leaf]}\nmean {means[leaf]:.0f} years")
    axes.set_title(f"made of {len(order)} leaves, coloured by mean age", fontsize=10, loc="left")
    return patches, names


def _around(there: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """These years and their neighbours, so that an area ends in a point."""
    return np.asarray(np.convolve(there, [1, 1, 1], mode="same") > 0)


def _room(
    axes: Axes, x: Floats, y: Floats, places: NDArray[np.int64], taken: Sequence[tuple[float, float]]
) -> tuple[float, float] | None:
    """The first of these places at which a number hides no other."""
    wide, high = 0.03 * np.ptp(axes.get_xlim()), 0.08 * np.ptp(axes.get_ylim())
    for at in places:
        if all(abs(x[at] - left) > wide or abs(y[at] - up) > high for left, up in taken):
            return float(x[at]), float(y[at])
    return None
