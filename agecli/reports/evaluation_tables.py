"""Output of `agecli evaluate`: every number for programs; the main ones, groups and a comparison for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from agecli.reports.columns import TERMINAL, TERMINAL_COMPARISON
from agecli.reports.tables import TableRow, with_ranges, write_rows
from agecli.scoring.age_checks import check_names
from agecli.scoring.comparison import DIFFERENCE_COLUMNS
from agecli.scoring.groups import LIMITS
from agecli.scoring.metrics import METRIC_COLUMNS

if TYPE_CHECKING:
    from agecli.evaluation.evaluate import Result

SHOWN_GROUPS = ("decade", "sex", "race", "sex x race")


def write_evaluation(
    results: Sequence[Result],
    wholes: Mapping[str, Result],
    comparison: Sequence[TableRow],
    challenge: Sequence[float],
    form: str,
    stream: TextIO,
) -> None:
    """Write the results of `evaluate` to a stream.

    results: of each fold or checkpoint
    wholes: of each model by its name, all folds pooled (`evaluation.evaluate.pooled`)
    comparison: the rows of `scoring.comparison.compare`; empty for a single model
    challenge: ages in years of the age checks in the results
    form: table, csv or jsonl. CSV and JSONL have one list of rows: each result, `pooled` if there are several folds, and
    `compared` if there are several models.
    """
    several = len(wholes) > 1
    rows: list[TableRow] = [
        {**result.row(), "model": f"{result.model} {result.name}" if several else result.name} for result in results
    ]
    for name, whole in wholes.items():
        if whole.name == "pooled":
            rows.append({**whole.row(), "model": f"{name} pooled" if several else "pooled"})
    if form != "table":
        rows += [{**row, "model": f"{row['model']} compared"} for row in comparison]
        checks = [f"{name}{end}" for name in check_names(challenge) for end in ("", "_low", "_high")]
        columns = ("model", *METRIC_COLUMNS, *LIMITS, *checks, "leakage", *(DIFFERENCE_COLUMNS if several else ()))
        write_rows(rows, columns, form, stream)
        return
    rates = check_names(challenge)
    write_rows([with_ranges(row) for row in rows], ("model", *TERMINAL, *rates), form, stream)
    if several:
        stream.write("\non the faces that all models were tested on, paired:\n")
        write_rows([with_ranges(row) for row in comparison], TERMINAL_COMPARISON, form, stream)
    for whole in wholes.values():
        stream.write(f"\n{whole.model}, by group:\n" if several else "\nby group:\n")
        write_rows(_group_rows(whole), ("group", *TERMINAL[:-1], *rates), form, stream)


def _group_rows(result: Result) -> list[dict[str, Any]]:
    """The rows of the main kinds of groups; small groups are marked as (few)."""
    return [
        {**with_ranges(row), "group": f"{row['group']}{' (few)' if row['small'] else ''}"}
        for row in result.rows
        if row["by"] in SHOWN_GROUPS
    ]
