"""The figure of a forest: its leaf distributions under a histogram of the training ages."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from agecli.core.ages import Floats
from agecli.reports.figure_data import Leaves
from agecli.reports.figures.style import TEXT_WIDTH, drawn, label

AGE_COLOURS = colormaps["viridis"]  # perceptually uniform, colour-blind safe
BRIGHTEST = 0.92  # of the colour map: the yellow at its end has too little contrast on white
SHARP = 4  # times the lower quartile of the peaks: sharper Gaussians are scaled down to it, as in the paper
VISIBLE = 0.005  # of the largest probability: less can't be seen


@drawn
def leaves(panels: Sequence[Leaves], ages: Floats | None = None, whose: str = "training faces") -> Figure:
    """The leaves of each model, a panel for each, and above them a histogram of ages, as in the paper's figure.

    ages: (n,), years, for the histogram; without them there is none
    whose: faces the ages are of
    Example: `leaves([read_leaves(find_source("runs/drf"))])`
    """
    heights = [1.2] * (ages is not None) + [2.0] * len(panels)
    figure = Figure(figsize=(TEXT_WIDTH, sum(heights) + 0.5), layout="constrained")
    rows = list(figure.subplots(len(heights), 1, sharex=True, squeeze=False, height_ratios=heights).flat)
    means = np.concatenate([panel.mean for panel in panels])
    if ages is not None:
        _histogram(rows[0], ages, means, whose)
    for axes, panel in zip(rows[-len(panels) :], panels, strict=True):
        _leaves(axes, panel, means)
    shown = means if ages is None else np.concatenate([means, ages])
    grid = panels[0].grid
    ends = max(grid.low, 5 * np.floor((shown.min() - 2) / 5)), min(grid.high, 5 * np.ceil((shown.max() + 8) / 5))
    rows[-1].set(xlabel="age, years (leaves are coloured by their mean)", xlim=(ends[0] - 0.5, ends[1] + 0.5))
    figure.align_ylabels()
    return figure


def _colours(ages: Floats, means: Floats) -> Floats:
    """A colour for each age by the share of leaf means below it, so that neighbours differ where leaves are dense."""
    shares = np.linspace(0, 1, 11)
    return np.asarray(AGE_COLOURS(BRIGHTEST * np.interp(ages, np.quantile(means, shares), shares)))


def _histogram(axes: Axes, ages: Floats, means: Floats, whose: str) -> None:
    """The number of faces of each year, coloured as leaves of that mean are."""
    years, counts = np.unique(np.floor(ages + 0.5), return_counts=True)
    axes.bar(years, counts, width=1, color=_colours(years, means), edgecolor="white", linewidth=0.3)
    axes.set_ylabel("faces", fontsize=9)
    axes.set_title(label(f"{len(ages):,} {whose}", 90), fontsize=9, loc="left")


def _leaves(axes: Axes, panel: Leaves, means: Floats) -> None:
    """A filled curve for each leaf of one panel; very high peaks are scaled down, and the label says so."""
    peaks = panel.heights.max(-1)
    most = SHARP * float(np.quantile(peaks, 0.25)) if panel.density else 1.0
    for place in np.argsort(panel.mean):
        colour = _colours(panel.mean[place], means)
        heights = panel.heights[place] * min(1.0, most / peaks[place])
        visible = np.flatnonzero(heights > VISIBLE * heights.max() / 10)
        some = slice(max(0, visible[0] - 1), visible[-1] + 2)  # the rest is a line at 0
        axes.plot(panel.ages[place, some], heights[some], color=colour, linewidth=0.9, alpha=0.8)
        axes.fill_between(panel.ages[place, some], heights[some], color=colour, alpha=0.1, linewidth=0)
    scaled = int((peaks > most).sum())
    kind = "probability density" if panel.density else "probability"
    axes.set_ylabel(f"{kind}\n({scaled} peak{'s' * (scaled > 1)} scaled to {most:.2g})" if scaled else kind, fontsize=9)
    axes.set_ylim(bottom=0)
    axes.set_title(label(f"{panel.name} ({panel.source})", 90), fontsize=9, loc="left")
