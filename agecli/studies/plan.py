"""The plan of a study: everything its numbers depend on, kept in study.json so that it can be resumed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agecli.core.config import Config, check, replace
from agecli.core.config import preset as presets
from agecli.core.errors import InputError, MissingError
from agecli.core.files import write_text
from agecli.core.locks import is_lock
from agecli.core.parallel import cores
from agecli.core.reading import read_object, read_text, shown
from agecli.studies.cells import Cell, Study, find_study
from agecli.training.plan import requested_settings
from agecli.training.run_folder import environment, is_run

FILE = "study.json"


@dataclass(frozen=True)
class StudyPlan:
    """The options that all cells of a study are trained with; the field `plan` of study.json."""

    study: str
    data: str  # absolute path
    preset: str | None
    settings: dict[str, Any]  # by their dotted names
    folds: str | None
    list: str | None  # file of the photos to use, absolute
    exclude: str | None  # file of the photos to leave out, absolute
    threads: int  # of each cell: with another number, sums differ in their last digits
    forests: int | None = None  # random assignments of the study `phi`; None: as many as it has by default

    @property
    def setup(self) -> str:
        """The protocol that the faces are split by."""
        return str(self.settings.get("data.setup", "random"))

    def find(self) -> Study:
        """The cells of the study. Raises InputError if there is no such study."""
        return find_study(self.study, self.setup, self.forests)


def make_plan(
    name: str,
    data: str | Path | None,
    jobs: int,
    *,
    preset: str | None = None,
    config: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
    folds: str | None = None,
    only: str | Path | None = None,
    exclude: str | Path | None = None,
    forests: int | None = None,
    **named: Any,
) -> StudyPlan:
    """The plan of a study, from keyword arguments as `train` takes them; `named` are settings by their short names.

    jobs: cells to train in parallel, which share the cores;   forests: random assignments of the study `phi`
    Raises InputError for wrong options.
    """
    if jobs < 1:
        raise InputError(f"--jobs must be at least 1, not {jobs}", hint="use --jobs 1 or more")
    changes = requested_settings(config, named, settings)
    source = str(Path(data or "aligned").resolve())
    used, left_out = (str(Path(file).resolve()) if file else None for file in (only, exclude))
    plan = StudyPlan(name, source, preset, changes, folds, used, left_out, max(1, cores() // jobs), forests)
    check_plan(plan)
    return plan


def planned_config(plan: StudyPlan) -> Config:
    """The settings that all cells share."""
    return replace(presets(plan.preset or "modern"), plan.settings)


def check_plan(plan: StudyPlan) -> None:
    """Raise InputError for a study that can't run as planned, before anything is written."""
    study = plan.find()
    if clash := sorted(study.settings & plan.settings.keys()):
        raise InputError(
            f"the study `{plan.study}` varies {' and '.join(clash)} itself",
            hint="leave that out; `agecli train` takes it",
        )
    if plan.settings.get("init"):
        raise InputError(
            "a study trains new forests, and can't continue from a trained one",
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


def open_plan(plan: StudyPlan, folder: Path, resume: bool, data_given: bool) -> StudyPlan:
    """The plan to run in `folder`: the new one, or that of the study which is resumed there.

    data_given: whether the data folder of `plan` was named, and is not only the default
    Raises InputError if the folder holds something else, or a study with other options; MissingError if there is no
    study to resume.
    """
    file = folder / FILE
    if resume and not file.is_file():
        raise MissingError(
            f"there is no study in {folder}", hint="leave out --resume to start one, or name another --out"
        )
    if not any(is_run(run) for run in folder.glob("runs/*")):  # no cell was begun: options may still change
        return _start(_merged(plan, read_plan(file), data_given) if resume else plan, folder)
    if not resume:
        raise InputError(
            f"{folder} holds a study already", hint="continue it with --resume, or name another folder with --out"
        )
    old = read_plan(file)
    _same_options(old, plan, folder, data_given)
    return old


def join_plan(plan: StudyPlan, folder: Path, data_given: bool) -> StudyPlan:
    """The plan to run in a folder that several processes share: the first one writes it, the others take it as it is.

    Raises InputError as `open_plan` does.
    """
    if not (folder / FILE).is_file():
        return open_plan(plan, folder, False, data_given)
    old = read_plan(folder / FILE)
    _same_options(old, plan, folder, data_given)
    return old


def _merged(plan: StudyPlan, old: StudyPlan, data_given: bool) -> StudyPlan:
    """The old plan with the options that are given now."""
    given = {key: value for key, value in asdict(plan).items() if value is not None and (data_given or key != "data")}
    return StudyPlan(**{**asdict(old), **given, "settings": {**old.settings, **plan.settings}})


def _start(plan: StudyPlan, folder: Path) -> StudyPlan:
    """Write study.json to a folder that is empty, or holds a study of which no cell was begun."""
    check_plan(plan)
    if folder.exists() and {place.name for place in folder.iterdir() if not is_lock(place)} - {FILE, "runs"}:
        raise InputError(f"{folder} is not empty and holds no study", hint="name another folder with --out")
    _write(folder / FILE, {"plan": asdict(plan), **environment(), "seconds": {}})
    return plan


def _same_options(old: StudyPlan, new: StudyPlan, folder: Path, data_given: bool) -> None:
    """Raise InputError if an option is given that differs from the study in `folder`."""
    was, now = _options(old), _options(new)
    if not data_given:
        del now["data"]
    changed = [f"{name}: {was.get(name)} then, {value} now" for name, value in now.items() if was.get(name) != value]
    if changed:
        raise InputError(
            f"{folder} was started with other options ({'; '.join(changed)})",
            hint="a resumed study keeps its settings: leave these out, or use another --out",
        )


def _options(plan: StudyPlan) -> dict[str, str]:
    """All options that were given, by name: settings, and the other fields of a plan."""
    fields = {name: value for name, value in asdict(plan).items() if name not in ("settings", "threads")}
    return {name: str(value) for name, value in {**fields, **plan.settings}.items() if value is not None}


def read_plan(file: Path) -> StudyPlan:
    """The plan in study.json. Raises InputError if the file is damaged."""
    try:
        return StudyPlan(**read_object(read_text(file), str(file))["plan"])
    except (KeyError, TypeError, OSError) as error:
        raise InputError(
            f"{file} can't be read: {shown(error)}", hint="start the study again with another --out"
        ) from error


def note_outcome(folder: Path, cell: Cell, seconds: float, reason: str) -> None:
    """Add the time that a cell took to study.json, and why it failed; not to study.csv, which is the same everywhere.

    reason: "" if it did not fail
    """
    about = json.loads((folder / FILE).read_text())
    about["seconds"][cell.name] = round(about["seconds"].get(cell.name, 0) + seconds, 1)
    failed = {**about.get("failed", {}), cell.name: reason}
    about["failed"] = {name: why for name, why in failed.items() if why}
    _write(folder / FILE, about)


def read_failures(folder: Path) -> dict[str, str]:
    """Why the last training of each failed cell ended, by its name."""
    failed: dict[str, str] = json.loads((folder / FILE).read_text()).get("failed", {})
    return failed


def _write(file: Path, content: Mapping[str, Any]) -> None:
    write_text(file, json.dumps(content, indent=1))
