"""The table of a study: what its finished cells measured, beside each other and beside the paper."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agecli.core.files import read_csv
from agecli.evaluation.evaluate import compare_models
from agecli.scoring.metrics import tidy
from agecli.studies.cells import Study
from agecli.studies.paper import BENCHMARKS, OURS, PHI_STD
from agecli.training.run_folder import open_run, read_results

COLUMNS = (
    "cell",
    "label",
    "group",
    "x",
    "images",
    "mae",
    "mae_low",
    "mae_high",
    "cs5",
    "difference",
    "difference_low",
    "difference_high",
    "p",
    "paper_mae",
    "paper_cs5",
)
SHOWN = ("label", "mae", "mae_range", "cs5", "against", "difference_range", "paper_mae", "paper_cs5")
ENTROPY_COLUMNS = ("cell", "label", "group", "iteration", "entropy", "T")
Row = dict[str, Any]


def rows_of(study: Study, runs: Mapping[str, Path], setup: str) -> list[Row]:
    """A row for each finished cell; the difference is to the reference, paired by face, once that is finished."""
    if study.name == "entropy":
        return _entropies(study, runs)
    there = [cell for cell in study.cells if cell.name in runs]
    order = sorted(there, key=lambda cell: cell.name != study.reference)  # `compare` counts from the first
    measured = (
        {
            row["model"]: row
            for row in compare_models({cell.name: read_results(open_run(runs[cell.name])) for cell in order})
        }
        if order
        else {}
    )
    known = study.reference in runs
    rows: list[Row] = []
    for cell in there:
        row = {"cell": cell.name, "label": cell.label, "group": cell.group, "x": cell.x, **measured[cell.name]}
        row |= {"paper_mae": cell.paper_mae, "paper_cs5": cell.paper_cs5}
        against = ("difference", "difference_low", "difference_high", "p")
        rows.append({name: tidy(row.get(name)) for name in COLUMNS if known or name not in against})
    return rows + _more(study, rows, setup)


def _more(study: Study, rows: list[Row], setup: str) -> list[Row]:
    """What a study says beside its cells: the spread over assignments, the paper's competitors."""
    if study.name == "phi" and len(rows) > 1:
        values = [row["mae"] for row in rows]
        mean, std = statistics.fmean(values), statistics.stdev(values)
        return [
            {"cell": "mean", "label": f"mean of {len(rows)} assignments", "mae": tidy(mean)},
            {"cell": "std", "label": f"std of {len(rows)} assignments", "mae": tidy(std), "paper_mae": PHI_STD},
        ]
    if study.name == "benchmark":
        title, printed = BENCHMARKS.get(setup, ("", ()))
        return [
            {"cell": "", "label": f"{row.method} ({title})", "paper_mae": row.mae, "paper_cs5": row.cs5}
            for row in printed
            if row.method not in OURS
        ]
    return []


def _entropies(study: Study, runs: Mapping[str, Path]) -> list[Row]:
    """H before each leaf update, the mean over the folds."""
    rows: list[Row] = []
    for cell in study.cells:
        if cell.name not in runs:
            continue
        folds = [read_csv(runs[cell.name] / f"fold-{n}/history.csv") for n in open_run(runs[cell.name]).folds_there()]
        for same in zip(*([row for row in fold if row["entropy"]] for fold in folds), strict=True):
            rows.append(
                {
                    "cell": cell.name,
                    "label": cell.label,
                    "group": cell.group,
                    "iteration": int(same[0]["iteration"]),
                    "entropy": tidy(statistics.fmean(float(row["entropy"]) for row in same)),
                    "T": tidy(float(same[0]["t"])),
                }
            )
    return rows
