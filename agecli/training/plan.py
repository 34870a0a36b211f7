"""The run that is requested: a new one, or the one in the folder, with its settings, faces and folds.

Settings are merged in this order, later ones win: preset, what the model implies, what the initial model or the backbone
implies, TOML file, options by short name, settings by dotted name. A resumed run keeps those it was started with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agecli.core import config as configs
from agecli.core.config import OPTIONS, Config, check, implied, replace
from agecli.core.errors import InputError, MissingError
from agecli.core.reading import read_text
from agecli.core.settings import read_toml
from agecli.datasets.alignment_check import align_folder, aligned_place, check_aligned
from agecli.datasets.manifest import Manifest
from agecli.datasets.protocols import Fold
from agecli.datasets.splitting import plan
from agecli.images.alignment import Alignment
from agecli.model.checkpoint import Checkpoint
from agecli.model.framing import alignment_for
from agecli.training import distributed
from agecli.training.initialisation import load_initial, take_over
from agecli.training.run_folder import Run, is_barely_begun, is_run, open_run, read_faces


@dataclass(frozen=True)
class Request:
    """What a caller of `train` asked for."""

    data: Path | None = None
    out: Path | None = None
    preset: str | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)  # settings by their dotted names
    selection: Mapping[str, str] = field(default_factory=dict)  # the files of --list and --exclude
    resume: bool = False
    align: bool = False  # the data are photos, whose faces are aligned first


@dataclass(frozen=True)
class PlannedRun:
    """A run with all that is needed to train it. Of a new one, nothing is written yet."""

    run: Run
    manifest: Manifest
    folds: list[Fold]
    initial: Checkpoint | None  # the trained model that it starts from, loaded once


def plan_run(request: Request) -> PlannedRun:
    """The run that is requested, the same on all ranks. Raises InputError and MissingError; writes nothing."""
    config, folder = requested(request)
    exists = is_run(folder)
    distributed.barrier()  # rank 0 writes only after all ranks have looked
    if not exists:
        return _new_run(request, folder, config)
    if not request.resume:
        raise InputError(
            f"{folder} holds a run already", hint="continue it with --resume, or name another folder with --out"
        )
    return _resumed_run(request, folder)


def requested(request: Request) -> tuple[Config, Path]:
    """The settings of a new run, before those of an initial model and of the data are added, and the run folder."""
    config = replace(configs.preset(request.preset or "modern"), {**implied(request.changes), **request.changes})
    return config, request.out or Path("runs") / f"{config.model}-{config.data.setup}"


def _new_run(request: Request, folder: Path, config: Config) -> PlannedRun:
    """A new run: settings of the initial model and of the data's alignment are added to those requested."""
    initial = load_initial(config)
    config = check(take_over(config, {**implied(request.changes), **request.changes}, initial))
    if folder.exists() and not is_barely_begun(folder):
        raise InputError(f"{folder} is not empty and holds no run", hint="name another folder with --out")
    data = aligned_data(request.data, config) if request.align else request.data or Path("aligned")
    if alignment := Alignment.read(data):
        config = replace(config, {f"alignment.{name}": value for name, value in vars(alignment).items()})
    manifest, folds = plan(data, config, request.selection.get("list"), request.selection.get("exclude"))
    if not alignment:
        _check_eyes(data, manifest, config)
    if initial:
        initial.card.warn_of_frame(data)
    smallest = min(len(fold.train) for fold in folds)
    if config.training.batch_size > smallest:
        raise InputError(
            f"a batch of {config.training.batch_size} is larger than the training part of {smallest} faces",
            hint=f"use --batch-size {smallest} or less",
        )
    run = Run(folder, config, data, manifest.digest, tuple(request.selection.items()), folds=len(folds))
    return PlannedRun(run, manifest, folds, initial)


