"""Cells of a study as shards: a share of them in this process, in a folder that other processes share."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agecli.core.errors import Interrupted
from agecli.core.locks import LockedError, locked
from agecli.scaling.engines import POLL
from agecli.scaling.plan import FOREVER
from agecli.scaling.selection import select
from agecli.studies.cell_runs import (
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
from agecli.studies.plan import StudyPlan, join_plan, note_outcome, read_failures
from agecli.studies.tables import StudyRow, write_table
from agecli.training.train import PREPARE

log = logging.getLogger("agecli")


@dataclass(frozen=True)
class Shared:
    """What is known of a study in a shared folder: the rows of its finished cells, and why others failed."""

    study: Study
    setup: str
    rows: list[StudyRow]
    failed: dict[str, str]


def study_shard(
    folder: Path,
    shard: str,
    wanted: Callable[[], StudyPlan],
    data_given: bool,
    device: str,
    workers: int | None,
    keep: bool,
    listener: StudyListener,
) -> Shared:
    """Train some of the cells of a study. The study's lock is held for short times, a cell's while it is trained.

    shard: as in `scaling.selection.select`, or PREPARE for none;   wanted: makes the plan that the options ask for.
    A cell that another process trains is waited for, and taken over if that process is killed. Each process writes the
    table of the cells that are finished by then: the last one that of all.
    Raises InputError for other options than those of the study, Interrupted after a stop.
    """
    with locked(folder, folder=True, patience=FOREVER):
        plan = join_plan(wanted(), folder, data_given)
        (folder / "runs").mkdir(exist_ok=True)
    what = plan.find()
    numbers = [] if shard == PREPARE else select(shard, len(what.cells), os.environ)
    runs = run_folders(what, folder)
    if numbers:
        check_backbones(runs.values())
    waiting = [CellRun(plan, what.cells[number], runs[what.cells[number].name], device, workers) for number in numbers]
    done, total = 0, len(waiting)
    while waiting:
        busy = []
        for run in waiting:
            try:
                seconds = _share(run, what, folder, keep, listener)
            except LockedError:
                busy.append(run)
                continue
            except (Interrupted, KeyboardInterrupt):
                raise Interrupted(
                    f"stopped after {done} of {total} cells; all progress is saved",
                    hint="continue with the same command",
                ) from None
            done += 1
            listener.cell_finished(run.cell, done, total, seconds)
        if waiting := busy:
            time.sleep(POLL)
    return collect(folder, plan)


def collect(folder: Path, plan: StudyPlan) -> Shared:
    """Write study.csv of the cells that are finished by now. Takes the lock of the study."""
    what = plan.find()
    runs = run_folders(what, folder)
    with locked(folder, folder=True, patience=FOREVER):
        finished = finished_runs(what, runs)
        rows = write_table(what, finished, plan.setup, folder)
        failed = {name: why for name, why in read_failures(folder).items() if name not in finished}
    log.info("%d of %d cells are finished", len(finished), len(runs))
    return Shared(what, plan.setup, rows, failed)


def _share(run: CellRun, what: Study, folder: Path, keep: bool, listener: StudyListener) -> float:
    """Train a cell unless it is finished; the seconds that it took. Raises LockedError if another process trains it."""
    with locked(run.folder, patience=0):
        there = is_finished(what, run.folder)
        seconds, reason = (0.0, "") if there else train_cell(run, listener)
        if reason:
            log.error("%s failed: %s", run.cell.label, reason)
        elif not keep:
            remove_checkpoints([run.folder])
    if there:
        return 0.0
    with locked(folder, folder=True, patience=FOREVER):
        note_outcome(folder, run.cell, seconds, reason)
    return seconds
