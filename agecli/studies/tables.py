"""The table of a study: the metrics of its finished cells, compared with the reference cell and with the paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from agecli.core.files import write_csv
from agecli.evaluation.evaluate import compare_models
from agecli.scoring.comparison import DIFFERENCE_COLUMNS
from agecli.scoring.metrics import measure, tidy
from agecli.studies.cells import ANNEALED, Cell, Study
from agecli.studies.paper import BENCHMARKS, OURS, PHI_STD
from agecli.studies.training_error import training_nll
from agecli.training.run_folder import open_run, read_results

COLUMNS = (
    *("cell", "label", "group", "x", "images", "mae", "mae_low", "mae_high", "cs5"),
    *DIFFERENCE_COLUMNS,
    *("paper_mae", "paper_cs5", "paper_read"),  # the last is 1 if CS@5 was read from a curve: a * in the paper
)
NLL_COLUMNS = ("train_nll", "test_nll")  # of studies that measure the training part, too
AVERAGED = (*NLL_COLUMNS, "mae", "cs5", "difference")  # over seeds
SEED_COLUMNS = (
    *("cell", "label", "group", "x", "seeds"),
    *(f"{name}{end}" for name in AVERAGED for end in ("", "_std", "_low", "_high")),
    *("paper_mae", "paper_cs5"),
)
SHOWN = (
    "label",
    *(f"{name}{end}" for name in NLL_COLUMNS for end in ("", "_range")),
    "mae",
    "mae_std",
    "mae_range",
    "cs5",
    "against",
    "difference_range",
    "paper_mae",
    "paper_cs5",
)
ENTROPY_COLUMNS = ("cell", "label", "group", "iteration", "entropy", "T")
StudyRow = dict[str, Any]  # a row of study.csv: `COLUMNS`, or `ENTROPY_COLUMNS` for the study `entropy`


def write_table(study: Study, runs: Mapping[str, Path], setup: str, folder: Path) -> list[StudyRow]:
    """Write study.csv for the finished cells; return its rows.

    runs: the run folders of the finished cells, by name
    """
    rows = study_rows(study, runs, setup)
    write_csv(folder / "study.csv", rows, columns_of(study))
    return rows


def columns_of(study: Study) -> tuple[str, ...]:
    """The columns of study.csv."""
    if study.name == "entropy":
        return ENTROPY_COLUMNS
    return (*COLUMNS[:5], *NLL_COLUMNS, *COLUMNS[5:]) if study.training else COLUMNS


def study_rows(study: Study, runs: Mapping[str, Path], setup: str) -> list[StudyRow]:
    """A row for each finished cell, and what the study reports beside its cells.

    runs: the run folders of the finished cells, by name
    Metrics are those of all test faces that the cells have in common, all folds pooled. Differences are in MAE to the reference cell, paired by face; empty until that is finished.
    """
    cells = [cell for cell in study.cells if cell.name in runs]
    if study.name == "entropy":
        return [row for cell in cells for row in _entropy_rows(cell, runs[cell.name])]
    order = sorted(cells, key=lambda cell: cell.name != study.reference)  # differences are to the first
    predictions = {cell.name: read_results(open_run(runs[cell.name])) for cell in order}
    compared = {row["model"]: row for row in compare_models(predictions)} if order else {}
    left_out = () if study.reference in runs else DIFFERENCE_COLUMNS
    rows: list[StudyRow] = []
    for cell in cells:
        row = {"cell": cell.name, "label": cell.label, "group": cell.group, "x": cell.x, **compared[cell.name]}
        row |= {"paper_mae": cell.paper_mae, "paper_cs5": cell.paper_cs5}
        if study.training:
            row |= {"train_nll": training_nll(runs[cell.name]), "test_nll": measure(predictions[cell.name]).nll}
        rows.append({name: tidy(row.get(name)) for name in columns_of(study) if name not in left_out})
    return rows + _more_rows(study, rows, setup)


def _more_rows(study: Study, rows: Sequence[StudyRow], setup: str) -> list[StudyRow]:
    """Mean and std of `phi`; ranges over the starts of `initialisation`; other methods in the paper's table of `benchmark`."""
    if study.name == "phi" and len(rows) > 1:
        mae = pd.Series([row["mae"] for row in rows])
        name = f"of {len(rows)} assignments"
        return [
            {"cell": "mean", "label": f"mean {name}", "mae": tidy(float(mae.mean()))},
            {"cell": "std", "label": f"std {name}", "mae": tidy(float(mae.std())), "paper_mae": PHI_STD},
        ]
    if study.name == "initialisation":
        return _ranges(rows)
    if study.name == "benchmark":
        title, printed = BENCHMARKS.get(setup, ("", ()))
        return [
            {
                "cell": "",
                "label": f"{row.method} ({title})",
                "paper_mae": row.mae,
                "paper_cs5": row.cs5,
                "paper_read": int(row.read) if row.cs5 is not None else None,
            }
            for row in printed
            if row.method not in OURS
        ]
    return []


def cacd_table(rows: Sequence[StudyRow]) -> list[StudyRow]:
    """The rows of the study `cacd` as the paper prints them: a row for each training set, a column for each method."""
    made: list[StudyRow] = []
    for part in ("train", "val"):
        title, printed = BENCHMARKS[f"cacd-{part}"]
        ours = {row["cell"]: row for row in rows}
        row: StudyRow = {"trained": title} | {f"{one.method} (paper)": one.mae for one in printed}
        for method, model in OURS.items():
            cell = ours.get(f"{model}-{part}", {})
            row |= {
                method: cell.get("mae"),
                f"{method}_low": cell.get("mae_low"),
                f"{method}_high": cell.get("mae_high"),
            }
        made.append(row)
    return made


def _ranges(rows: Sequence[StudyRow]) -> list[StudyRow]:
    """For each kind of annealing, the largest minus the smallest value over the starts: 0 if the start has no effect."""
    made: list[StudyRow] = []
    for place, kind in enumerate(ANNEALED):
        some = [row for row in rows if row["x"] == place]
        if len(some) < 2:
            continue
        values = {name: [row[name] for row in some if row[name] is not None] for name in (*NLL_COLUMNS, "mae")}
        widths = {name: tidy(max(value) - min(value)) for name, value in values.items() if len(value) == len(some)}
        made.append({"cell": f"range-{place}", "label": f"range over {len(some)} starts, {kind}", "x": place, **widths})
    return made


def _entropy_rows(cell: Cell, run: Path) -> list[StudyRow]:
    """The entropy H before each leaf update of a cell, the mean over its folds."""
    columns = ["iteration", "entropy", "T"]
    files = [run / f"fold-{number}/history.csv" for number in open_run(run).folds_there()]
    history = pd.concat([pd.read_csv(file, usecols=columns) for file in files]).dropna(subset="entropy")
    means = history.groupby("iteration", as_index=False).agg({"entropy": "mean", "T": "first"})
    about = {"cell": cell.name, "label": cell.label, "group": cell.group}
    return [
        {**about, "iteration": int(iteration), "entropy": tidy(float(entropy)), "T": tidy(float(temperature))}
        for iteration, entropy, temperature in means.itertuples(index=False)
    ]
