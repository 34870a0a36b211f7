"""The report of an evaluation: one HTML page that needs nothing but itself."""

from __future__ import annotations

import html
import io
import sys
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from agecli.core.ages import span
from agecli.core.files import write_text
from agecli.core.version import __version__
from agecli.images.reading import UnreadableError, read_picture
from agecli.reports.figures import evaluation as plots
from agecli.reports.template import PAGE, STYLE
from agecli.scoring.groups import SMALL
from agecli.scoring.metrics import Predictions

if TYPE_CHECKING:
    from agecli.evaluation.evaluate import Result

WORST = 20  # faces
THUMBNAIL = 160  # pixels, of the longer side
Row = Mapping[str, Any]
FORMATS: dict[str, tuple[str, str]] = {  # how people want to read a column: its heading and its format
    "group": ("", "{}"),
    "model": ("model", "{}"),
    "images": ("faces", "{:,}"),
    "subjects": ("subjects", "{:,}"),
    "mae": ("MAE, years", "{:.2f}"),
    "cs5": ("CS@5", "{:.1%}"),
    "bias": ("bias, years", "{:+.2f}"),
    "coverage": ("in 90 % interval", "{:.1%}"),
    "width": ("its width, years", "{:.1f}"),
    "nll": ("NLL, nats", "{:.2f}"),
    "crps": ("CRPS, years", "{:.2f}"),
    "leakage": ("seen in training", "{:.1%}"),
    "intervals": ("intervals", "{}"),
    "difference": ("MAE minus that of the first", "{:+.2f}"),
    "p": ("p", "{:.3f}"),
}
GROUP_COLUMNS = ("group", "images", "subjects", "mae", "cs5", "bias", "coverage", "width")
MODEL_COLUMNS = ("model", "images", *GROUP_COLUMNS[3:], "nll", "crps", "leakage", "intervals")
COMPARISON_COLUMNS = ("model", "images", "mae", "cs5", "difference", "p")
SHOWN = ("decade", "sex", "race")  # kinds of groups; the others unfold


@dataclass(frozen=True)
class Evaluated:
    """One model, what it said of faces whose ages are known, and how good that was."""

    name: str  # no two models of a page have the same
    predictions: Predictions
    rows: list[dict[str, Any]]  # of `groups.breakdown`: all faces, then groups
    leakage: float | None  # the share of faces whose subject was seen in training, if that is known
    data: Path  # where the pictures are
    about: Mapping[str, str]  # what it takes to do it again: command, version, checkpoint, …

    def row(self) -> dict[str, Any]:
        kind = "calibrated" if self.predictions.calibrated else "plain quantiles"
        return {**self.rows[0], "model": self.name, "leakage": self.leakage, "intervals": kind}


def describe(name: str, result: Result) -> Evaluated:
    """What `evaluate` found of one model, with what it takes to do it again."""
    about = {
        "command": " ".join(["agecli", *sys.argv[1:]]),
        "date": date.today().isoformat(),
        "agecli": __version__,
        "model": name,
        "faces": f"{result.name} of {result.data.resolve().name}",
    }
    return Evaluated(name, result.predictions, result.rows, result.leakage, result.data, about)


def write_page(path: Path, evaluated: Sequence[Evaluated], comparison: Sequence[Row] = ()) -> None:
    """The report of one or several models; the others are compared with the first."""
    first, *others = evaluated
    names = [model.name for model in evaluated]
    listed = f"{', '.join(names[:-1])} and {names[-1]} tell" if others else f"{first.name} tells"
    sections = (
        _summary(first, who=f"<b>{_text(first.name)}</b>" if others else "it"),
        _models(evaluated, comparison) if others else "",
        _figures(evaluated),
        _groups(evaluated),
        _checks(evaluated),
        _worst_faces(first, _of(first, evaluated)),
        _about(evaluated),
    )
    title = _text(f"How well {listed} ages")
    write_text(path, PAGE.format(style=STYLE, title=title, sections="\n".join(filter(None, sections))))


def _of(model: Evaluated, evaluated: Sequence[Evaluated]) -> str:
    """For headings: whose it is, if that is a question."""
    return f" of {_text(model.name)}" if len(evaluated) > 1 else ""


