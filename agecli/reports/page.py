"""The HTML report of an evaluation: one self-contained page, from the template templates/report.html.j2.

The template holds the text and the order of the sections; this module gives it rows, figures and faces. Headings and
number formats are those of `reports.columns`.
"""

from __future__ import annotations

import io
import sys
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from agecli.core.ages import span
from agecli.core.files import write_text
from agecli.core.version import __version__
from agecli.images.reading import UnreadableError, read_picture
from agecli.reports.columns import (
    NOMINAL,
    PAGE_COMPARISON,
    PAGE_GROUPS,
    PAGE_MODELS,
    column,
    format_range,
    format_value,
)
from agecli.reports.figures import accuracy, intervals
from agecli.scoring.groups import SMALL, MetricRow
from agecli.scoring.metrics import Predictions

if TYPE_CHECKING:
    from agecli.evaluation.evaluate import Result

TEMPLATES = Path(__file__).parent / "templates"
WORST = 20  # faces with the largest errors that are shown
THUMBNAIL = 160  # pixels, of the longer side
SHOWN = ("decade", "sex", "race")  # kinds of groups whose tables are open; the others are folded
NO_BREAK_SPACE = "\u00a0"  # no line break before a % sign


@dataclass(frozen=True)
class GroupTable:
    """The rows of all groups of one kind."""

    by: str  # decade, sex, sex x race, …
    rows: list[MetricRow]

    @property
    def title(self) -> str:
        """The heading of the table: "By sex and race"."""
        return f"By {self.by.replace(' x ', ' and ').replace('decade', 'age').replace('certainty', 'interval width')}"

    @property
    def shown(self) -> bool:
        """Whether the table is open when the page is opened."""
        return self.by in SHOWN


@dataclass(frozen=True)
class ModelReport:
    """One model of the page, and its results."""

    name: str  # no two models of a page have the same
    predictions: Predictions
    rows: list[MetricRow]  # of `scoring.groups.breakdown`: all faces, then groups
    leakage: float | None  # share of faces whose subject was seen in training; None if not known
    data: Path  # where the pictures are
    about: Mapping[str, str]  # what is needed to reproduce it: command, version, model, …

    def row(self) -> dict[str, Any]:
        """The metrics over all faces, with `model`, `leakage` and the kind of `intervals`."""
        kind = "conformal" if self.predictions.calibrated else "uncalibrated quantiles"
        return {**self.rows[0], "model": self.name, "leakage": self.leakage, "intervals": kind}

    def groups(self) -> list[GroupTable]:
        """The rows of the groups, by kind."""
        kinds: dict[str, list[MetricRow]] = {}
        for row in self.rows[1:]:
            kinds.setdefault(row["by"], []).append(row)
        return [GroupTable(by, rows) for by, rows in kinds.items()]


@dataclass(frozen=True)
class FaceCard:
    """One of the faces with the largest errors, as text."""

    path: str
    age: str
    predicted: str
    interval: str
    picture: str  # a data URI; "" if the picture can't be read
    error: str  # why it can't be read


def model_report(name: str, result: Result) -> ModelReport:
    """The result of one model under a name, with what is needed to reproduce it."""
    about = {
        "command": " ".join(["agecli", *sys.argv[1:]]),
        "date": date.today().isoformat(),
        "agecli": __version__,
        "model": name,
        "faces": f"{result.name} of {result.data.resolve().name}",
    }
    return ModelReport(name, result.predictions, result.rows, result.leakage, result.data, about)


def write_page(path: Path, models: Sequence[ModelReport], comparison: Sequence[Mapping[str, Any]] = ()) -> None:
    """Write the report of one or several models to an HTML file that needs no other file and no network.

    comparison: the rows of `scoring.comparison.compare`, whose first model is the first of `models`
    Example: `write_page(Path("report.html"), [model_report("drf", result)])`
    """
    first = models[0]
    html = (
        _environment()
        .get_template("report.html.j2")
        .render(
            models=models,
            model_rows=[model.row() for model in models],
            comparison=comparison,
            figures=_figures(models),
            worst=_worst_faces(first),
            rates=[key for key in first.rows[0] if key[:4] in ("fpr_", "fnr_") and not key.endswith(("_low", "_high"))],
            any_small=any(row["small"] for model in models for row in model.rows),
            checked_kinds=("all", *SHOWN),
            group_columns=PAGE_GROUPS,
            model_columns=PAGE_MODELS,
            comparison_columns=PAGE_COMPARISON,
            nominal=_typeset(NOMINAL.replace(" ", "")),
            small=SMALL,
            style=Markup((TEMPLATES / "report.css").read_text(encoding="utf-8")),
        )
    )
    write_text(path, html.encode("utf-8", "backslashreplace").decode())  # names of files may be no UTF-8


