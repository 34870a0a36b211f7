"""Training: every fold of a setup, from the data folder to the report, going on after a stop where it was."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from agecli.core import config as configs
from agecli.core.config import OPTIONS, Config, check, implied, replace
from agecli.core.errors import InputError, Interrupted, MissingError
from agecli.core.signals import stop_flag
from agecli.datasets.manifest import Manifest
from agecli.datasets.protocols import Fold, leakage
from agecli.datasets.splitting import plan
from agecli.forest.schedules import split_temperature
from agecli.images.alignment import Alignment
from agecli.model.checkpoint import fingerprint
from agecli.model.devices import keep_memory, one_thread, pick_device
from agecli.model.network import AgeModel
from agecli.training import distributed
from agecli.training.folds import Job, Listener, train_fold
from agecli.training.initialisation import begun_with, first_model, take_over
from agecli.training.inputs import PixelInputs, frozen_inputs
from agecli.training.run_folder import (
    Run,
    check_backbone,
    is_barely_begun,
    is_run,
    open_run,
    read_faces,
    start_run,
    write_report,
)

log = logging.getLogger("agecli")
WARM = 0.1  # T at the end of a run above which a warning is due


@dataclass(frozen=True)
class Report:
    """What `train` returns: the rows of report.csv and the pictures that had to be left out."""

    run: Path
    rows: list[dict[str, Any]]
    broken: dict[str, str]


def train(
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
    resume: bool = False,
    listener: Listener | None = None,
    **options: Any,
) -> Report:
    """Train a model for every fold of a setup. `options` are the short names: model, setup, backbone, lr, …"""
    changes = asked_for(config, options, settings)
    target = pick_device(device)
    keep_memory()
    distributed.join(target)
    try:
        chosen_by = {name: str(file) for name, file in (("list", list), ("exclude", exclude)) if file}
        run, manifest, parts = _open(data, out, preset, changes, chosen_by, resume)
        chosen = choose_folds(folds, len(parts))
        if run.config.training.batch_size % distributed.ranks():
            raise InputError(
                f"a batch of {run.config.training.batch_size} can't be shared out evenly over {distributed.ranks()} processes",
                hint="use a --batch-size that is a multiple of them",
            )
        start, trained = first_model(run.config)
        check_backbone(run, fingerprint(start))
        with stop_flag() as stop:
            job = _job(run, manifest, start, trained, target, workers, listener or Listener(), stop)
            if distributed.rank() == 0 and not is_run(run.folder):  # all that can be wrong was tried before
                start_run(run, manifest, parts, str(target), fingerprint(start))
            distributed.barrier()
            job.listener.run_started(run, manifest, [parts[number - 1] for number in chosen])
            _warn_if_warm(run.config)
            with one_thread(run.config.backbone.freeze and target.type == "cpu"):
                for number in chosen:
                    if not run.finished(number):
                        train_fold(job, parts[number - 1])
                    distributed.barrier()
        shares = {fold.number: leakage(manifest.samples, fold) for fold in parts}
        rows = write_report(run, shares) if distributed.rank() == 0 else []
        return Report(run.folder, rows, job.broken)
    finally:
        distributed.leave()


def _warn_if_warm(config: Config) -> None:
    """Say so if the run ends while the splits are still held soft: it will predict wide and near the mean."""
    forest = config.forest
    T = split_temperature(config.training.iterations // forest.update_every, forest.split_temperature, forest.cooling)
    if T > WARM:
        log.warning(
            "%d iterations cool T from %g to %.2f only; for sharper splits use more --iterations, or --set forest.cooling=%.2g",
            config.training.iterations,
            forest.split_temperature,
            T,
            max(0.1, forest.cooling**3),
        )


def asked_for(
    config: str | Path | None, options: Mapping[str, Any], settings: Mapping[str, Any] | None
) -> dict[str, Any]:
    """All settings that are asked for, by their dotted names. Files get their full names: a resumed run may be called
    from elsewhere."""
    changes = {**read_file(config), **named_settings(options), **(settings or {})}
    for name in ("init", "backbone.weights"):
        if name in changes and (path := Path(str(changes[name])).expanduser()).is_file():
            changes[name] = str(path.resolve())
    return changes


def read_file(file: str | Path | None) -> dict[str, Any]:
    """The settings of a TOML file."""
    if file is None:
        return {}
    path = Path(file)
    if not path.is_file():
        raise MissingError(f"there is no config file {path}", hint="`agecli info --settings` prints one")
    return configs.read_toml(path.read_text(encoding="utf-8"), str(path))


def named_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """The settings behind short names."""
    for name in options:
        if name not in OPTIONS:
            raise InputError(f"train() has no option `{name}`", hint=f"there are: {', '.join(OPTIONS)}")
    return {OPTIONS[name]: value for name, value in options.items() if value is not None}


def _open(
    data: str | Path | None,
    out: str | Path | None,
    preset: str | None,
    changes: Mapping[str, Any],
    chosen_by: Mapping[str, str],
    resume: bool,
) -> tuple[Run, Manifest, list[Fold]]:
    """The run that is asked for: a new one, or the one that is there, with the faces and folds it was started with."""
    config = replace(configs.preset(preset or "modern"), {**implied(changes), **changes})
    folder = Path(out) if out else Path("runs") / f"{config.model}-{config.data.setup}"
    there = is_run(folder)
    distributed.barrier()  # all ranks have looked before the first one writes
    if there and not resume:
        raise InputError(
            f"{folder} holds a run already", hint="go on with it by --resume, or name another folder with --out"
        )
    if there:
        run = open_run(folder)
        asked = dict(configs.settings(replace(configs.preset(preset) if preset else run.config, changes)))
        said = {*changes, *(configs.preset_differences() if preset else ())}
        different = [name for name, old in configs.settings(run.config) if name in said and asked[name] != old]
        if different:
            raise InputError(
                f"{folder} was started with another {' and '.join(different)}",
                hint="a resumed run keeps its settings: leave these out, or start a new run with another --out",
            )
        if chosen_by and tuple(chosen_by.items()) != run.chosen_by:
            was = " ".join(f"--{name} {file}" for name, file in run.chosen_by) or "all faces"
            raise InputError(
                f"{folder} was started with {was}",
                hint="a resumed run keeps its faces: leave --list and --exclude out, or use another --out",
            )
        return run, *read_faces(run, Path(data) if data else None)
    config = check(take_over(config, {**implied(changes), **changes}))
    if folder.exists() and not is_barely_begun(folder):
        raise InputError(f"{folder} is not empty and holds no run", hint="name another folder with --out")
    source = Path(data or "aligned")
    if alignment := Alignment.read(source):
        config = replace(config, {f"alignment.{name}": value for name, value in vars(alignment).items()})
    manifest, parts = plan(source, config, chosen_by.get("list"), chosen_by.get("exclude"))
    if known := begun_with(config):
        known.warn_of_frame(source)
    smallest = min(len(fold.train) for fold in parts)
    if config.training.batch_size > smallest:
        raise InputError(
            f"a batch of {config.training.batch_size} is larger than the training part of {smallest} faces",
            hint=f"use --batch-size {smallest} or less",
        )
    return Run(folder, config, source, manifest.digest, tuple(chosen_by.items())), manifest, parts


def choose_folds(text: str | None, there: int) -> list[int]:
    """`1-3,5` as numbers; all of them if nothing is said."""
    if not text:
        return list(range(1, there + 1))
    chosen: set[int] = set()
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if not first.isdigit() or (last and not last.isdigit()):
            raise InputError(f"`{part}` is no range of folds", hint="write --folds 1-3 or --folds 1,4")
        chosen |= set(range(int(first), int(last or first) + 1))
    if not chosen or min(chosen) < 1 or max(chosen) > there:
        raise InputError(f"--folds {text} asks for folds that are not there", hint=f"this setup has folds 1 to {there}")
    return sorted(chosen)


def _job(
    run: Run,
    manifest: Manifest,
    start: AgeModel,
    trained: bool,
    device: torch.device,
    workers: int | None,
    listener: Listener,
    stop: threading.Event,
) -> Job:
    config = run.config
    inputs = PixelInputs(manifest, config, device, workers)
    job = Job(run, manifest, config, device, inputs, start, trained, listener, stop)
    if config.backbone.freeze:

        def progress(done: int, total: int) -> None:
            listener.features_computed(done, total)
            if stop.is_set():
                raise Interrupted(
                    f"stopped after the features of {done} of {total} faces", hint="run it again: they are kept"
                )

        job.inputs = frozen_inputs(start, config, manifest, device, workers, progress)
        job.skip(job.inputs.features.broken)
    return job
