"""Prediction records as text: JSON lines, CSV, or a table with a bar of each age distribution."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TextIO

from agecli.core.ages import span
from agecli.core.streams import Row, stream_csv, stream_jsonl

FORMATS = ("table", "csv", "jsonl")
BAR_YEARS, BAR_CELLS = 100, 25  # 4 years per character; the last one has all that is older
BLOCKS = " ▁▂▃▄▅▆▇█"
ASCII_BLOCKS = " .:-=+*#@"


def write_records(rows: Iterable[Row], file_format: str, columns: Sequence[str], stream: TextIO) -> None:
    """Write records, given as `Record.row()`, each as soon as it is known.

    file_format: table, csv or jsonl;   columns: names of the fields for csv and jsonl, in order. CSV has four columns
    for the box: box_x, box_y, box_w and box_h. The table shows `distribution`, where a record has it, as a bar.
    """
    if file_format == "csv":
        place = columns.index("box")
        box = ("box_x", "box_y", "box_w", "box_h")
        flat = ({**row, **dict(zip(box, row["box"] or (), strict=False))} for row in rows)
        stream_csv(flat, (*columns[:place], *box, *columns[place + 1 :]), stream)
    elif file_format == "jsonl":
        stream_jsonl(rows, columns, stream)
    else:
        _write_table(rows, stream)


def _write_table(rows: Iterable[Row], stream: TextIO) -> None:
    """The file name is the last column, so no column width depends on records that are not known yet."""
    scale = "".join(f"{year:<5}" for year in range(0, BAR_YEARS, 20))
    stream.write(f"{'age':<5}  {'90 % interval':<13}  {scale}  photo\n")
    for row in rows:
        time = f" at {row['time']:g} s" if row["time"] is not None else ""
        if row["status"] == "ok":
            interval = span(row["low"], row["high"]) + (" ?" if row.get("abstain") else "")
            face = f", face {row['face']}" if row["face"] else ""
            bar = age_bar(row["distribution"]) if row.get("distribution") else " " * BAR_CELLS
            bar = _encodable(bar, stream)
            check = f" ({row['decision']}: P({row['over']:g}+) {row['p_over']:.0%})" if row.get("decision") else ""
            stream.write(f"{row['age']:<5.1f}  {interval:<13}  {bar}  {row['source']}{time}{face}{check}\n")
        else:
            stream.write(f"{'-':<5}  {'-':<13}  {'':<{BAR_CELLS}}  {row['source']}{time}: {row['error']}\n")
        stream.flush()


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
