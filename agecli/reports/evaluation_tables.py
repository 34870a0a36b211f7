"""Output of `agecli evaluate`: every number for programs; the main ones, rates with counts and groups for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from agecli.evaluation.conditions import failure_rates
from agecli.reports.columns import TERMINAL, TERMINAL_AVERAGES, TERMINAL_COMPARISON, TERMINAL_RATES
from agecli.reports.latex import evaluation_table
from agecli.reports.rate_rows import check_rates, main_rates
from agecli.reports.tables import TableRow, with_ranges, write_rows
from agecli.scoring.age_checks import check_names, describe_rate
from agecli.scoring.comparison import DIFFERENCE_COLUMNS
from agecli.scoring.gaps import largest_gaps
from agecli.scoring.groups import LIMITS
from agecli.scoring.metrics import METRIC_COLUMNS
from agecli.scoring.rates import rate_columns

if TYPE_CHECKING:
    from agecli.evaluation.evaluate import Result

SHOWN_GROUPS = ("decade", "sex", "race", "sex x race", "face size", "sharpness")


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
    form: table, csv, jsonl or latex. CSV and JSONL have one list of rows: each result, `pooled` if there are several
    folds, and `compared` if there are several models. LaTeX has one row for each model.
    """
    if form == "latex":
        stream.write(evaluation_table(results, wholes, comparison))
        return
    several = len(wholes) > 1
    rows: list[TableRow] = []
    for result in results:
        prefix = f"{result.model} " if several else ""
        rows += [_result_row(result, prefix), *({**row, "model": prefix + row["model"]} for row in result.apart())]
    rows += [
        _result_row(whole, f"{name} " if several else "") for name, whole in wholes.items() if whole.name == "pooled"
    ]
    if form != "table":
        rows += [{**row, "model": f"{row['model']} compared"} for row in comparison]
        checks = rate_columns(check_names(challenge))
        last = ("seen", "leakage", *rate_columns(("failures",)), "over", *(DIFFERENCE_COLUMNS if several else ()))
        write_rows(rows, ("model", *METRIC_COLUMNS, *LIMITS, *checks, *last), form, stream)
        return
    rows = [{**row, "model": _without_repetition(row["model"])} for row in rows]
    write_rows([with_ranges(row) for row in rows], ("model", *TERMINAL), form, stream)
    stream.write("\nother averages of the error:\n")
    write_rows(rows, ("model", *TERMINAL_AVERAGES), form, stream)
    if several:
        stream.write("\non the faces that all models were tested on, paired; differences of the MAE to the first:\n")
        write_rows([with_ranges(row) for row in comparison], TERMINAL_COMPARISON, form, stream)
    for whole in wholes.values():
        _write_model(whole, f"{whole.model}, " if several else "", challenge, stream)


def _result_row(result: Result, prefix: str) -> dict[str, Any]:
    """The row of a result over all faces, with the failures of its data folder."""
    failed = failure_rates(result.data, len(result.broken)).get("failed")
    row = {**result.row(), **(failed.row("failures") if failed else {}), "model": f"{prefix}{result.name}"}
    return {**row, "nist_cells": row["nist_cells"] or None}


def _without_repetition(name: str) -> str:
    """The name of a checkpoint without its stem: "models/default.onnx default" -> "models/default.onnx"."""
    model, _, part = name.rpartition(" ")
    return model if model and Path(model).stem == part else name


def _write_model(whole: Result, prefix: str, challenge: Sequence[float], stream: TextIO) -> None:
    """The rates and groups of one model, as tables of at most 100 columns."""
    over = whole.rows[0]["over"]
    stream.write(f"\n{prefix}rates, with 95 % CI over {over}; few: a share of fewer than 30 {over}:\n")
    rates = [*main_rates(whole.rows[0], failure_rates(whole.data, len(whole.broken))), *check_rates(whole.predictions)]
    write_rows([with_ranges(row) for row in rates], ("rate", "share", "share_range", "share_counts"), "table", stream)
    groups = [with_ranges(row) for row in whole.rows if row["by"] in SHOWN_GROUPS]
    stream.write(f"\n{prefix}by group:\n")
    marked = [{**row, "group": f"{row['group']}{' (few)' if row['small'] else ''}"} for row in groups]
    write_rows(marked, ("group", *(name for name in TERMINAL if name not in ("seen", "leakage"))), "table", stream)
    names = check_names(challenge)
    for pair in (TERMINAL_RATES, *zip(names[::2], names[1::2], strict=True)):
        stream.write(f"\n{prefix}by group, rates:\n")
        stream.writelines(f"{name}: {describe_rate(name)}\n" for name in pair if name not in TERMINAL_RATES)
        columns = (f"{name}{end}" for name in pair for end in ("", "_range", "_counts"))
        write_rows(groups, ("group", *columns), "table", stream)
    for gap in largest_gaps(whole.predictions):
        stream.write(f"\n{describe_gap(gap)}\n")


def describe_gap(gap: TableRow) -> str:
    """A row of `scoring.gaps.largest_gaps` in one sentence."""
    what = {"mae": "MAE", "bias": "bias"}[gap["metric"]]
    return (
        f"largest gap by {gap['by'].replace(' x ', ' and ')}: {what} {gap['value']:.2f} for {gap['group']} against "
        f"{gap['other_value']:.2f} for {gap['other']},\n  a difference of {gap['difference']:.2f} years "
        f"(95 % CI {gap['difference_low']:.2f} to {gap['difference_high']:.2f}; the largest of {gap['pairs']} pairs)"
    )