def aligned_data(data: Path | None, config: Config) -> Path:
    """The faces of a folder of labelled photos, aligned as the initial model or the backbone needs them (`--align`).

    Made once, in runs/aligned, by rank 0.   data: `aligned` if None.   Raises as `preprocess`.
    """
    alignment = alignment_for(config.init or config.backbone.name)
    folder = data or Path("aligned")
    if distributed.rank() == 0:
        align_folder(folder, alignment)
    distributed.barrier()
    return aligned_place(folder, alignment)


def _check_eyes(data: Path, manifest: Manifest, config: Config) -> None:
    """Raise InputError if the eyes in a folder without an alignment.toml are all over the place: it holds photos."""
    paths = [sample.path for sample in manifest.samples]
    check_aligned(data, paths, None, config.init or config.backbone.name, "train")


def _resumed_run(request: Request, folder: Path) -> PlannedRun:
    """The run in a folder, with the faces and folds that it was started with.

    Raises InputError if settings, --list or --exclude are given and differ from those of the run.
    """
    run = open_run(folder)
    base = configs.preset(request.preset) if request.preset else run.config
    requested = dict(configs.settings(replace(base, request.changes)))
    given = {*request.changes, *(configs.preset_differences() if request.preset else ())}
    different = [name for name, old in configs.settings(run.config) if name in given and requested[name] != old]
    if different:
        raise InputError(
            f"{folder} was started with another {' and '.join(different)}",
            hint="a resumed run keeps its settings: leave these out, or start a new run with another --out",
        )
    if request.selection and tuple(request.selection.items()) != run.selection:
        before = " ".join(f"--{name} {file}" for name, file in run.selection) or "all faces"
        raise InputError(
            f"{folder} was started with {before}",
            hint="a resumed run keeps its faces: leave --list and --exclude out, or use another --out",
        )
    data = None if request.align else request.data  # the run knows its aligned faces
    return PlannedRun(run, *read_faces(run, data), load_initial(run.config))


def requested_settings(
    config: str | Path | None, options: Mapping[str, Any], settings: Mapping[str, Any] | None
) -> dict[str, Any]:
    """All settings that are given, by their dotted names: `settings` override `options`, which override the file.

    config: a TOML file; options: values by short name, None where nothing is given; settings: by dotted name.
    Paths become absolute, because a run may be resumed from another folder. Raises InputError and MissingError.
    """
    changes = {**read_file(config), **named_settings(options), **(settings or {})}
    for name in ("init", "backbone.weights"):
        if name in changes and (path := Path(str(changes[name])).expanduser()).is_file():
            changes[name] = str(path.resolve())
    return changes


def read_file(file: str | Path | None) -> dict[str, Any]:
    """The settings of a TOML file, by their dotted names; none without a file. Raises MissingError, InputError."""
    if file is None:
        return {}
    path = Path(file)
    if not path.is_file():
        raise MissingError(f"there is no config file {path}", hint="`agecli info --settings` prints one")
    return read_toml(read_text(path), str(path))


def named_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by dotted name from settings by short name, without those that are None. Raises InputError."""
    for name in options:
        if name not in OPTIONS:
            raise InputError(f"there is no option `{name}`", hint=f"there are: {', '.join(OPTIONS)}")
    return {OPTIONS[name]: value for name, value in options.items() if value is not None}


def choose_folds(text: str | None, folds: int) -> list[int]:
    """The numbers of the folds in a text such as `1-3,5`; all of them, 1 to `folds`, for None. Raises InputError.

    >>> choose_folds("1-3,5", 5)
    [1, 2, 3, 5]
    """
    if not text:
        return list(range(1, folds + 1))
    chosen: set[int] = set()
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if not first.isdigit() or (last and not last.isdigit()):
            raise InputError(f"`{part}` is no range of folds", hint="write --folds 1-3 or --folds 1,4")
        chosen |= set(range(int(first), int(last or first) + 1))
    if not chosen or min(chosen) < 1 or max(chosen) > folds:
        raise InputError(f"--folds {text} names folds that don't exist", hint=f"this setup has folds 1 to {folds}")
    return sorted(chosen)
