"""`train`: every fold of a setup, from the data folder to the report, resumed where it was stopped."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from agecli.core.config import OPTIONS, Config, Ensemble, LeafInit, ModelName, Select, Setup
from agecli.core.errors import InputError, TrainingError
from agecli.core.locks import LockedError, locked
from agecli.core.signals import stop_flag
from agecli.datasets.protocols import leakage
from agecli.forest import schedules
from agecli.model.checkpoint import fingerprint
from agecli.model.devices import keep_memory, one_thread, pick_device
from agecli.model.fingerprint import read_fingerprint
from agecli.scaling.engines import POLL
from agecli.scaling.plan import FOREVER
from agecli.scaling.selection import select
from agecli.training import distributed
from agecli.training.context import FeatureProgress, Listener, RunContext
from agecli.training.folds import train_fold
from agecli.training.initialisation import first_model, initial_file
from agecli.training.inputs import make_inputs
from agecli.training.plan import PlannedRun, Request, choose_folds, plan_run, requested, requested_settings
from agecli.training.run_folder import check_backbone, is_run, start_run, write_report

log = logging.getLogger("agecli")
WARM = 0.1  # T at the end of a run above which a warning is due

PREPARE = "prepare"  # a shard without folds


@dataclass(frozen=True)
class Report:
    """What `train` returns: the run folder, the rows of report.csv, and the unreadable pictures with the reasons."""

    run: Path
    rows: list[dict[str, Any]]
    broken: dict[str, str]


def train(
    data: str | Path | None = None,
    *,
    model: ModelName | None = None,
    setup: Setup | None = None,
    out: str | Path | None = None,
    preset: str | None = None,
    config: str | Path | None = None,
    backbone: str | None = None,
    weights: str | Path | None = None,
    init: str | Path | None = None,
    freeze: bool | None = None,
    iterations: int | None = None,
    batch_size: int | None = None,
    lr: float | None = None,
    trees: int | None = None,
    depth: int | None = None,
    units: int | None = None,
    alpha: float | None = None,
    leaf_init: LeafInit | None = None,
    split_temperature: float | None = None,
    leaf_temperature: float | None = None,
    ensemble: Ensemble | None = None,
    select: Select | None = None,
    seed: int | None = None,
    settings: Mapping[str, Any] | None = None,
    folds: str | None = None,
    only: str | Path | None = None,
    exclude: str | Path | None = None,
    align: bool = False,
    device: str = "auto",
    workers: int | None = None,
    resume: bool = False,
    shard: str | None = None,
    listener: Listener | None = None,
) -> Report:
    """Train a model for every fold of a setup, test it, and write a run folder.

    data: folder with a manifest.csv or a labels.csv, `aligned` by default; a resumed run knows its own.
    model to seed: the settings people change most. None leaves the preset's value; `agecli info --settings` prints
        every setting with its meaning and default.
    out: the run folder, `runs/<model>-<setup>` by default.
    preset: `modern` (default) or `paper`.   config: a TOML file of settings, over the preset.
    settings: any other setting by its dotted name, such as {"training.clip_norm": 1.0}.
    folds: only these, such as "1-3,5".   only, exclude: a file of picture names to use, or to leave out.
    align: `data` holds photos, whose faces are found and aligned first, into runs/aligned.
    device: auto, cpu, cuda, cuda:N or mps.   workers: processes that read pictures.
    resume: continue the run in `out` as if it had not been stopped.   listener: callbacks while it runs.
    shard: the share of the folds that this process does, as "0/4" or "env" (see `scaling.selection.select`), in a folder
        that it shares with other processes; PREPARE begins the run and trains nothing.

    Under torchrun all ranks train one model, and rank 0 writes; ranks that it started again resume. Raises InputError for wrong settings or data,
    MissingError if data, weights or a device is missing, TrainingError if the loss is not finite, and Interrupted
    after SIGINT or SIGTERM, when all is saved.

    >>> agecli.train("aligned", model="dldlf", setup="II", freeze=True, lr=1e-3).rows[0]["mae"]
    """
    arguments = locals()
    options = {name: arguments[name] for name in OPTIONS}
    request = Request(
        Path(data) if data else None,
        Path(out) if out else None,
        preset,
        requested_settings(config, options, settings),
        {name: str(file) for name, file in (("list", only), ("exclude", exclude)) if file},
        resume,
        align,
    )
    target = pick_device(device)
    keep_memory()
    distributed.join(target)
    if distributed.was_restarted():
        request = replace(request, resume=True)
    if shard is not None and distributed.ranks() > 1:
        raise InputError("--shard is for single processes", hint="without it, torchrun shares every batch")
    try:
        if shard is not None:
            return _train_shard(request, shard, target, workers, listener or Listener())
        with locked(requested(request)[1], folder=True) if distributed.rank() == 0 else nullcontext():
            planned = plan_run(request)
            chosen = choose_folds(folds, len(planned.folds))
            with stop_flag() as stop:
                context = _start(planned, target, workers, listener or Listener(), stop)
                _train_folds(context, planned, chosen)
            return _report(context, planned)
    except RuntimeError as error:
        if not distributed.is_lost_connection(error):
            raise
        raise TrainingError(
            "another rank was lost", hint="torchrun --max-restarts N starts all ranks again, from the last saved state"
        ) from error
    finally:
        distributed.leave()


def _train_shard(request: Request, shard: str, device: torch.device, workers: int | None, listener: Listener) -> Report:
    """The same for some of the folds. The run's lock is held at the beginning and at the end, a fold's while it is trained.

    A fold that another process trains is waited for, and taken over if that process is killed. Each process writes the
    report of the folds that are finished by then: the last one that of all.
    """
    folder = requested(request)[1]
    with stop_flag() as stop:
        with locked(folder, folder=True, patience=FOREVER):
            planned = plan_run(replace(request, resume=request.resume or is_run(folder)))
            context = _start(planned, device, workers, listener, stop)
        if shard == PREPARE:
            return Report(folder, [], {})
        waiting = [number + 1 for number in select(shard, len(planned.folds), os.environ)]
        while waiting:
            busy = []
            for number in waiting:
                try:
                    with locked(context.run.fold(number), patience=0):
                        _train_folds(context, planned, [number])
                except LockedError:
                    busy.append(number)
            if waiting := busy:
                time.sleep(POLL)
    with locked(folder, folder=True, patience=FOREVER):
        return _report(context, planned)


def _start(
    planned: PlannedRun, device: torch.device, workers: int | None, listener: Listener, stop: threading.Event
) -> RunContext:
    """Load the initial model and the inputs; write the run folder last, when all that can be wrong was tried."""
    run, ranks = planned.run, distributed.ranks()
    if run.config.training.batch_size % ranks:
        raise InputError(
            f"a batch of {run.config.training.batch_size} can't be shared evenly by {ranks} processes",
            hint=f"use a --batch-size that is a multiple of {ranks}",
        )
    model, fine_tuned = first_model(run.config, planned.initial)
    weights_hash = fingerprint(model)
    check_backbone(run, weights_hash)
    progress = FeatureProgress(listener, stop)
    inputs = make_inputs(model, run.config, planned.manifest, device, workers, progress)
    parent = read_fingerprint(initial_file(run.config)) if planned.initial else None
    context = RunContext(
        run, planned.manifest, device, inputs, model, fine_tuned, listener, stop, planned.initial is None, parent
    )
    context.skip(inputs.broken)
    if distributed.rank() == 0 and not is_run(run.folder):
        start_run(run, planned.manifest, planned.folds, str(device), weights_hash)
    distributed.barrier()
    return context


def _train_folds(context: RunContext, planned: PlannedRun, chosen: list[int]) -> None:
    """Train the chosen folds that are not finished, one after the other."""
    run = context.run
    context.listener.run_started(run, planned.manifest, [planned.folds[number - 1] for number in chosen])
    _warn_if_warm(run.config)
    with one_thread(run.config.backbone.freeze and context.device.type == "cpu"):
        for number in chosen:
            if not run.finished(number):
                train_fold(context, planned.folds[number - 1])
            distributed.barrier()


def _report(context: RunContext, planned: PlannedRun) -> Report:
    """Write report.csv on rank 0; other ranks return no rows. Unreadable pictures are those of all ranks."""
    broken = distributed.union(context.broken)
    leakages = {fold.number: leakage(planned.manifest.samples, fold) for fold in planned.folds}
    rows = write_report(context.run, leakages) if distributed.rank() == 0 else []
    return Report(context.run.folder, rows, broken)


def _warn_if_warm(config: Config) -> None:
    """Warn if the entropy term still counts at the end of the run: its splits stay soft, its predictions wide."""
    forest = config.forest
    updates = config.training.iterations // forest.update_every
    T = schedules.split_temperature(updates, forest.split_temperature, forest.cooling)
    if T > WARM:
        log.warning(
            "%d iterations cool T from %g to %.2f only; for sharper splits use more --iterations, or --set forest.cooling=%.2g",
            config.training.iterations,
            forest.split_temperature,
            T,
            max(0.1, forest.cooling**3),
        )
