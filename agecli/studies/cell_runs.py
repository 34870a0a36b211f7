"""The run of one cell of a study: trained or resumed, measured, and reduced to what is kept."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from agecli.core.errors import TrainingError
from agecli.model.checkpoint import fingerprint
from agecli.studies.cells import Cell, Study
from agecli.studies.plan import StudyPlan
from agecli.studies.training_error import training_nll, write_training_errors
from agecli.training.context import Listener
from agecli.training.initialisation import first_model, load_initial
from agecli.training.run_folder import check_backbone, is_run, open_run
from agecli.training.train import train


@dataclass(frozen=True)
class CellRun:
    """A cell to train, as it is sent to another process."""

    plan: StudyPlan
    cell: Cell
    folder: Path
    device: str
    workers: int | None


CellOutcome = tuple[float, str]  # seconds, and the reason of a failure; "" if there is none


def train_cell(run: CellRun, listener: Listener | None = None) -> CellOutcome:
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


def check_backbones(runs: Iterable[Path]) -> None:
    """Raise InputError if the backbone is not the one that the first cell was begun with: all cells share it."""
    if first := next(filter(is_run, runs), None):
        run = open_run(first)
        check_backbone(run, fingerprint(first_model(run.config, load_initial(run.config))[0]))


def run_folders(what: Study, folder: Path) -> dict[str, Path]:
    """The run folder of each cell of the study in `folder`, by the name of the cell."""
    return {cell.name: folder / "runs" / cell.name for cell in what.cells}


def is_finished(what: Study, run: Path) -> bool:
    """Whether all folds of a cell are finished: its report is written last, but for the errors on its training part."""
    return (run / "report.csv").is_file() and (not what.training or training_nll(run) is not None)


def finished_runs(what: Study, runs: Mapping[str, Path]) -> dict[str, Path]:
    """The run folders of the finished cells, by name."""
    return {name: run for name, run in runs.items() if is_finished(what, run)}


def remove_checkpoints(runs: Iterable[Path]) -> None:
    """Remove the checkpoints of all folds but the first of each run: each holds the whole backbone."""
    for run in map(open_run, filter(is_run, runs)):
        for number in run.folds_there()[1:]:
            for file in run.fold(number).glob("*.safetensors"):
                file.unlink()
