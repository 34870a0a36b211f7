"""Shared style of all figures: sizes, colours, markers, legends, and rendering to SVG, PNG or PDF."""

from __future__ import annotations

import functools
import io
import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, ParamSpec

import numpy as np
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from agecli.core.files import write_bytes

log = logging.getLogger("agecli")
P = ParamSpec("P")
LineStyle = Mapping[str, Any]  # keyword arguments of Axes.plot

WIDTH, HEIGHT = 4.2, 3.2  # inches: a column of a paper, or the width of a phone
TEXT_WIDTH = 7.0  # inches: both columns of a paper
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")  # Okabe and Ito: colour-blind safe
MARKERS = "osD^v"  # markers and lines distinguish models in print without colour
LINES = ("-", "--", "-.", ":")
GREY = "#767676"
ERROR_BAR = 1.4  # line width of confidence intervals, points
RC = {  # matplotlib's rcParams
    "font.size": 10,
    "axes.labelsize": 10,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "lines.linewidth": 1.6,
    "lines.markersize": 5,
    "savefig.dpi": 200,  # of rasterised parts
    "svg.hashsalt": "agecli",  # ids in the file depend on its content only: the same figure is the same bytes
    "text.parse_math": False,  # a name may contain $
    "pdf.fonttype": 42,  # TrueType, which publishers require
}
PNG_DPI = 300
METADATA: dict[str, dict[str, str | None]] = {  # without dates and versions: the same figure is the same bytes
    "svg": {"Date": None, "Creator": "agecli"},
    "png": {"Software": "agecli"},
    "pdf": {"CreationDate": None, "Creator": "agecli", "Producer": None},
}


class drawn(Generic[P]):
    """Decorator of functions that return a Figure: calling them returns the bytes of an SVG file.

    The style is the same whatever the user's matplotlibrc says.
    Example: `cs_curve(models)` is SVG, `cs_curve.render("png", models)` is PNG.
    """

    def __init__(self, draw: Callable[P, Figure]) -> None:
        self.draw = draw
        functools.update_wrapper(self, draw)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> bytes:
        return self.render("svg", *args, **kwargs)

    def render(self, kind: str, /, *args: P.args, **kwargs: P.kwargs) -> bytes:
        """The bytes of a file of that kind: svg, png or pdf."""
        stream = io.BytesIO()
        with style.context(["default", RC]), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph")  # a name in a script that the font lacks
            figure = self.draw(*args, **kwargs)
            figure.savefig(stream, format=kind, metadata=METADATA[kind], dpi=PNG_DPI if kind == "png" else None)
        return stream.getvalue()


def write_figure(path: Path, content: bytes) -> None:
    """Write the bytes of a figure to a file, whole or not at all, and log its name."""
    write_bytes(path, content)
    log.info("wrote %s", path)


def single_axes() -> tuple[Figure, Axes]:
    """A figure as wide as a column of a paper, with one pair of axes."""
    figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
    return figure, figure.subplots()


def line_style(number: int) -> dict[str, Any]:
    """The colour, marker and line of the model with this number, from 0."""
    return {
        "color": COLOURS[number % len(COLOURS)],
        "marker": MARKERS[number % len(MARKERS)],
        "linestyle": LINES[number % len(LINES)],
    }


def label(name: str, most: int = 40) -> str:
    """A name for a figure: characters that are invalid in SVG become ?, and the middle of a long name is cut out.

    most: number of characters
    """
    name = "".join(letter if letter.isprintable() else "?" for letter in name)
    return name if len(name) <= most else f"{name[: most // 2 - 1]}…{name[-most // 2 :]}"


def legend(figure: Figure, models: Mapping[str, Any], **others: Line2D) -> None:
    """Add a legend above the axes and make the figure higher by it, so that it hides nothing.

    models: named in it if there are several
    others: further entries, by their names
    """
    lines = {label(name): Line2D([], [], **line_style(number)) for number, name in enumerate(models)}
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
    """The names in each column, as matplotlib fills a legend."""
    return [part.tolist() for part in np.array_split(np.array(names, dtype=object), columns)]
