"""Results for people and for programs: a table, CSV or JSONL, on a stream or in a file."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from agecli.core.ages import span
from agecli.core.files import is_stream, write_whole

FORMATS = ("table", "csv", "jsonl")
Row = Mapping[str, Any]


@contextmanager
def destination(path: Path | None, stdout: TextIO) -> Iterator[TextIO]:
    """The stream, or a file that appears when all of it is written; a pipe or a device gets it at once."""
    if path is None:
        yield stdout
        return
    if is_stream(path):
        with path.open("w", encoding="utf-8", errors="surrogateescape", newline="") as file:
            yield file
        return
    with write_whole(path) as part, part.open("w", encoding="utf-8", errors="surrogateescape", newline="") as file:
        yield file


def write_rows(rows: Iterable[Row], columns: Sequence[str], form: str, stream: TextIO) -> None:
    """One row after the other, each as soon as it is there, except in a table."""
    {"table": _table, "csv": _csv, "jsonl": _jsonl}[form](rows, columns, stream)


def _csv(rows: Iterable[Row], columns: Sequence[str], stream: TextIO) -> None:
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        cells = (row.get(name) for name in columns)
        writer.writerow(
            [json.dumps(cell) if isinstance(cell, list) else "" if cell is None else cell for cell in cells]
        )
        stream.flush()


def _jsonl(rows: Iterable[Row], columns: Sequence[str], stream: TextIO) -> None:
    for row in rows:
        stream.write(json.dumps({name: row.get(name) for name in columns}) + "\n")
        stream.flush()


HEADINGS: dict[str, tuple[str, str]] = {  # how people want to read a column: its name and its format
    "mae": ("MAE", "{:.2f}"),
    "mae_range": ("95 % sure", "{}"),
    "difference": ("against the first", "{:+.2f}"),
    "against": ("against the reference", "{:+.2f}"),
    "difference_range": ("95 % sure", "{}"),
    "p": ("p", "{:.3f}"),
    "nll": ("NLL", "{:.2f}"),
    "crps": ("CRPS", "{:.2f}"),
    "youngest": ("from", "{:.0f}"),
    "mean_age": ("mean age", "{:.1f}"),
    "oldest": ("to", "{:.0f}"),
    "cs5": ("CS@5", "{:.1%}"),
    "bias": ("bias", "{:+.2f}"),
    "coverage": ("in 90 % interval", "{:.1%}"),
    "width": ("its width", "{:.1f}"),
    "label": ("", "{}"),
    "paper_mae": ("paper's MAE", "{:.2f}"),
    "paper_cs5": ("its CS@5", "{:.1%}"),
    "leakage": ("seen in training", "{:.0%}"),
}


def _table(rows: Iterable[Row], columns: Sequence[str], stream: TextIO) -> None:
    """For people: rounded, and without rows and columns that say nothing."""
    from rich.console import Console  # here, because `predict` has no time for it
    from rich.table import Table

    shown = [row for row in rows if any(row.get(name) is not None for name in columns[1:])]
    table = Table(box=None, header_style="bold", pad_edge=False)
    names = [name for name in columns if any(row.get(name) is not None for row in shown)]
    for name in names:
        table.add_column(
            HEADINGS.get(name, (name, ""))[0], justify="left" if name in (columns[0], "groups") else "right"
        )
    for row in shown:
        table.add_row(*(_cell(name, row.get(name)) for name in names))
    console = Console(file=stream)
    console.width = max(
        console.width, Console(width=1000).measure(table).maximum
    )  # a long line is better than a cut one
    console.print(table)


RANGES = {"mae": "{:.2f}", "difference": "{:+.2f}"}  # numbers that have a confidence interval


def with_ranges(row: Row) -> Row:
    """The ends of confidence intervals as one text, for people."""
    ranges = {}
    for name, form in RANGES.items():
        ends = row.get(f"{name}_low"), row.get(f"{name}_high")
        ranges[f"{name}_range"] = None if None in ends else " to ".join(form.format(end) for end in ends)
    return {**row, **ranges}


def _cell(name: str, value: Any) -> str:
    if value is None:
        return ""
    if name.startswith(("fpr_", "fnr_")):
        return f"{value:.1%}"
    return HEADINGS[name][1].format(value) if name in HEADINGS else str(value)


MAIN_COLUMNS = ("images", "mae", "mae_range", "cs5", "bias", "coverage", "width", "nll", "crps", "leakage")


def write_evaluation(
    results: Sequence[Any],
    wholes: Mapping[str, Any],
    comparison: Sequence[Row],
    challenge: Sequence[float],
    form: str,
    stream: TextIO,
) -> None:
    """What `evaluate` found: every number for programs; for people the main ones, groups, and how models compare."""
    from agecli.scoring import groups
    from agecli.scoring.metrics import METRIC_COLUMNS

    several = len(wholes) > 1
    rows = [
        {**result.row(), "model": f"{result.model} {result.name}" if several else result.name} for result in results
    ]
    for name, whole in wholes.items():
        if whole.name == "pooled":
            rows.append({**whole.row(), "model": f"{name} pooled" if several else "pooled"})
    checks = [name for name in groups.columns(challenge) if name.startswith(("fpr_", "fnr_"))]
    if form != "table":
        if several:
            more = {row["model"]: row for row in comparison}
            rows += [{**row, "model": f"{name} compared"} for name, row in more.items()]
        names = ("model", *METRIC_COLUMNS, *groups.LIMITS, *checks, "leakage", *(COMPARED if several else ()))
        write_rows(rows, names, form, stream)
        return
    rates = [name for name in checks if not name.endswith(("_low", "_high"))]
    write_rows([with_ranges(row) for row in rows], ("model", *MAIN_COLUMNS, *rates), form, stream)
    if several:
        stream.write("\non the faces that all of them were tested on, paired:\n")
        write_rows(
            [with_ranges(row) for row in comparison],
            ("model", "images", "mae", "mae_range", "cs5", "difference", "difference_range", "p"),
            form,
            stream,
        )
    for whole in wholes.values():
        shown = [with_ranges(row) for row in whole.rows if row["by"] in ("decade", "sex", "race", "sex x race")]
        shown = [{**row, "group": f"{row['group']}{' (few)' if row['small'] else ''}"} for row in shown]
        stream.write(f"\n{whole.model}, by group:\n" if several else "\nby group:\n")
        write_rows(shown, ("group", *MAIN_COLUMNS[:-1], *rates), form, stream)


COMPARED = ("difference", "difference_low", "difference_high", "p")


def write_ages(rows: Iterable[Row], form: str, columns: Sequence[str], stream: TextIO) -> None:
    """Prediction records. In a table the name comes last, so that a line can be printed before the next is known."""
    if form == "csv":
        flat = [name for name in columns if name != "box"]
        place = columns.index("box")
        names = [*flat[:place], "box_x", "box_y", "box_w", "box_h", *flat[place:]]
        _csv(
            ({**row, **dict(zip(names[place : place + 4], row["box"] or (), strict=False))} for row in rows),
            names,
            stream,
        )
    elif form == "jsonl":
        _jsonl(rows, columns, stream)
    else:
        _age_table(rows, stream)


YEARS, CELLS = 100, 25  # what the bar of a face shows: 4 years in each cell, and the last one has all that is older
BLOCKS = " ▁▂▃▄▅▆▇█"


def _age_table(rows: Iterable[Row], stream: TextIO) -> None:
    scale = "".join(f"{year:<5}" for year in range(0, YEARS, 20))
    stream.write(f"{'age':<5}  {'90 % interval':<13}  {scale}  photo\n")
    for row in rows:
        at = f" at {row['time']:g} s" if row["time"] is not None else ""
        if row["status"] == "ok":
            whole = span(row["low"], row["high"]) + (" ?" if row.get("abstain") else "")
            face = f", face {row['face']}" if row["face"] else ""
            bar = age_bar(row["distribution"]) if row.get("distribution") else " " * CELLS
            stream.write(f"{row['age']:<5.1f}  {whole:<13}  {_printable(bar, stream)}  {row['source']}{at}{face}\n")
        else:
            stream.write(f"{'-':<5}  {'-':<13}  {'':<{CELLS}}  {row['source']}{at}: {row['error']}\n")
        stream.flush()


def age_bar(distribution: Sequence[float]) -> str:
    """The probabilities of the years as a small picture of letters, the likeliest years full height."""
    cells = [0.0] * CELLS
    for year, p in enumerate(distribution):
        cells[min(year * CELLS // YEARS, CELLS - 1)] += p
    top = max(cells)
    return "".join(BLOCKS[math.ceil(p / top * (len(BLOCKS) - 1) - 0.3)] if p > 0.005 * top else " " for p in cells)


def _printable(bar: str, stream: TextIO) -> str:
    """For terminals that know no blocks."""
    try:
        bar.encode(stream.encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return bar.translate(dict(zip(map(ord, BLOCKS), " .:-=+*#@", strict=True)))
    return bar
