"""The figure of one prediction: the age distribution of a face, its interval, and the leaves that it is a mixture of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from agecli.core import ages
from agecli.core.ages import Floats
from agecli.reports.columns import NOMINAL
from agecli.reports.figure_data import ExplainedFace
from agecli.reports.figures.leaves import AGE_COLOURS, BRIGHTEST, VISIBLE
from agecli.reports.figures.style import COLOURS, TEXT_WIDTH, drawn

NAMED = 5  # leaves with the largest weights, which the legend names


@drawn
def distribution(face: ExplainedFace) -> Figure:
    """The age distribution of a face with its interval, and below it the weighted leaves, stacked.

    Beside them are the face as the network gets it and a legend of the NAMED leaves with the largest weights.
    Example: `distribution.render("png", explain(Path("photo.jpg")))`
    """
    figure = Figure(figsize=(TEXT_WIDTH, 4.4), layout="constrained")
    (above, beside), (below, corner) = figure.subplots(2, 2, width_ratios=(3, 1.15), sharex="col")
    shown = [*face.grid.years[face.pmf > VISIBLE * face.pmf.max()], *face.interval]
    ends = max(face.grid.low, min(shown) - 2) - 0.5, min(face.grid.high, max(shown) + 2) + 0.5
    for axes in (above, below):
        axes.set(xlim=ends, ylim=(0, 1.08 * face.pmf.max()), ylabel="probability")
    below.set_xlabel("age, years")
    below.xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    _mixture(above, face)
    entries = _stacked_leaves(below, face)
    beside.imshow(face.face)
    beside.set_axis_off()
    corner.set_axis_off()
    title = "leaves with the largest weights"
    corner.legend(*entries, loc="upper left", bbox_to_anchor=(-0.12, 1.06), title=title, alignment="left")
    return figure


def _mixture(axes: Axes, face: ExplainedFace) -> None:
    """The pmf, the predicted age and the interval."""
    years, (low, high) = face.grid.years, face.interval
    axes.axvspan(low, high, color=COLOURS[5], alpha=0.25, linewidth=0)
    axes.fill_between(years, face.pmf, color=COLOURS[0], alpha=0.35, linewidth=0)
    axes.plot(years, face.pmf, color=COLOURS[0])
    axes.axvline(face.age, color=COLOURS[1], linestyle="--")
    title = f"age {face.age:.1f} (dashed), {NOMINAL} interval {low:.1f} to {high:.1f} (shaded)"
    axes.set_title(title, fontsize=10, loc="left")


def _stacked_leaves(axes: Axes, face: ExplainedFace) -> tuple[list[Patch], list[str]]:
    """The weighted leaves stacked by mean age, which sum to the mixture. Returns the entries of a legend."""
    years, means = face.grid.years, ages.mean(face.leaves, face.grid)
    order = np.argsort(means, kind="stable")
    parts, weights = face.parts[order], face.weights[order]
    tops = parts.cumsum(0)
    bottoms = tops - parts
    colours = AGE_COLOURS(BRIGHTEST * (weights.cumsum() - weights / 2))  # by the share of the mixture below a leaf
    for row, part in enumerate(parts):
        visible = _with_neighbours(part > VISIBLE * face.pmf.max() / 100)  # the file stays small
        axes.fill_between(years, bottoms[row], tops[row], where=visible, color=colours[row], linewidth=0)
    patches, names = [], []
    taken: list[tuple[float, float]] = []  # positions of numbers
    for number, row in enumerate(np.argsort(-weights, kind="stable")[:NAMED], 1):
        visible = _with_neighbours(parts[row] > VISIBLE * face.pmf.max())  # elsewhere its outline would hide others
        outline: dict[str, Any] = {"facecolor": "none", "edgecolor": "black", "linewidth": 0.8}
        axes.fill_between(years, bottoms[row], tops[row], where=visible, **outline)
        candidates = np.argsort(-parts[row])[: visible.sum()]
        if place := _free_place(axes, years, (bottoms[row] + tops[row]) / 2, candidates, taken):
            stroke = [withStroke(linewidth=1.5, foreground="black")]
            axes.text(*place, str(number), fontsize=8, ha="center", va="center", color="white", path_effects=stroke)
            taken.append(place)
        patches.append(Patch(facecolor=colours[row], edgecolor="black"))
        leaf = order[row]
        names.append(f"{number}: {100 * weights[row]:.0f} %, {face.names[leaf]}\nmean {means[leaf]:.0f} years")
    axes.set_title(f"mixture of {len(order)} leaves, coloured by mean age", fontsize=10, loc="left")
    return patches, names


def _with_neighbours(visible: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """These years and their neighbours, so that a filled area ends in a point."""
    return np.asarray(np.convolve(visible, [1, 1, 1], mode="same") > 0)


def _free_place(
    axes: Axes, x: Floats, y: Floats, candidates: NDArray[np.int64], taken: Sequence[tuple[float, float]]
) -> tuple[float, float] | None:
    """The first of the candidates at which a number does not overlap another; None if there is none."""
    width, height = 0.03 * np.ptp(axes.get_xlim()), 0.08 * np.ptp(axes.get_ylim())
    for at in candidates:
        if all(abs(x[at] - left) > width or abs(y[at] - up) > height for left, up in taken):
            return float(x[at]), float(y[at])
    return None
