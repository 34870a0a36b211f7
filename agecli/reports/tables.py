"""Results for people and for programs: a table, CSV or JSONL, on a stream or in a file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TextIO

from agecli.core.streams import Row, stream_csv, stream_jsonl
from agecli.core.streams import destination as destination

FORMATS = ("table", "csv", "jsonl")


def write_rows(rows: Iterable[Row], columns: Sequence[str], form: str, stream: TextIO) -> None:
    """One row after the other, each as soon as it is there, except in a table."""
    {"table": _table, "csv": stream_csv, "jsonl": stream_jsonl}[form](rows, columns, stream)


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
