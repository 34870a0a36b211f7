"""Prediction records as files: JSON, JSON lines, CSV, TSV, parquet, or a table with a bar of each age distribution."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TextIO

from agecli.core.ages import span
from agecli.core.display import visible
from agecli.core.errors import InputError
from agecli.core.extras import require
from agecli.core.files import is_stream
from agecli.core.flat_records import flat_columns, flat_row
from agecli.core.streams import Row, stream_csv, stream_json, stream_jsonl
from agecli.scaling.places import Place

FORMATS = ("table", "csv", "tsv", "json", "jsonl", "parquet")
ENDINGS = FORMATS[1:]  # of files, without the dot; a table has none of its own
DELIMITERS = {"csv": ",", "tsv": "\t"}
BAR_YEARS, BAR_CELLS = 100, 25  # 4 years per character; the last one has all that is older
BLOCKS = " ▁▂▃▄▅▆▇█"
ASCII_BLOCKS = " .:-=+*#@"


def choose_format(wanted: str | None, path: Place | None) -> str:
    """The format of an output: the one that is wanted, else by the ending of the file, else JSON lines.

    wanted: a name in FORMATS, or None;   path: the file; None for a stream.
    A file without an ending, a pipe or a device has any format. Raises InputError for an unknown format or ending, and
    for an ending that belongs to another format than the one wanted.

    >>> choose_format(None, Path("ages.parquet"))
    'parquet'
    """
    if wanted is not None and wanted not in FORMATS:
        raise InputError(f"unknown format `{wanted}`", hint=f"choose one of: {', '.join(FORMATS)}")
    ending = path.suffix.lower() if path and not (isinstance(path, Path) and is_stream(path)) else ""
    by_ending = ending[1:] if ending[1:] in ENDINGS else None
    known = ", ".join(f".{name}" for name in ENDINGS)
    if ending and by_ending is None and wanted is None:
        raise InputError(
            f"{path}: unknown ending `{path.suffix if path else ''}`",
            hint=f"the known ones are {known}; with --format, as in --format csv, the file may have any other",
        )
    if wanted and by_ending and wanted != by_ending:
        raise InputError(
            f"{path} ends as {by_ending}, but --format is {wanted}",
            hint=f"omit --format, or choose an ending that fits it (known ones: {known})",
        )
    return wanted or by_ending or "jsonl"


def check_destination(file_format: str, stream: TextIO | None, safe_csv: bool) -> None:
    """Raises InputError if a format can't go to this stream (None: a file), MissingError if its extra is not installed."""
    if safe_csv and file_format not in DELIMITERS:
        raise InputError(
            f"--safe-csv has no effect on {file_format}", hint="use it with --format csv or tsv, or omit it"
        )
    if file_format != "parquet":
        return
    require("pyarrow", needed_by="--format parquet")
    if stream is not None and (stream.isatty() or not hasattr(stream, "buffer")):
        raise InputError("parquet is a binary format", hint="name a file: --output ages.parquet")


def write_records(
    rows: Iterable[Row], file_format: str, columns: Sequence[str], stream: TextIO, safe_csv: bool = False
) -> None:
    """Write records, given as `Record.row()`, each as soon as it is known; parquet in groups of rows.

    file_format: a name in FORMATS;   columns: names of the fields, in order, for all but the table. CSV, TSV and parquet
    have four columns for the box: box_x, box_y, box_w and box_h. The table shows `distribution`, where a record has it,
    as a bar.   stream: for parquet, one with a binary `buffer`.   safe_csv: see `core.streams.defused`.
    """
    if file_format in DELIMITERS:
        stream_csv(map(flat_row, rows), flat_columns(columns), stream, DELIMITERS[file_format], safe_csv)
    elif file_format == "jsonl":
        stream_jsonl(rows, columns, stream)
    elif file_format == "json":
        stream_json(rows, columns, stream)
    elif file_format == "parquet":
        from agecli.core.parquet_records import write_parquet  # imports pyarrow

        write_parquet(rows, columns, stream.buffer)
    else:
        _write_table(rows, stream)


def _write_table(rows: Iterable[Row], stream: TextIO) -> None:
    """The file name is the last column, so no column width depends on records that are not known yet."""
    scale = "".join(f"{year:<5}" for year in range(0, BAR_YEARS, 20))
    stream.write(f"{'age':<5}  {'90 % interval':<13}  {scale}  photo\n")
    for row in rows:
        name = visible(row["source"]) + _place(row)
        if row["status"] == "ok":
            interval = span(row["low"], row["high"]) + (" ?" if row.get("abstain") else "")
            bar = age_bar(row["distribution"]) if row.get("distribution") else " " * BAR_CELLS
            bar = _encodable(bar, stream)
            check = f" ({row['decision']}: P({row['over']:g}+) {row['p_over']:.0%})" if row.get("decision") else ""
            stream.write(f"{row['age']:<5.1f}  {interval:<13}  {bar}  {name}{check}\n")
        else:
            stream.write(f"{'-':<5}  {'-':<13}  {'':<{BAR_CELLS}}  {name}: {visible(row['error'])}\n")
        stream.flush()


def _place(row: Row) -> str:
    """Where in an input a face is: its number in a photo, the time in a video, or when a person was seen."""
    if row.get("frames") is not None:
        return f", person {row['track']}: {row['frames']} frame(s), {row['first']:g} to {row['last']:g} s"
    time = f" at {row['time']:g} s" if row["time"] is not None else ""
    if row.get("track") is not None:
        return f"{time}, person {row['track']}"
    return time + (f", face {row['face']}" if row["face"] else "")


def age_bar(distribution: Sequence[float]) -> str:
    """A histogram in block characters: 25 cells of 4 years each, scaled to the highest.

    distribution: (A,), the probability of each age in whole years from 0 on.   Example: `age_bar(record.distribution)`
    """
    cells = [0.0] * BAR_CELLS
    for year, p in enumerate(distribution):
        cells[min(year * BAR_CELLS // BAR_YEARS, BAR_CELLS - 1)] += p
    top = max(cells)
    return "".join(BLOCKS[math.ceil(p / top * (len(BLOCKS) - 1) - 0.3)] if p > 0.005 * top else " " for p in cells)


def _encodable(bar: str, stream: TextIO) -> str:
    """The bar in ASCII characters if the stream's encoding has no block characters."""
    try:
        bar.encode(stream.encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return bar.translate(dict(zip(map(ord, BLOCKS), ASCII_BLOCKS, strict=True)))
    return bar
