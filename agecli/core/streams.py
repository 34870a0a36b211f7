"""Rows on text streams, as CSV, JSON lines or a JSON array: each is written as soon as it is known."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from agecli.core.cells import csv_line, defused
from agecli.core.files import is_stream, write_whole

Row = Mapping[str, Any]


@contextmanager
def destination(path: Path | None, stdout: TextIO) -> Iterator[TextIO]:
    """A text stream to write to: `stdout` if there is no path, else the file.

    A regular file appears under its name when the block ends without an error; pipes and devices are written directly.
    File names that are not UTF-8 are written back as they were.

        with destination(Path("ages.csv"), sys.stdout) as file:
            file.write("age\\n")
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


def stream_csv(
    rows: Iterable[Row], columns: Sequence[str], stream: TextIO, delimiter: str = ",", safe: bool = False
) -> None:
    """A header and a line per row. Missing values are empty cells; lists are JSON in one cell.

    safe: text that a spreadsheet would run as a formula gets an apostrophe in front (`defused`).
    """
    stream.write(csv_line(columns, delimiter))
    for row in rows:
        cells = (row.get(name) for name in columns)
        stream.write(csv_line([defused(cell) if safe else cell for cell in cells], delimiter))
        stream.flush()


def stream_jsonl(rows: Iterable[Row], columns: Sequence[str], stream: TextIO) -> None:
    """A JSON object per row, with these columns in this order; missing values are null."""
    for row in rows:
        stream.write(json.dumps({name: row.get(name) for name in columns}) + "\n")
        stream.flush()


def stream_json(rows: Iterable[Row], columns: Sequence[str], stream: TextIO) -> None:
    """A JSON array with an object per row, one on each line; `[]` if there are none.

    The array is closed after the last row only, so that the output of an interrupted command can't be taken for whole.
    """
    before = "[\n"
    for row in rows:
        stream.write(before + json.dumps({name: row.get(name) for name in columns}))
        stream.flush()
        before = ",\n"
    stream.write("[]\n" if before == "[\n" else "\n]\n")
    stream.flush()
