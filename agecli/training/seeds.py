"""A run for each of several seeds, and the mean and std of their metrics: seeds.csv."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agecli.core.errors import InputError
from agecli.core.files import write_csv
from agecli.core.seeds import mean_and_std
from agecli.scoring.metrics import tidy
from agecli.training import distributed
from agecli.training.run_folder import REPORT_COLUMNS, is_run
from agecli.training.train import Report, train

SEED_COLUMNS = ("seed", *REPORT_COLUMNS[1:])


def train_seeds(
    seeds: Sequence[int], data: str | Path | None, *, out: str | Path | None, resume: bool = False, **options: Any
) -> Report:
    """`train` for each seed, into `out`/seed-N; seeds that are finished are not repeated with `resume`.

    seeds: set the splits of random setups, too, so that the spread is that of the whole experiment
    options: as for `train`
    Returns a report whose rows are those of seeds.csv, `SEED_COLUMNS`: all folds of each seed pooled, then mean and std.
    Raises InputError without `out`, and whatever `train` raises.
    Example: `train_seeds((0, 1, 2), "aligned", out="runs/drf", freeze=True).rows[-1]["mae"]` is the std of the MAE
    """
    if out is None:
        raise InputError("several seeds are several runs", hint="name a folder for them: --out runs/NAME")
    rows: list[dict[str, Any]] = []
    broken: dict[str, str] = {}
    for seed in seeds:
        folder = Path(out) / f"seed-{seed}"
        report = train(data, out=folder, seed=seed, resume=resume and is_run(folder), **options)
        broken |= report.broken
        rows += [{**row, "seed": seed} for row in report.rows if row["fold"] == "pooled"]
    means, stds = mean_and_std(rows, SEED_COLUMNS[1:])
    rows += [{"seed": "mean", **means}, {"seed": "std", **stds}] if rows else []
    rows = [{name: tidy(row.get(name)) for name in SEED_COLUMNS} for row in rows]
    if distributed.rank() == 0:
        write_csv(Path(out) / "seeds.csv", rows, SEED_COLUMNS)
    return Report(Path(out), rows, broken)
