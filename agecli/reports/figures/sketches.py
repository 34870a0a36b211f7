"""Figures that explain: a label distribution, a trained forest as a drawing of its trees, and faces with their ages."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from agecli.core.ages import AgeGrid, Floats
from agecli.reports.figure_data import Example, TreeSketch
from agecli.reports.figures.leaves import AGE_COLOURS, BRIGHTEST
from agecli.reports.figures.style import COLOURS, GREY, HEIGHT, TEXT_WIDTH, WIDTH, drawn, single_axes

UNIT, SPLIT = COLOURS[1], COLOURS[0]  # red units of f and blue split nodes, as in the paper
AROUND = 4  # standard deviations of a label distribution that are drawn
COLUMNS = 6  # faces in a row


@drawn
def label_distribution(age: float, alpha: float, grid: AgeGrid) -> Figure:
    """d(y), the label distribution of a face of this age, as a bar for each year.  [eqn:age_distribution]

    age, alpha: years; alpha 0 is a single bar
    """
    years = grid.years
    weights = np.exp(-0.5 * ((years - age) / alpha) ** 2) if alpha else (years == round(age)).astype(float)
    figure, axes = single_axes()
    axes.bar(years, weights / weights.sum(), width=0.85, color=COLOURS[0])
    half = max(5.0, AROUND * alpha)
    axes.set(xlabel="age c, years", ylabel="d, probability", xlim=(age - half, age + half))
    axes.set_title(f"true age {age:g}, α = {alpha:g} years", fontsize=10, loc="left")
    return figure


@drawn
def forest_sketch(trees: Sequence[TreeSketch], units: int) -> Figure:
    """Units of f at the top, below them some trees with their split nodes and leaves, as in the paper's sketch.

    A line leads from each split node to the unit that decides it (phi). Below each tree are the distributions of its leaves over ages, in
    the colours of the leaves, as square roots.
    units: M, of f
    """
    figure = Figure(figsize=(TEXT_WIDTH, HEIGHT + 1.4), layout="constrained")
    axes = figure.subplots()
    axes.set_axis_off()
    places = np.linspace(0.02, 0.98, units)
    axes.scatter(places, np.full(units, 1.0), s=min(40.0, 900 / units), color=UNIT, zorder=3)
    axes.text(0.5, 1.06, f"f: {units} units", ha="center", fontsize=9)
    for number, tree in enumerate(trees):
        width = 1 / len(trees)
        _draw_tree(axes, tree, (number * width + 0.02, (number + 1) * width - 0.02), places)
    axes.set(xlim=(-0.01, 1.01), ylim=(-0.25, 1.12))
    return figure


def _draw_tree(axes: Axes, tree: TreeSketch, ends: tuple[float, float], units: Floats) -> None:
    """One tree between two horizontal places: split nodes level by level, then leaves with their distributions."""
    levels = int(np.log2(len(tree.means))) + 1
    spots: list[tuple[float, float]] = []
    for level in range(levels):
        count, height = 2**level, 0.8 - 0.62 * level / max(1, levels - 1)
        spots += [(ends[0] + (ends[1] - ends[0]) * (i + 0.5) / count, height) for i in range(count)]
    inner = len(tree.phi)
    for node in range(inner):
        for child in (2 * node + 1, 2 * node + 2):
            axes.plot(*zip(spots[node], spots[child], strict=True), color=GREY, linewidth=0.7, zorder=1)
        link = (float(units[tree.phi[node]]), 1.0)
        axes.plot(*zip(spots[node], link, strict=True), color=UNIT, linewidth=0.4, alpha=0.35, zorder=0)
    x, y = zip(*spots[:inner], strict=True)
    axes.scatter(x, y, s=22, color=SPLIT, zorder=3)
    x, y = zip(*spots[inner:], strict=True)
    order = np.argsort(np.argsort(tree.means)) / max(1, len(x) - 1)
    colours = AGE_COLOURS(BRIGHTEST * order)
    axes.scatter(x, y, s=24, color=colours, edgecolor="white", linewidth=0.5, zorder=3)
    ages = np.linspace(*ends, tree.pmf.shape[1])  # one axis of ages for all leaves of the tree
    for leaf, colour in zip(tree.pmf, colours, strict=True):
        heights = 0.2 * np.sqrt(leaf / tree.pmf.max())  # the root: narrow leaves would hide wide ones
        axes.plot(ages, heights - 0.14, color=colour, linewidth=0.8)
        axes.fill_between(ages, heights - 0.14, -0.14, color=colour, alpha=0.1, linewidth=0)
    axes.text(ends[0], -0.18, f"{tree.ages[0]}", ha="left", fontsize=7, color=GREY)
    axes.text(ends[1], -0.18, f"{tree.ages[1]} years", ha="right", fontsize=7, color=GREY)
    axes.text(sum(ends) / 2, -0.22, tree.name, ha="center", fontsize=9)


@drawn
def faces(examples: Sequence[Example]) -> Figure:
    """Faces with their true and predicted ages below, COLUMNS in a row."""
    rows = -(-len(examples) // COLUMNS)
    figure = Figure(figsize=(TEXT_WIDTH, rows * (WIDTH * 0.36) + 0.1), layout="constrained")
    for axes in figure.subplots(rows, COLUMNS, squeeze=False).flat:
        axes.set_axis_off()
    for axes, example in zip(figure.axes, examples, strict=False):
        axes.imshow(example.picture)
        axes.set_title(f"{example.age:g} → {example.predicted:.0f}", y=-0.2, fontsize=9)
    return figure