def _summary(model: Evaluated, who: str) -> str:
    """The main numbers, in a sentence and as tiles, and what makes them doubtful."""
    row = model.row()
    faces = _count(row["images"], "face", "faces")
    people = f" of {_count(row['subjects'], 'person', 'people')}" if row["subjects"] else ""
    tiles = (
        ("mae", "Mean absolute error (MAE)", _span("mae", row)),
        ("cs5", "Off by at most 5 years (CS@5)", _span("cs5", row)),
        ("bias", "Bias, the mean error", "above 0: said too old"),
        ("images", "Faces", people.strip() or "whose they are is not known"),
        ("coverage", "True age in the 90&nbsp;% interval", _span("coverage", row)),
        ("width", "Width of that interval", "on average"),
        ("crps", "Error of the distribution (CRPS)", "lower is better"),
        ("nll", "Surprise at the true age (NLL)", "lower is better"),
    )
    units = {name: heading.partition(", ")[2] for name, (heading, _) in FORMATS.items()}
    cells = "".join(
        f"<div><dt>{label}</dt><dd><b>{_value(name, row)}</b> {units[name]}<small>{note}</small></dd></div>"
        for name, label, note in tiles
    )
    return (
        f"<p class=lead>On {faces}{people}, {who} is off by <b>{_value('mae', row)} years</b> on"
        f" average, and by at most 5 years for {_value('cs5', row)} of them.</p>{_seen(model.leakage)}"
        f"{CALIBRATED if model.predictions.calibrated else PLAIN}<dl class=tiles>{cells}</dl>"
        "<p class=soft>Ranges are 95&nbsp;% confidence intervals, by a bootstrap over people: the faces of one person"
        " fail together.</p>"
    )


def _seen(share: float | None, of: str = "") -> str:
    """Whether the numbers hold for new people."""
    if share is None:
        return "<p class=note>Whether the people were seen in training is not known.</p>"
    if share == 0:
        return "<p class=note>None of these people was seen in training.</p>"
    return (
        f"<p class=warning><b>⚠ {_format('leakage', share)} of the test faces{of} show people who were also seen in"
        " training.</b> A model recognises people it knows: expect larger errors than these for everybody else.</p>"
    )


def _models(evaluated: Sequence[Evaluated], comparison: Sequence[Row]) -> str:
    parts = [_seen(model.leakage, _of(model, evaluated)) for model in evaluated[1:] if model.leakage]
    parts.append(_table([model.row() for model in evaluated], MODEL_COLUMNS, "the models"))
    if comparison:
        parts.append(
            f"<h3>On the faces that all were tested on</h3>{_table(comparison, COMPARISON_COLUMNS, 'the comparison')}"
            "<p class=soft>Differences are paired by face, and their ranges by a bootstrap over people. p is small where"
            " the sign of the difference is sure.</p>"
        )
    return f"<section><h2>The models</h2>{''.join(parts)}</section>"


def _figures(evaluated: Sequence[Evaluated]) -> str:
    said = {model.name: model.predictions for model in evaluated}
    rows = {model.name: model.rows for model in evaluated}
    cards = (
        _card(
            "Cumulative score", plots.cs_curve(said), "The share of faces that are off by at most so many years (≤)."
        ),
        _card(
            "Error by age",
            plots.error_by_age(rows),
            "Above: mean |error|, with 95&nbsp;% confidence. Below: bias; dots above zero were said too old, dots"
            f" below too young. {HOLLOW}",
        ),
        _card(
            "Error of the most certain faces",
            plots.risk_coverage(said),
            "Mean |error| if only the faces with the narrowest intervals are answered. Where the curve falls to the"
            " left, wide intervals mark the hard faces.",
        ),
        *(
            _card(
                f"Predictions{_of(model, evaluated)} against true ages",
                plots.predicted_against_true({model.name: model.predictions}),
                "Each dot is a face. Where the mean leaves the diagonal, ages are drawn towards the middle.",
            )
            for model in evaluated
        ),
        _card(
            "Reliability of the intervals",
            plots.reliability(said),
            "How often intervals hold the true age, against how often they should. Below the diagonal the distributions"
            " are too sure of themselves, above it too cautious. The star is the interval that agecli prints.",
        ),
        _card(
            "The 90&nbsp;% interval by age",
            plots.coverage_by_age(rows),
            f"How often the printed interval holds the true age. Dots should be on the dashed line. {HOLLOW}",
        ),
    )
    return f"<section><h2>Figures</h2><div class=figures>{''.join(cards)}</div></section>"


