"""A study for each of several seeds, and the mean and std of each of its cells: seeds.csv."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scipy import stats

from agecli.core.errors import InputError
from agecli.core.files import write_csv
from agecli.core.seeds import mean_and_std
from agecli.scoring.metrics import tidy
from agecli.studies.plan import FILE
from agecli.studies.study import Outcome, study
from agecli.studies.tables import AVERAGED, SEED_COLUMNS, StudyRow
from agecli.training.train import PREPARE

LEVEL = 0.95  # of the confidence intervals over seeds


def study_seeds(
    seeds: Sequence[int],
    name: str,
    data: str | Path | None,
    *,
    out: str | Path | None,
    resume: bool,
    shard: str | None = None,
    **options: Any,
) -> tuple[Outcome, list[Outcome]]:
    """`study` for each seed, into `out`/seed-N (studies/<name>/seed-N by default).

    Returns the outcome over all seeds, whose rows have the mean of each cell, its std (`mae_std`) and its 95 % CI (`mae_low`), and are
    written to seeds.csv, and the outcome of each seed.   shard: as in `study`; seeds.csv is then written when all cells of
    all seeds have an outcome, by the last process.   Raises InputError for the study `entropy`, which has no metrics.
    """
    if name == "entropy":
        raise InputError("the study `entropy` has no metrics to average", hint="give it a single --seed")
    folder = Path(out) if out else Path("studies") / name
    outcomes = []
    for seed in seeds:
        place = folder / f"seed-{seed}"
        known = (place / FILE).is_file()
        outcomes.append(study(name, data, out=place, resume=resume and known, shard=shard, seed=seed, **options))
    if shard is not None:  # other processes may have finished cells of the first seeds since
        outcomes = [study(name, data, out=o.folder, shard=PREPARE, **options) for o in outcomes]
    rows = average_rows([outcome.rows for outcome in outcomes])
    if all(is_complete(outcome) for outcome in outcomes):
        write_csv(folder / "seeds.csv", rows, SEED_COLUMNS)
    failed = {
        f"seed-{seed}/{cell}": why for seed, o in zip(seeds, outcomes, strict=True) for cell, why in o.failed.items()
    }
    return Outcome(outcomes[0].study, outcomes[0].setup, folder, rows, failed), outcomes


def is_complete(outcome: Outcome) -> bool:
    """Whether every cell of a study has a result, or a reason why it has none."""
    there = {row["cell"] for row in outcome.rows} | outcome.failed.keys()
    return all(cell.name in there for cell in outcome.study.cells)


def average_rows(tables: Sequence[Sequence[StudyRow]]) -> list[StudyRow]:
    """A row for each label that the tables of the seeds have, in the order of the first: mean and std over the seeds."""
    averaged = []
    for first in tables[0]:
        same = [row for table in tables for row in table if row["label"] == first["label"]]
        means, stds = mean_and_std(same, AVERAGED)
        kept = {key: first.get(key) for key in ("cell", "label", "group", "x", "paper_mae", "paper_cs5")}
        spread = {f"{key}_std": value for key, value in stds.items()}
        for key, std in stds.items():
            low, high = confidence_interval(means[key], std, len(same))
            spread |= {f"{key}_low": low, f"{key}_high": high}
        averaged.append(
            {**kept, **{key: tidy(value) for key, value in {**means, **spread}.items()}, "seeds": len(same)}
        )
    return averaged


def confidence_interval(mean: float, std: float, count: int) -> tuple[float, float]:
    """The 95 % CI of a mean over `count` seeds, by Student's t: what other seeds would give on the same faces."""
    half = float(stats.t.ppf((1 + LEVEL) / 2, count - 1)) * std / math.sqrt(count)
    return mean - half, mean + half
