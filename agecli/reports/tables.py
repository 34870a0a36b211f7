"""Output of results: a text table for people, CSV or JSONL for programs, to a stream or a file."""

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
from agecli.reports.columns import column, format_range, format_value

TableRow = Mapping[str, Any]  # by column; None where a value is not known


@contextmanager
def destination(path: Path | None, stdout: TextIO) -> Iterator[TextIO]:
    """The stream to write a result to: `stdout` if `path` is None, else the file.

    A regular file appears only when all of it is written; a pipe or a device is written to directly.
    """
    if path is None:
        yield stdout
        return
    if is_stream(path):
        with path.open("w", encoding="utf-8", errors="surrogateescape", newline="") as file:
            yield file
        return
    with write_whole(path) as part, part.open("w", encoding="utf-8", errors="surrogateescape", newline="") as file:
        yield file


def write_rows(rows: Iterable[TableRow], columns: Sequence[str], form: str, stream: TextIO) -> None:
    """Write rows to a stream.

    rows: for CSV and JSONL each is written and flushed as soon as it comes; a table needs all of them first
    columns: keys of the rows, in order; missing ones are empty (null in JSONL)
    form: table, csv or jsonl
    """
    {"table": _table, "csv": _csv, "jsonl": _jsonl}[form](rows, columns, stream)


def _csv(rows: Iterable[TableRow], columns: Sequence[str], stream: TextIO) -> None:
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        cells = (row.get(name) for name in columns)
        writer.writerow(
            [json.dumps(cell) if isinstance(cell, list) else "" if cell is None else cell for cell in cells]
        )
        stream.flush()


def _jsonl(rows: Iterable[TableRow], columns: Sequence[str], stream: TextIO) -> None:
    for row in rows:
        stream.write(json.dumps({name: row.get(name) for name in columns}) + "\n")
        stream.flush()


def _table(rows: Iterable[TableRow], columns: Sequence[str], stream: TextIO) -> None:
    """Rounded, with the headings of `reports.columns`, without rows and columns that have no values."""
    from rich.console import Console  # imported here to keep `predict` quick
    from rich.table import Table

    shown = [row for row in rows if any(row.get(name) is not None for name in columns[1:])]
    table = Table(box=None, header_style="bold", pad_edge=False)
    names = [name for name in columns if any(row.get(name) is not None for row in shown)]
    for name in names:
        table.add_column(column(name).heading, justify="left" if name in (columns[0], "groups") else "right")
    for row in shown:
        table.add_row(*(format_value(name, row.get(name)) for name in names))
    console = Console(file=stream)
    console.width = max(console.width, Console(width=1000).measure(table).maximum)  # long lines are not cut
    console.print(table)


def with_ranges(row: TableRow) -> TableRow:
    """A row with its confidence intervals as text, for people: `mae_range` from `mae_low` and `mae_high`, …"""
    return {**row, **{f"{key}_range": format_range(key, row) for key in ("mae", "difference")}}


def write_ages(rows: Iterable[TableRow], form: str, columns: Sequence[str], stream: TextIO) -> None:
    """Write prediction records, each as soon as it comes.

    form: table, csv or jsonl. A table has the name of the photo last, since columns can't be aligned in advance; CSV has
    the box as four columns.
    columns: the fields of a record, in order
    """
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


YEARS, CELLS = 100, 25  # of the bar of a face: 4 years in each cell; the last cell also has all older years
BLOCKS = " ▁▂▃▄▅▆▇█"


def _age_table(rows: Iterable[TableRow], stream: TextIO) -> None:
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
    """A bar chart of a distribution in one line of text: `CELLS` characters, the most probable one at full height.

    distribution: the probability of each year from 0
    """
    cells = [0.0] * CELLS
    for year, p in enumerate(distribution):
        cells[min(year * CELLS // YEARS, CELLS - 1)] += p
    top = max(cells)
    return "".join(BLOCKS[math.ceil(p / top * (len(BLOCKS) - 1) - 0.3)] if p > 0.005 * top else " " for p in cells)


def _printable(bar: str, stream: TextIO) -> str:
    """The bar in ASCII if the stream's encoding has no block characters."""
    try:
        bar.encode(stream.encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return bar.translate(dict(zip(map(ord, BLOCKS), " .:-=+*#@", strict=True)))
    return bar