def _card(name: str, svg: bytes, caption: str) -> str:
    return f"<figure>{_picture(svg, 'svg+xml', name)}<figcaption><b>{name}.</b> {caption}</figcaption></figure>"


def _groups(evaluated: Sequence[Evaluated]) -> str:
    """A table for each kind of group, and a figure; crossings, and the models after the first, unfold."""
    first, *others = evaluated
    tables = _kinds(first)
    people = "".join(tables.pop(by, "") for by in ("sex", "race"))
    if people:
        name, rows = "Error by group", {model.name: model.rows for model in evaluated}
        caption = f"Mean |error| with 95&nbsp;% confidence; dotted: of all faces. {HOLLOW}"
        people = f"<div class=beside>{_card(name, plots.group_errors(rows), caption)}<div>{people}</div></div>"
    parts = [tables.pop("decade", ""), people or "<p>Sex and race of these faces are not known.</p>", *tables.values()]
    if any(row["small"] for model in evaluated for row in model.rows):
        parts.append(f"<p class=soft>{FEW} fewer than {SMALL} people: a hint at best.</p>")
    parts += [_folded(f"Groups{_of(model, evaluated)}", "".join(_kinds(model).values())) for model in others]
    return f"<section><h2>Groups{_of(first, evaluated)}</h2>{''.join(parts)}</section>"


def _kinds(model: Evaluated) -> dict[str, str]:
    """By what the faces are grouped, and the table."""
    kinds: dict[str, list[Row]] = {}
    for row in model.rows[1:]:
        kinds.setdefault(row["by"], []).append(row)
    tables = {}
    for by, rows in kinds.items():
        name = _text(f"By {by.replace(' x ', ' and ').replace('decade', 'age')}")
        table = _table(rows, GROUP_COLUMNS, name)
        tables[by] = f"<h3>{name}</h3>{table}" if by in SHOWN else _folded(name, table)
    return tables


def _folded(summary: str, inside: str) -> str:
    return f"<details><summary>{summary}</summary>{inside}</details>"


def _checks(evaluated: Sequence[Evaluated]) -> str:
    """Age checks, if any were asked for."""
    first = evaluated[0].rows[0]
    rates = [name for name in first if name[:4] in ("fpr_", "fnr_") and not name.endswith(("_low", "_high"))]
    if not rates:
        return ""
    parts = []
    for model in evaluated:
        rows = [row for row in model.rows if row["by"] in ("all", *SHOWN)]
        table = _table(rows, ("group", "images", *rates), f"age checks{_of(model, evaluated)}")
        parts.append(table if model is evaluated[0] else _folded(f"Age checks{_of(model, evaluated)}", table))
    return (
        f"<section><h2>Age checks{_of(evaluated[0], evaluated)}</h2><p class=soft>Each is a share of the faces whose true"
        f" age is as the heading begins; – where there are none.</p>{''.join(parts)}</section>"
    )


def _worst_faces(model: Evaluated, of: str) -> str:
    said = model.predictions
    worst: dict[str, int] = {}  # each face once, also if several folds tested it
    for i in np.argsort(-np.abs(said.error), kind="stable").tolist():
        worst.setdefault(said.samples[i].path, i)
        if len(worst) == WORST:
            break
    cards = "".join(
        f"<figure>{_face(model.data / said.samples[i].path, said.samples[i].age)}<figcaption>"
        f"<b>{said.samples[i].age:g}</b>, said <b>{said.predicted[i]:.0f}</b>"
        f"<small>{span(said.low[i], said.high[i])}</small><small class=path>{_text(said.samples[i].path)}</small></figcaption></figure>"
        for i in worst.values()
    )
    return (
        f"<section><h2>The {_count(len(worst), 'worst face', 'worst faces')}{of}</h2><p class=soft>True age, what was said, and its 90&nbsp;%"
        " interval. A wrong label is a common reason. This page holds these pictures: pass it on only to those who may"
        f" see them.</p><div class=faces>{cards}</div></section>"
    )


