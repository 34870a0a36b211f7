"""Studies: the cells as ordinary runs, one after the other or side by side, going on after a stop where they were."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from agecli.core.config import check, replace
from agecli.core.config import preset as presets
from agecli.core.errors import InputError, Interrupted, MissingError, TrainingError
from agecli.core.files import write_csv, write_whole
from agecli.core.parallel import as_done, cores
from agecli.model.checkpoint import fingerprint
from agecli.studies.cells import Cell, Study, find_study
from agecli.studies.paper import BENCHMARKS
from agecli.studies.tables import COLUMNS, ENTROPY_COLUMNS, Row, rows_of
from agecli.training.context import Listener
from agecli.training.initialisation import first_model, load_initial
from agecli.training.plan import asked_for, choose_folds
from agecli.training.run_folder import check_backbone, environment, is_run, open_run
from agecli.training.train import train

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
    threads: int  # of each cell: with another number, sums have other last digits


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
    only: str | Path | None = None,
    exclude: str | Path | None = None,
    device: str = "auto",
    workers: int | None = None,
    jobs: int = 1,
    keep: bool = False,
    resume: bool = False,
    listener: Listener | None = None,
    told: Told = lambda cell, done, total, seconds: None,
    folds_told: Callable[[int, int], None] = lambda done, total: None,
    **options: Any,
) -> Outcome:
    """Run every cell of a study that is not finished yet, `jobs` of them at a time, and write study.csv.

    The options are those of `train`. Checkpoints of all folds but the first are removed unless they are to be kept.
    """
    asked = asked_for(config, options, settings)
    folder = Path(out) if out else Path("studies") / name
    source = str(Path(data or "aligned").resolve())
    listed, excluded = (str(Path(file).resolve()) if file else None for file in (only, exclude))
    if jobs < 1:
        raise InputError(f"--jobs {jobs} runs nothing", hint="use --jobs 1 or more")
    plan = Plan(name, source, preset, asked, folds, listed, excluded, max(1, cores() // jobs))
    _check(plan)
    plan = _agree(plan, folder, resume, data is not None)
    _check(plan)
    setup = str(plan.settings.get("data.setup", "random"))
    what = find_study(name, setup)
    log.info("%s: %s, %d cells", name, what.about, len(what.cells))
    if name == "benchmark" and setup not in BENCHMARKS:
        log.warning("the paper has no table for the setup %s: ours stand alone", setup)
    runs = {cell.name: folder / "runs" / cell.name for cell in what.cells}
    if begun := [run for run in runs.values() if is_run(run)]:  # all cells stand on the same features
        first = open_run(begun[0])
        check_backbone(first, fingerprint(first_model(first.config, load_initial(first.config))[0]))
    left = [cell for cell in what.cells if not (runs[cell.name] / "report.csv").is_file()]
    done = len(what.cells) - len(left)
    if done:
        log.info("%d of %d cells are finished already", done, len(what.cells))
    failed: dict[str, str] = {}
    tasks = [Task(plan, cell, runs[cell.name], device, workers) for cell in left]
    try:
        for task, (seconds, why) in _each(tasks, jobs, listener, partial(_count_folds, plan, runs, folds_told)):
            done += 1
            if why:  # the others go on
                failed[task.cell.name] = why
                log.error("%s failed: %s", task.cell.label, why)
            else:
                _note(folder, task.cell, seconds)
                write_table(what, _finished(runs), setup, folder)
            told(task.cell, done, len(what.cells), seconds)
    except (Interrupted, KeyboardInterrupt):
        raise Interrupted(
            f"stopped after {done} of {len(what.cells)} cells; what they had learned is saved",
            hint=f"go on with: agecli study {name} --resume --out {folder}",
        ) from None
    if not keep:
        _remove_checkpoints(runs.values())
    rows = write_table(what, _finished(runs), setup, folder)
    return Outcome(what, setup, folder, rows, failed)


def _check(plan: Plan) -> None:
    """All that can be wrong with the words of a study, before anything is written."""
    study = find_study(plan.study, str(plan.settings.get("data.setup", "random")))
    if clash := sorted(study.settings & plan.settings.keys()):
        raise InputError(
            f"the study `{plan.study}` varies {' and '.join(clash)} itself",
            hint="leave that out; `agecli train` takes it",
        )
    if plan.settings.get("init"):
        raise InputError(
            "a study begins with new forests, and can't go on from a trained one",
            hint=f"take its backbone alone: --weights {plan.settings['init']}",
        )
    for cell in study.cells:
        config = check(replace(presets(plan.preset or "modern"), {**plan.settings, **cell.settings}))
    updates = config.training.iterations // config.forest.update_every
    if plan.study == "entropy" and not updates:
        raise InputError(
            f"in {config.training.iterations} iterations there is no leaf update, before which H is measured",
            hint=f"use --iterations {2 * config.forest.update_every} or more",
        )


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
    begun = any(is_run(run) for run in folder.glob("runs/*"))  # until then the words may be mended
    if resume and not file.is_file():
        raise MissingError(
            f"there is no study in {folder}", hint="leave out --resume to begin one, or name another --out"
        )
    if not begun:
        if resume:  # what is said now wins, the rest stays as it was said
            old = _read_plan(file)
            said = {key: value for key, value in asdict(plan).items() if value is not None and (data or key != "data")}
            plan = Plan(**{**asdict(old), **said, "settings": {**old.settings, **plan.settings}})
        if folder.exists() and {place.name for place in folder.iterdir()} - {file.name, "runs"}:
            raise InputError(f"{folder} is not empty and holds no study", hint="name another folder with --out")
        with write_whole(file) as part:
            part.write_text(json.dumps({"plan": asdict(plan), **environment(), "seconds": {}}, indent=1))
        return plan
    if not resume:
        raise InputError(
            f"{folder} holds a study already", hint="go on with it by --resume, or name another folder with --out"
        )
    old = _read_plan(file)
    was, now = _words(old), _words(plan)
    if not data:
        del now["data"]
    if different := [
        f"{name}: {was.get(name)} then, {value} now" for name, value in now.items() if was.get(name) != value
    ]:
        raise InputError(
            f"{folder} was started with other words ({'; '.join(different)})",
            hint="a study that goes on keeps its settings: leave these out, or use another --out",
        )
    return old


def _read_plan(file: Path) -> Plan:
    try:
        return Plan(**json.loads(file.read_text())["plan"])
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise InputError(f"{file} can't be read: {error}", hint="begin the study anew with another --out") from error


def _words(plan: Plan) -> dict[str, str]:
    """What was said, by name: settings, and the rest of a plan."""
    said = {
        **{name: value for name, value in asdict(plan).items() if name not in ("settings", "threads")},
        **plan.settings,
    }
    return {name: str(value) for name, value in said.items() if value is not None}


def _note(folder: Path, cell: Cell, seconds: float) -> None:
    """How long a cell took, in study.json: never in study.csv, which is the same on every machine."""
    file = folder / "study.json"
    about = json.loads(file.read_text())
    about["seconds"][cell.name] = round(about["seconds"].get(cell.name, 0) + seconds, 1)
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


Took = tuple[float, str]  # seconds, and why it failed, if it did


def _count_folds(plan: Plan, runs: Mapping[str, Path], tell: Callable[[int, int], None]) -> None:
    """How many folds of all cells are finished, by their files: other processes train them."""
    begun = [run for run in runs.values() if is_run(run)]
    if begun:
        folds = choose_folds(plan.folds, open_run(begun[0]).count_folds())
        tell(sum(1 for run in begun for _ in run.glob("fold-*/metrics.csv")), len(folds) * len(runs))


def _each(
    tasks: Iterable[Task], jobs: int, listener: Listener | None, look: Callable[[], None]
) -> Iterator[tuple[Task, Took]]:
    """How each cell went: one after the other where one can watch, or side by side."""
    if jobs == 1:
        for task in tasks:
            yield task, _train(task, listener)
        return
    yield from as_done(_train, tasks, jobs, "use fewer --jobs, and --resume", look)


def _train(task: Task, listener: Listener | None = None) -> Took:
    began = time.monotonic()
    torch.set_num_threads(task.plan.threads)
    plan = task.plan
    words: dict[str, Any] = {"resume": True}  # a run that is there knows its own settings
    if not is_run(task.run):
        words = {"preset": plan.preset, "settings": {**plan.settings, **task.cell.settings}}
        words |= {"only": plan.list, "exclude": plan.exclude}
    try:
        train(
            plan.data,
            out=task.run,
            folds=plan.folds,
            device=task.device,
            workers=task.workers,
            listener=listener,
            **words,
        )
    except TrainingError as error:  # a loss that is no number is a result, too
        return time.monotonic() - began, error.message
    return time.monotonic() - began, ""


def _remove_checkpoints(runs: Iterable[Path]) -> None:
    """Of all folds but the first: each holds the whole backbone."""
    for run in map(open_run, filter(is_run, runs)):
        for number in run.folds_there()[1:]:
            for file in run.fold(number).glob("*.safetensors"):
                file.unlink()
