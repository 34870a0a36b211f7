"""Output of results: a text table for people, CSV or JSONL for programs, to a stream or a file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TextIO

from agecli.core.display import visible
from agecli.core.streams import destination as destination
from agecli.core.streams import stream_csv, stream_jsonl
from agecli.reports.columns import column, format_counts, format_range, format_value

TableRow = Mapping[str, Any]  # by column; None where a value is not known


def write_rows(rows: Iterable[TableRow], columns: Sequence[str], form: str, stream: TextIO) -> None:
    """Write rows to a stream.

    rows: for CSV and JSONL each is written and flushed as soon as it comes; a table needs all of them first
    columns: keys of the rows, in order; missing ones are empty (null in JSONL)
    form: table, csv or jsonl
    """
    {"table": _table, "csv": stream_csv, "jsonl": stream_jsonl}[form](rows, columns, stream)


def _table(rows: Iterable[TableRow], columns: Sequence[str], stream: TextIO) -> None:
    """Rounded, with the headings of `reports.columns`, without rows and columns that have no values."""
    from rich.console import Console  # imported here to keep `predict` quick
    from rich.table import Table
    from rich.text import Text

    shown = [row for row in rows if any(row.get(name) is not None for name in columns[1:])]
    table = Table(box=None, header_style="bold", pad_edge=False)
    names = [name for name in columns if any(row.get(name) is not None for row in shown)]
    for name in names:
        table.add_column(column(name).heading, justify="left" if name in (columns[0], "groups") else "right")
    for row in shown:
        table.add_row(*(Text(visible(format_value(name, row.get(name)))) for name in names))  # no markup in names
    console = Console(file=stream)
    console.width = max(console.width, Console(width=1000).measure(table).maximum)  # long lines are not cut
    console.print(table)


def spread_row(row: TableRow) -> dict[str, Any]:
    """A row of standard deviations for people: no number of faces, which has none, and no sign before that of the bias."""
    bias = row.get("bias")
    return {**row, "images": None, "leakage": None, "bias": None if bias is None else f"{bias:.2f}"}


def with_ranges(row: TableRow) -> TableRow:
    """A row with its confidence intervals and counts as text, for people: `mae_range` from `mae_low` and `mae_high`, …"""
    keys = [key.removesuffix("_low") for key in row if key.endswith("_low")]
    ranges = {f"{key}_range": (format_range(key, row) or "").replace("% to", " to") or None for key in keys}
    return {**row, **ranges, **{f"{key}_counts": format_counts(key, row) for key in keys}}
