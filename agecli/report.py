"""Results for people and for programs: a table, CSV or JSONL, on a stream or in a file."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console
from rich.table import Table

from agecli.files import write_whole

FORMATS = ("table", "csv", "jsonl")
Row = Mapping[str, Any]


@contextmanager
def destination(path: Path | None, stdout: TextIO) -> Iterator[TextIO]:
    """The stream, or a file that appears when all of it is written."""
    if path is None:
        yield stdout
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
        writer.writerow(["" if row.get(name) is None else row[name] for name in columns])
        stream.flush()


def _jsonl(rows: Iterable[Row], columns: Sequence[str], stream: TextIO) -> None:
    for row in rows:
        stream.write(json.dumps({name: row.get(name) for name in columns}) + "\n")
        stream.flush()


HEADINGS: dict[str, tuple[str, str]] = {  # how people want to read a column: its name and its format
    "mae": ("MAE", "{:.2f}"),
    "cs5": ("CS@5", "{:.1%}"),
    "bias": ("bias", "{:+.2f}"),
    "coverage": ("in 90 % interval", "{:.1%}"),
    "width": ("its width", "{:.1f}"),
    "leakage": ("seen in training", "{:.0%}"),
}


def _table(rows: Iterable[Row], columns: Sequence[str], stream: TextIO) -> None:
    """For people: rounded, and without rows and columns that say nothing."""
    shown = [row for row in rows if any(row.get(name) is not None for name in columns[1:])]
    table = Table(box=None, header_style="bold", pad_edge=False)
    names = [name for name in columns if any(row.get(name) is not None for row in shown)]
    for name in names:
        table.add_column(HEADINGS.get(name, (name, ""))[0], justify="left" if name == columns[0] else "right")
    for row in shown:
        table.add_row(*(_cell(name, row.get(name)) for name in names))
    Console(file=stream, soft_wrap=True).print(table)


def _cell(name: str, value: Any) -> str:
    if value is None:
        return ""
    return HEADINGS[name][1].format(value) if name in HEADINGS else str(value)


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
        stream.write(f"{'age':<5}  {'90 % interval':<13}  {'std':<4}  photo\n")
        for row in rows:
            if row["status"] == "ok":
                span = f"{row['low']:.0f} to {row['high']:.0f}"
                stream.write(f"{row['age']:<5.1f}  {span:<13}  {row['std']:<4.1f}  {row['source']}\n")
            else:
                stream.write(f"{'-':<5}  {'-':<13}  {'-':<4}  {row['source']}: {row['error']}\n")
            stream.flush()
