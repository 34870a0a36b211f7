"""Studies: the cells as ordinary runs, in sequence or in parallel, with one table; a stopped study can be resumed."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from agecli.core.errors import Interrupted, TrainingError
from agecli.core.locks import locked
from agecli.core.parallel import as_done
from agecli.model.checkpoint import fingerprint
from agecli.studies.cells import Cell, Study
from agecli.studies.listener import StudyListener
from agecli.studies.paper import BENCHMARKS
from agecli.studies.plan import StudyPlan, make_plan, note_seconds, open_plan, planned_config
from agecli.studies.tables import StudyRow, write_table
from agecli.studies.training_error import write_training_errors
from agecli.training.context import Listener
from agecli.training.initialisation import first_model, load_initial
from agecli.training.plan import aligned_data, choose_folds
from agecli.training.run_folder import check_backbone, is_run, open_run
from agecli.training.train import train

log = logging.getLogger("agecli")


@dataclass(frozen=True)
class Outcome:
    """What `study` returns."""

    study: Study
    setup: str
    folder: Path
    rows: list[StudyRow]  # of study.csv
    failed: dict[str, str]  # the reason for each cell without a result, by its name


@dataclass(frozen=True)
class CellRun:
    """A cell to train, as it is sent to another process."""

    plan: StudyPlan
    cell: Cell
    folder: Path
    device: str
    workers: int | None


CellOutcome = tuple[float, str]  # seconds, and the reason of a failure; "" if there is none


def study(
    name: str,
    data: str | Path | None = None,
    *,
    out: str | Path | None = None,
    jobs: int = 1,
    keep: bool = False,
    resume: bool = False,
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
    align: `data` holds photos, whose faces are found and aligned first, into runs/aligned
    training: further keyword arguments of `train`, for all cells: preset, config, settings, folds, only, exclude, and
    settings by their short names
    Raises InputError for wrong options, Interrupted after a stop (all progress is saved).
    Example: `agecli.study("alpha", "aligned", setup="subject", freeze=True).rows`
    """
    folder = Path(out) if out else Path("studies") / name
    with locked(folder, folder=True):
        if align:
            data = aligned_data(Path(data) if data else None, planned_config(make_plan(name, data, jobs, **training)))
        plan = open_plan(make_plan(name, data, jobs, **training), folder, resume, data is not None)
        what = plan.find()
        log.info("%s: %s, %d cells", name, what.about, len(what.cells))
        if name == "benchmark" and plan.setup not in BENCHMARKS:
            log.warning("the paper has no table for the setup %s: there is nothing to compare with", plan.setup)
        runs = {cell.name: folder / "runs" / cell.name for cell in what.cells}
        _check_backbone(runs.values())
        left = [CellRun(plan, c, runs[c.name], device, workers) for c in what.cells if not _is_finished(runs[c.name])]
        if len(left) < len(what.cells):
            log.info("%d of %d cells are finished already", len(what.cells) - len(left), len(what.cells))
        failed = _train_cells(left, what, folder, runs, jobs, listener or StudyListener())
        if not keep:
            _remove_checkpoints(runs.values())
        rows = write_table(what, _finished(runs), plan.setup, folder)
        return Outcome(what, plan.setup, folder, rows, failed)


def _train_cells(
    left: list[CellRun], what: Study, folder: Path, runs: Mapping[str, Path], jobs: int, listener: StudyListener
) -> dict[str, str]:
    """Train the cells that are left; the table is written after each. Returns the failed ones with their reasons."""
    done, total, failed = len(what.cells) - len(left), len(what.cells), dict[str, str]()
    try:
        for run, (seconds, reason) in _outcomes(left, jobs, runs, listener):
            done += 1
            if reason:  # the other cells continue
                failed[run.cell.name] = reason
                log.error("%s failed: %s", run.cell.label, reason)
            else:
                note_seconds(folder, run.cell, seconds)
                write_table(what, _finished(runs), run.plan.setup, folder)
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
            yield run, _train_cell(run, listener)
    elif left:
        count: Callable[[], None] = partial(_count_folds, left[0].plan, runs, listener)
        yield from as_done(_train_cell, left, jobs, "use fewer --jobs, and --resume", count)


def _train_cell(run: CellRun, listener: Listener | None = None) -> CellOutcome:
    """Train one cell, or resume it if it was begun. A diverged training is an outcome, not an error."""
    began = time.monotonic()
    plan = run.plan
    torch.set_num_threads(plan.threads)
    options: dict[str, Any] = {"resume": True}  # a run that was begun has its own settings
    if not is_run(run.folder):
        options = {"preset": plan.preset, "settings": {**plan.settings, **run.cell.settings}}
        options |= {"only": plan.list, "exclude": plan.exclude}
    options |= {"folds": plan.folds, "device": run.device, "workers": run.workers}
    try:
        train(plan.data, out=run.folder, listener=listener, **options)
        if plan.find().training:
            write_training_errors(run.folder, run.device, run.workers)
    except TrainingError as error:
        return time.monotonic() - began, error.message
    return time.monotonic() - began, ""


def _count_folds(plan: StudyPlan, runs: Mapping[str, Path], listener: StudyListener) -> None:
    """Report how many folds of all cells are finished, by their files: other processes train them."""
    begun = [run for run in runs.values() if is_run(run)]
    if begun:
        folds = choose_folds(plan.folds, open_run(begun[0]).count_folds())
        listener.folds_finished(sum(1 for run in begun for _ in run.glob("fold-*/metrics.csv")), len(folds) * len(runs))


def _check_backbone(runs: Iterable[Path]) -> None:
    """Raise InputError if the backbone is not the one that the first cell was begun with: all cells share it."""
    if first := next(filter(is_run, runs), None):
        run = open_run(first)
        check_backbone(run, fingerprint(first_model(run.config, load_initial(run.config))[0]))


def _is_finished(run: Path) -> bool:
    """Whether all folds of a run are finished: its report is written last."""
    return (run / "report.csv").is_file()


def _finished(runs: Mapping[str, Path]) -> dict[str, Path]:
    """The run folders of the finished cells, by name."""
    return {name: run for name, run in runs.items() if _is_finished(run)}


def _remove_checkpoints(runs: Iterable[Path]) -> None:
    """Remove the checkpoints of all folds but the first of each run: each holds the whole backbone."""
    for run in map(open_run, filter(is_run, runs)):
        for number in run.folds_there()[1:]:
            for file in run.fold(number).glob("*.safetensors"):
                file.unlink()