def _face(path: Path, age: float) -> str:
    try:
        picture = read_picture(path)
    except UnreadableError as error:
        return f"<div class=missing>no picture: {_text(error)}</div>"
    picture.thumbnail((THUMBNAIL, THUMBNAIL))
    stream = io.BytesIO()
    picture.save(stream, "JPEG", quality=80, comment=b"")  # a photo's own comment is nobody's business
    return _picture(stream.getvalue(), "jpeg", f"a face, {age:g} years old")


def _about(evaluated: Sequence[Evaluated]) -> str:
    parts = []
    for model in evaluated:
        facts = "".join(f"<dt>{_text(name)}</dt><dd>{_text(value)}</dd>" for name, value in model.about.items())
        parts.append(("" if len(evaluated) == 1 else f"<h3>{_text(model.name)}</h3>") + f"<dl class=about>{facts}</dl>")
    return f"<section><h2>How this was made</h2>{''.join(parts)}</section>"


def _table(rows: Sequence[Row], columns: Sequence[str], name: str) -> str:
    """Columns that say nothing are left out. A wide table scrolls in a box of its own."""
    shown = [column for column in columns if any(row.get(column) is not None for row in rows)]
    head = "".join(f"<th scope=col>{_heading(column)}</th>" for column in shown)
    lines = "".join(f"<tr{' class=few' if row.get('small') else ''}>{''.join(_cells(row, shown))}</tr>" for row in rows)
    return (
        f'<div class=scroll tabindex=0 role=region aria-label="{_text(name)}"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{lines}</tbody></table></div>"
    )


def _cells(row: Row, columns: Sequence[str]) -> Iterator[str]:
    mark = f" {FEW}" if row.get("small") else ""
    yield f"<th scope=row>{_value(columns[0], row)}{mark}</th>"
    for column in columns[1:]:
        span = _span(column, row)
        yield f"<td>{_value(column, row)}{f'<small>{span}</small>' if span else ''}</td>"


def _heading(column: str) -> str:
    if column in FORMATS:
        heading = FORMATS[column][0]
        return heading.replace(" ", "&nbsp;") if len(heading) < 20 else heading  # a short one stays on its line
    rate, legal, *asked = column.split("_")  # of an age check
    limit = asked[0] if asked else legal
    return (
        f"younger than {legal}, taken for {limit} or older"
        if rate == "fpr"
        else f"{legal} or older, taken for younger than {limit}"
    )


def _value(column: str, row: Row) -> str:
    return _format(column, row.get(column))


def _span(column: str, row: Row) -> str:
    """A 95 % confidence interval, if there is one."""
    low, high = (row.get(f"{column}_{end}") for end in ("low", "high"))
    if low is None or high is None:
        return ""
    return f"{_format(column, low).removesuffix('&nbsp;%')} to {_format(column, high)}"


def _format(column: str, value: Any) -> str:
    if value is None:
        return "–"
    form = FORMATS[column][1] if column in FORMATS else "{:.1%}"
    text = form.format(value)
    return _text(text) if isinstance(value, str) else text.replace("%", "&nbsp;%").replace("-", "−")


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def _text(value: object) -> str:
    """Safe to show. Names of files are bytes, and some are no text: those would not go into a file of UTF-8."""
    return html.escape(str(value).encode("utf-8", "backslashreplace").decode())


def _picture(content: bytes, kind: str, alt: str) -> str:
    return f'<img alt="{alt}" src="data:image/{kind};base64,{b64encode(content).decode()}">'


CALIBRATED = (
    "<p class=note>The 90&nbsp;% intervals are calibrated (conformal) on faces that the model did not learn from.</p>"
)
PLAIN = (
    "<p class=note>The 90&nbsp;% intervals are <b>not calibrated</b>: they are plain quantiles of the mixture that the"
    " forest predicts.</p>"
)
HOLLOW = f"A hollow dot stands for fewer than {SMALL} people."
FEW = '<span class=mark title="few faces">⚠</span>'
