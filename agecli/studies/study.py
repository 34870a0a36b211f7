"""Studies: the cells as ordinary runs, in sequence or in parallel, with one table; a stopped study can be resumed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from agecli.core.errors import Interrupted
from agecli.core.locks import locked
from agecli.core.parallel import as_done
from agecli.studies.cell_runs import (
    CellOutcome,
    CellRun,
    check_backbones,
    finished_runs,
    is_finished,
    remove_checkpoints,
    run_folders,
    train_cell,
)
from agecli.studies.cells import Study
from agecli.studies.listener import StudyListener
from agecli.studies.paper import BENCHMARKS
from agecli.studies.plan import StudyPlan, make_plan, note_outcome, open_plan, planned_config
from agecli.studies.sharding import study_shard
from agecli.studies.tables import StudyRow, write_table
from agecli.training.plan import aligned_data, choose_folds
from agecli.training.run_folder import is_run, open_run

log = logging.getLogger("agecli")


@dataclass(frozen=True)
class Outcome:
    """What `study` returns."""

    study: Study
    setup: str
    folder: Path
    rows: list[StudyRow]  # of study.csv
    failed: dict[str, str]  # the reason for each cell without a result, by its name


def study(
    name: str,
    data: str | Path | None = None,
    *,
    out: str | Path | None = None,
    jobs: int = 1,
    keep: bool = False,
    resume: bool = False,
    shard: str | None = None,
    align: bool = False,
    device: str = "auto",
    workers: int | None = None,
    listener: StudyListener | None = None,
    **training: Any,
) -> Outcome:
    """Train every cell of a study that is not finished yet, and write study.csv after each.

    name: ablation, initialisation, trees, depth, alpha, phi, entropy or benchmark
    data: the data folder; `aligned` by default
    out: the study's folder; `studies/<name>` by default
    jobs: cells to train in parallel
    keep: keep the checkpoints of all folds; otherwise only those of the first
    resume: continue the study in `out`
    shard: the share of the cells that this process does, as "0/4" or "env" (see `scaling.selection.select`), in a folder
        that it shares with other processes; PREPARE begins the study, trains nothing, and returns what is finished
    align: `data` holds photos, whose faces are found and aligned first, into runs/aligned
    training: further keyword arguments of `train`, for all cells: preset, config, settings, folds, only, exclude, and
    settings by their short names
    Raises InputError for wrong options, Interrupted after a stop (all progress is saved).
    Example: `agecli.study("alpha", "aligned", setup="subject", freeze=True).rows`
    """
    folder = Path(out) if out else Path("studies") / name
    listener = listener or StudyListener()
    if shard is not None:
        wanted = partial(_wanted, name, data, align, jobs, **training)
        shared = study_shard(folder, shard, wanted, data is not None, device, workers, keep, listener)
        return Outcome(shared.study, shared.setup, folder, shared.rows, shared.failed)
    with locked(folder, folder=True):
        plan = open_plan(_wanted(name, data, align, jobs, **training), folder, resume, data is not None)
        what = plan.find()
        log.info("%s: %s, %d cells", name, what.about, len(what.cells))
        if name == "benchmark" and plan.setup not in BENCHMARKS:
            log.warning("the paper has no table for the setup %s: there is nothing to compare with", plan.setup)
        runs = run_folders(what, folder)
        check_backbones(runs.values())
        cells = [cell for cell in what.cells if not is_finished(what, runs[cell.name])]
        left = [CellRun(plan, cell, runs[cell.name], device, workers) for cell in cells]
        if len(left) < len(what.cells):
            log.info("%d of %d cells are finished already", len(what.cells) - len(left), len(what.cells))
        failed = _train_cells(left, what, folder, runs, jobs, listener)
        if not keep:
            remove_checkpoints(runs.values())
        rows = write_table(what, finished_runs(what, runs), plan.setup, folder)
        return Outcome(what, plan.setup, folder, rows, failed)


def _wanted(name: str, data: str | Path | None, align: bool, jobs: int, **training: Any) -> StudyPlan:
    """The plan that the options of `study` ask for; with `align`, on the aligned faces of the photos in `data`."""
    if align:
        data = aligned_data(Path(data) if data else None, planned_config(make_plan(name, data, jobs, **training)))
    return make_plan(name, data, jobs, **training)


def _train_cells(
    left: list[CellRun], what: Study, folder: Path, runs: Mapping[str, Path], jobs: int, listener: StudyListener
) -> dict[str, str]:
    """Train the cells that are left; the table is written after each. Returns the failed ones with their reasons."""
    done, total, failed = len(what.cells) - len(left), len(what.cells), dict[str, str]()
    try:
        for run, (seconds, reason) in _outcomes(left, jobs, runs, listener):
            done += 1
            note_outcome(folder, run.cell, seconds, reason)
            if reason:  # the other cells continue
                failed[run.cell.name] = reason
                log.error("%s failed: %s", run.cell.label, reason)
            else:
                write_table(what, finished_runs(what, runs), run.plan.setup, folder)
            listener.cell_finished(run.cell, done, total, seconds)
    except (Interrupted, KeyboardInterrupt):
        raise Interrupted(
            f"stopped after {done} of {total} cells; all progress is saved",
            hint=f"continue with: agecli study {what.name} --resume --out {folder}",
        ) from None
    return failed


def _outcomes(
    left: list[CellRun], jobs: int, runs: Mapping[str, Path], listener: StudyListener
) -> Iterator[tuple[CellRun, CellOutcome]]:
    """The outcome of each cell: trained in this process with all callbacks, or in `jobs` others."""
    if jobs == 1:
        for run in left:
            yield run, train_cell(run, listener)
    elif left:
        count: Callable[[], None] = partial(_count_folds, left[0].plan, runs, listener)
        yield from as_done(train_cell, left, jobs, "use fewer --jobs, and --resume", count)


def _count_folds(plan: StudyPlan, runs: Mapping[str, Path], listener: StudyListener) -> None:
    """Report how many folds of all cells are finished, by their files: other processes train them."""
    begun = [run for run in runs.values() if is_run(run)]
    if begun:
        folds = choose_folds(plan.folds, open_run(begun[0]).count_folds())
        listener.folds_finished(sum(1 for run in begun for _ in run.glob("fold-*/metrics.csv")), len(folds) * len(runs))
