"""Studies: the cells as ordinary runs, one after the other or side by side, going on after a stop where they were."""

from __future__ import annotations

import json
import logging
import multiprocessing
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from agecli.errors import InputError, TrainingError
from agecli.files import write_csv, write_whole
from agecli.folds import Listener
from agecli.runs import environment, is_run, open_run
from agecli.studies.cells import Cell, Study, find_study
from agecli.studies.tables import COLUMNS, ENTROPY_COLUMNS, Row, rows_of
from agecli.training import named_settings, read_file, train
from agecli.workers import cores, workers

log = logging.getLogger("agecli")
Told = Callable[[Cell, int, int, float], None]  # a cell is done: how many are, of how many, and the seconds it took


@dataclass(frozen=True)
class Plan:
    """What was asked for: all that the numbers of a study depend on. It is kept in study.json."""

    study: str
    data: str
    preset: str | None
    settings: dict[str, Any]
    folds: str | None
    list: str | None
    exclude: str | None


@dataclass(frozen=True)
class Outcome:
    study: Study
    setup: str
    folder: Path
    rows: list[Row]
    failed: dict[str, str]  # cells without a result, and why


def study(
    name: str,
    data: str | Path | None = None,
    *,
    out: str | Path | None = None,
    preset: str | None = None,
    config: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
    folds: str | None = None,
    list: str | Path | None = None,
    exclude: str | Path | None = None,
    device: str = "auto",
    workers: int | None = None,
    jobs: int = 1,
    keep: bool = False,
    resume: bool = False,
    listener: Listener | None = None,
    told: Told = lambda cell, done, total, seconds: None,
    **options: Any,
) -> Outcome:
    """Run every cell of a study that is not finished yet, `jobs` of them at a time, and write study.csv.

    The options are those of `train`. Checkpoints of all folds but the first are removed unless they are to be kept.
    """
    asked = {**read_file(config), **named_settings(options), **(settings or {})}
    folder = Path(out) if out else Path("studies") / name
    source = str(Path(data or "aligned").resolve())
    photos = [str(Path(file).resolve()) if file else None for file in (list, exclude)]
    if clash := sorted(find_study(name, "").settings & asked.keys()):
        raise InputError(
            f"the study `{name}` varies {' and '.join(clash)} itself", hint="leave that out; `agecli train` takes it"
        )
    if jobs < 1:
        raise InputError(f"--jobs {jobs} runs nothing", hint="use --jobs 1 or more")
    plan = _agree(Plan(name, source, preset, asked, folds, *photos), folder, resume, data is not None)
    setup = str(plan.settings.get("data.setup", "random"))
    what = find_study(name, setup)
    runs = {cell.name: folder / "runs" / cell.name for cell in what.cells}
    left = [cell for cell in what.cells if not (runs[cell.name] / "report.csv").is_file()]
    if len(left) < len(what.cells):
        log.info("%d of %d cells are finished already", len(what.cells) - len(left), len(what.cells))
    tasks = [Task(plan, cell, runs[cell.name], device, workers, keep, max(1, cores() // jobs)) for cell in left]
    done = len(what.cells) - len(left)
    failed: dict[str, str] = {}
    for cell, (seconds, why) in zip(left, _each(tasks, jobs, listener), strict=True):
        done += 1
        if why:  # the others go on
            failed[cell.name] = why
            log.error("%s failed: %s", cell.label, why)
            continue
        _note(folder, cell, seconds)
        write_table(what, _finished(runs), setup, folder)
        told(cell, done, len(what.cells), seconds)
    rows = write_table(what, _finished(runs), setup, folder)
    return Outcome(what, setup, folder, rows, failed)


def write_table(what: Study, runs: Mapping[str, Path], setup: str, folder: Path) -> list[Row]:
    """study.csv, after each cell: a study that is stopped has a table of what is finished."""
    rows = rows_of(what, runs, setup)
    write_csv(folder / "study.csv", rows, ENTROPY_COLUMNS if what.name == "entropy" else COLUMNS)
    return rows


def _finished(runs: Mapping[str, Path]) -> dict[str, Path]:
    return {name: run for name, run in runs.items() if (run / "report.csv").is_file()}


def _agree(plan: Plan, folder: Path, resume: bool, data: bool) -> Plan:
    """The plan of the study that is there, if that is to go on and nothing else is asked for; else the new one."""
    file = folder / "study.json"
    if not file.is_file():
        if folder.exists() and any(folder.iterdir()):
            raise InputError(f"{folder} is not empty and holds no study", hint="name another folder with --out")
        with write_whole(file) as part:
            part.write_text(json.dumps({"plan": asdict(plan), **environment(), "seconds": {}}, indent=1))
        return plan
    if not resume:
        raise InputError(
            f"{folder} holds a study already", hint="go on with it by --resume, or name another folder with --out"
        )
    old = Plan(**json.loads(file.read_text())["plan"])
    known = {**asdict(old), **{f"--set {name}": str(value) for name, value in old.settings.items()}}
    new = {f"--set {name}": str(value) for name, value in plan.settings.items()}
    new |= {
        name: value for name, value in asdict(plan).items() if value is not None and name not in ("settings", "data")
    }
    new |= {"data": plan.data} if data else {}
    different = [name for name, value in new.items() if known.get(name) != value]
    if different:
        raise InputError(
            f"{folder} was started with another {' and '.join(different)}",
            hint="a study that goes on keeps its settings: leave these out, or use another --out",
        )
    return old


def _note(folder: Path, cell: Cell, seconds: float) -> None:
    """How long a cell took, in study.json: never in study.csv, which is the same on every machine."""
    file = folder / "study.json"
    about = json.loads(file.read_text())
    about["seconds"][cell.name] = round(seconds, 1)
    with write_whole(file) as part:
        part.write_text(json.dumps(about, indent=1))


@dataclass(frozen=True)
class Task:
    """A cell as another process sees it."""

    plan: Plan
    cell: Cell
    run: Path
    device: str
    workers: int | None
    keep: bool
    threads: int


Took = tuple[float, str]  # seconds, and why it failed, if it did


def _each(tasks: Iterable[Task], jobs: int, listener: Listener | None) -> Iterable[Took]:
    """How each cell went, in order."""
    if jobs == 1:
        for task in tasks:
            yield _train(task, listener)
        return
    try:
        with workers(jobs, 1, "use fewer --jobs, and --resume") as side_by_side:
            yield from side_by_side(_train, tasks)
    except BaseException:
        for child in multiprocessing.active_children():  # they save what they have each minute
            child.terminate()
        raise


def _train(task: Task, listener: Listener | None = None) -> Took:
    began = time.monotonic()
    torch.set_num_threads(task.threads)
    plan = task.plan
    try:
        train(
            plan.data,
            out=task.run,
            preset=plan.preset,
            settings={**plan.settings, **task.cell.settings},
            folds=plan.folds,
            list=plan.list,
            exclude=plan.exclude,
            device=task.device,
            workers=task.workers,
            resume=is_run(task.run),
            listener=listener,
        )
    except TrainingError as error:  # a loss that is no number is a result, too
        return time.monotonic() - began, error.message
    if not task.keep:
        run = open_run(task.run)
        for number in run.folds_there()[1:]:  # a fold's checkpoint holds the backbone, too
            for file in run.fold(number).glob("*.safetensors"):
                file.unlink()
    return time.monotonic() - began, ""
