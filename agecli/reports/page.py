"""The HTML report of an evaluation: one self-contained page, from the template templates/report.html.j2.

The template holds the text and the order of the sections; this module gives it rows, figures and faces. Headings and
number formats are those of `reports.columns`.
"""

from __future__ import annotations

import dataclasses
import io
import sys
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from agecli.core.ages import span
from agecli.core.files import file_hash, write_text
from agecli.core.version import __version__
from agecli.datasets.manifest import TABLES
from agecli.evaluation.conditions import failure_rates
from agecli.evaluation.seen import MOST_SEEN
from agecli.images.reading import UnreadableError, read_picture
from agecli.model.bundled import FOLDERS
from agecli.reports.check_tables import CHECK_KEYS, AgeChecks, age_checks
from agecli.reports.columns import (
    NOMINAL,
    PAGE_AVERAGES,
    PAGE_COMPARISON,
    PAGE_GAPS,
    PAGE_GROUPS,
    PAGE_MODELS,
    PAGE_SEEN,
    column,
    format_counts,
    format_range,
    format_value,
)
from agecli.reports.figures import accuracy, intervals
from agecli.reports.figures import age_checks as check_figures
from agecli.reports.rate_rows import main_rates
from agecli.scoring.gaps import largest_gaps
from agecli.scoring.groups import RATES, SMALL, MetricRow
from agecli.scoring.metrics import Predictions
from agecli.scoring.rates import Rate, rate_columns

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
    failures: Mapping[str, Rate] = field(default_factory=dict)  # of `evaluation.conditions.failure_rates`
    seen: float | None = (
        None  # share of photos that the model was trained, selected or calibrated on; None if not known
    )
    apart: Sequence[Mapping[str, Any]] = ()  # the metrics of seen and of unseen faces, if there are both
    shift: str = ""  # the shift alarm, if it spoke

    def row(self) -> dict[str, Any]:
        """The metrics over all faces, with `model`, `leakage` and the kind of `intervals`."""
        kind = "conformal" if self.predictions.calibrated else "uncalibrated quantiles"
        cells = self.rows[0]["nist_cells"] or None
        own = {"model": self.name, "seen": self.seen, "leakage": self.leakage, "intervals": kind, "nist_cells": cells}
        return {**self.rows[0], **own}

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
        **hashes(Path(result.model), result.data),
    }
    failures = failure_rates(result.data, len(result.broken))
    return ModelReport(
        name,
        result.predictions,
        result.rows,
        result.leakage,
        result.data,
        about,
        failures,
        result.seen,
        result.apart(),
        result.shift,
    )


def hashes(model: Path, data: Path) -> dict[str, str]:
    """SHA-256 of the model file, or of each checkpoint of a run, and of the table of the data folder; by what it is of."""
    found = {"SHA-256 of the model": file_hash(model)} if model.is_file() else {}
    for file in sorted(model.glob("fold-*/best.safetensors")):
        found[f"SHA-256 of {file.parent.name}"] = file_hash(file)
    tables = (data / name for name in TABLES)
    return found | {f"SHA-256 of {table.name}": file_hash(table) for table in tables if table.is_file()}


def write_page(path: Path, models: Sequence[ModelReport], comparison: Sequence[Mapping[str, Any]] = ()) -> None:
    """Write the report of one or several models to an HTML file that needs no other file and no network.

    comparison: the rows of `scoring.comparison.compare`, whose first model is the first of `models`
    Example: `write_page(Path("report.html"), [model_report("drf", result)])`
    """
    short = dict(zip((model.name for model in models), _short_names([model.name for model in models]), strict=True))
    models = [dataclasses.replace(model, name=short[model.name]) for model in models]
    comparison = [{**row, "model": short.get(row["model"], row["model"])} for row in comparison]
    first = models[0]
    checks = age_checks(first.predictions)
    html = (
        _environment()
        .get_template("report.html.j2")
        .render(
            models=models,
            names=[*short.values()],
            data=first.data.resolve().name,
            over=first.rows[0]["over"],
            ages=f"{first.predictions.age.min():g} to {first.predictions.age.max():g}",
            model_rows=[model.row() for model in models],
            comparison=comparison,
            figures=_figures(models, checks),
            checks=checks,
            main_rates=main_rates({key: first.rows[0][key] for key in rate_columns(RATES)}, first.failures),
            gaps=largest_gaps(first.predictions),
            worst=_worst_faces(first),
            rates=[key[:-3] for key in first.rows[0] if key[:4] in ("fpr_", "fnr_") and key.endswith("_of")],
            any_small=any(row["small"] for model in models for row in model.rows),
            checked_kinds=("all", *SHOWN),
            group_columns=PAGE_GROUPS,
            model_columns=PAGE_MODELS,
            seen_columns=PAGE_SEEN,
            most_seen=MOST_SEEN,
            average_columns=PAGE_AVERAGES,
            comparison_columns=PAGE_COMPARISON,
            gap_columns=PAGE_GAPS,
            check_columns=CHECK_KEYS,
            nominal=_typeset(NOMINAL.replace(" ", "")),
            small=SMALL,
            style=Markup((TEMPLATES / "report.css").read_text(encoding="utf-8")),
        )
    )
    write_text(path, html.encode("utf-8", "backslashreplace").decode())  # names of files may be no UTF-8


def _short_names(names: Sequence[str]) -> list[str]:
    """The last part of each path, as people say it; the paths as they are if these are not distinct."""
    short = ["agecli's default model" if Path(name).parent in FOLDERS else Path(name).name or name for name in names]
    return short if len(set(short)) == len(short) else [*names]


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
        "counts": lambda row, key: (format_counts(key, row) or "").removesuffix(" (few)"),
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


def _figures(models: Sequence[ModelReport], checks: AgeChecks) -> dict[str, Any]:
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
        **_check_figures(checks, rows),
    }


def _check_figures(checks: AgeChecks, rows: Mapping[str, list[MetricRow]]) -> dict[str, str]:
    """The figures of age checks of the first model; "" where the data has nobody below, or nobody above a legal age."""
    young = any(row["by"] == "year" for some in rows.values() for row in some)
    return {
        "false_accepts": _svg(check_figures.false_accepts(checks.curves)) if checks.curves else "",
        "refusals": _svg(check_figures.refusals(checks.costs)) if checks.costs else "",
        "error_by_year": _svg(check_figures.error_by_year(rows)) if young else "",
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