def _environment() -> Environment:
    """Jinja2 with autoescaping, and the filters of the template.

    `key|heading`, `key|unit`, `row|value(key)` and `row|ci(key)` format columns; `number|count("face", "faces")` counts.
    A name that the template misspells is an error.
    """
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True
    )
    environment.filters |= {
        "ci": _interval,
        "count": lambda number, one, many: f"{number:,} {one if number == 1 else many}",
        "heading": _heading,
        "unit": lambda key: column(key).unit,
        "value": _value,
    }
    environment.tests["has_values"] = lambda key, rows: any(row.get(key) is not None for row in rows)
    return environment


def _heading(key: str) -> str:
    """The label of a column; a short one does not break over lines."""
    label = column(key).label
    return label.replace(" ", NO_BREAK_SPACE) if len(label) < 20 else label


def _value(row: Mapping[str, Any], key: str) -> str:
    """A value of a row as text; a dash if there is none."""
    value = row.get(key)
    if value is None:
        return "–"
    return value if isinstance(value, str) else _typeset(format_value(key, value))


def _interval(row: Mapping[str, Any], key: str) -> str:
    """The 95 % CI of a value: "84.1 to 89.0 %"; "" if there is none."""
    text = format_range(key, row) or ""
    return _typeset(text.replace("% to", " to"))


def _typeset(number: str) -> str:
    """A formatted number with a real minus sign, and a space before %."""
    return number.replace("%", f"{NO_BREAK_SPACE}%").replace("-", "−")


def _figures(models: Sequence[ModelReport]) -> dict[str, Any]:
    """The figures as data URIs. `group_errors` is "" if neither sex nor race is known."""
    predictions = {model.name: model.predictions for model in models}
    rows = {model.name: model.rows for model in models}
    known = any(row["by"] in ("sex", "race") for row in models[0].rows)
    return {
        "cs_curve": _svg(accuracy.cs_curve(predictions)),
        "error_by_age": _svg(accuracy.error_by_age(rows)),
        "predicted_against_true": [
            _svg(accuracy.predicted_against_true({name: some})) for name, some in predictions.items()
        ],
        "group_errors": _svg(accuracy.group_errors(rows)) if known else "",
        "risk_coverage": _svg(intervals.risk_coverage(predictions)),
        "reliability": _svg(intervals.reliability(predictions)),
        "coverage_by_age": _svg(intervals.coverage_by_age(rows)),
    }


def _worst_faces(model: ModelReport) -> list[FaceCard]:
    """The WORST faces with the largest absolute errors, largest first; each once, also if several folds tested it."""
    predictions = model.predictions
    worst: dict[str, int] = {}
    for i in np.argsort(-np.abs(predictions.error), kind="stable").tolist():
        worst.setdefault(predictions.samples[i].path, i)
        if len(worst) == WORST:
            break
    cards = []
    for path, i in worst.items():
        picture, error = _thumbnail(model.data / path)
        age, predicted = f"{predictions.samples[i].age:g}", f"{predictions.predicted[i]:.0f}"
        interval = span(predictions.low[i], predictions.high[i])
        cards.append(FaceCard(path, age, predicted, interval, picture, error))
    return cards


def _thumbnail(path: Path) -> tuple[str, str]:
    """A small JPEG as a data URI, and why there is none."""
    try:
        picture = read_picture(path)
    except UnreadableError as error:
        return "", str(error)
    picture.thumbnail((THUMBNAIL, THUMBNAIL))
    stream = io.BytesIO()
    picture.save(stream, "JPEG", quality=80, comment=b"")  # without the comment of the photo, which may be private
    return _data_uri(stream.getvalue(), "jpeg"), ""


def _svg(content: bytes) -> str:
    return _data_uri(content, "svg+xml")


def _data_uri(content: bytes, kind: str) -> str:
    return f"data:image/{kind};base64,{b64encode(content).decode()}"
