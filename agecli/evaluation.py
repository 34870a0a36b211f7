"""Evaluation: a run or a checkpoint on faces whose ages are known."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from agecli import config as configs
from agecli.ages import AgeGrid
from agecli.checkpoint import Checkpoint, load_checkpoint
from agecli.config import Config
from agecli.data.manifest import Manifest, read_manifest
from agecli.data.splits import Fold, leakage, make_folds
from agecli.devices import keep_memory, pick_device
from agecli.errors import InputError, MissingError
from agecli.inputs import Inputs, PixelInputs, frozen_inputs
from agecli.metrics import Metrics, Prediction, measure, predictions, tidy, write_results
from agecli.runs import Run, open_run, read_folds, write_report

log = logging.getLogger("agecli")
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Result:
    """One model on one set of faces."""

    name: str  # fold-1, or the checkpoint's
    folder: Path  # where predictions.csv and metrics.csv are
    metrics: Metrics
    predictions: list[Prediction]
    leakage: float | None
    broken: dict[str, str]

    def row(self) -> dict[str, Any]:
        return {"model": self.name, **self.metrics.row(), "leakage": tidy(self.leakage)}


def evaluate(
    model: str | Path | None = None,
    *,
    data: str | Path | None = None,
    setup: str | None = None,
    out: str | Path | None = None,
    device: str = "auto",
    workers: int | None = None,
    progress: Progress = lambda done, total: None,
) -> list[Result]:
    """MAE, CS@5 and more of a run's folds on their test parts, or of a checkpoint on a data folder."""
    if model is None:
        raise MissingError(
            "there is no bundled model yet", hint="name a run folder or a checkpoint: agecli evaluate runs/NAME"
        )
    path = Path(model)
    if not path.exists():
        raise MissingError(f"there is no run or checkpoint {path}", hint="`agecli train` makes one: runs/NAME")
    target = pick_device(device)
    keep_memory()
    run = open_run(path) if path.is_dir() else None
    if run is None and data is None:
        raise InputError(f"on which faces should {path} be measured?", hint="name a data folder with --data DIR")
    own = run is not None and data is None and setup is None  # each fold on its own test part
    folder = Path(data) if data else run.data if run else Path()
    if out:
        base = Path(out)
    elif own:
        base = path
    else:
        base = (path if run else path.parent) / f"evaluation-{folder.resolve().name}"
    results: list[Result] = []
    inputs: Inputs | None = None
    for job in _jobs(path, run, folder, setup):
        checkpoint = load_checkpoint(job.checkpoint)
        if inputs is None or not checkpoint.config.backbone.freeze:
            inputs = _inputs(
                checkpoint, job.manifest, target, workers, progress
            )  # a frozen backbone is the same in all
        results.append(_measure(job, base / job.name, checkpoint, inputs, target))
    if own and run is not None and out is None:
        write_report(run, {int(r.name.removeprefix("fold-")): r.leakage for r in results})
    return results


@dataclass(frozen=True)
class Job:
    """One checkpoint and the faces to measure it on."""

    name: str  # of the folder for its results
    checkpoint: Path
    manifest: Manifest
    fold: Fold  # its test part is measured; its training part is what the checkpoint has seen, as far as that is known


def _jobs(path: Path, run: Run | None, folder: Path, setup: str | None) -> Iterator[Job]:
    """The finished folds of a run, or a checkpoint, on their own test parts, on those of a setup, or on all faces."""
    config = run.config if run else load_checkpoint(path).config
    manifest = read_manifest(folder, AgeGrid(config.ages.low, config.ages.high))
    same = run is not None and manifest.digest == run.digest
    own = {fold.number: fold for fold in read_folds(run, manifest)} if run and same else {}
    if run is not None and setup is None and folder.resolve() == run.data.resolve():
        read_folds(run, manifest)  # an error if the faces have changed
        yield from (Job(f"fold-{n}", run.checkpoint(n), manifest, own[n]) for n in _finished(run))
        return
    models = [(f"fold-{n}", run.checkpoint(n), own.get(n)) for n in _finished(run)] if run else [("", path, None)]
    tests = [(f"{setup}-{fold.number}", fold.test) for fold in _folds(manifest, config, setup)] if setup else []
    for name, checkpoint, trained in models:
        for part, test in tests or [("", tuple(range(len(manifest.samples))))]:
            seen = (trained.train, trained.val) if trained else ((), ())
            yield Job("/".join(filter(None, (name, part))), checkpoint, manifest, Fold(1, *seen, test))


def _folds(manifest: Manifest, config: Config, setup: str) -> list[Fold]:
    data = configs.replace(config, {"data.setup": setup}).data
    return make_folds(manifest.samples, dataclasses.replace(data, val_share=0.0), config.training.seed)


def _finished(run: Run) -> list[int]:
    numbers = sorted(int(folder.name.removeprefix("fold-")) for folder in run.folder.glob("fold-*") if folder.is_dir())
    finished = [number for number in numbers if run.finished(number)]
    if not finished:
        raise MissingError(
            f"no fold of {run.folder} is finished", hint=f"go on with: agecli train --resume --out {run.folder}"
        )
    return finished


def _inputs(
    checkpoint: Checkpoint, manifest: Manifest, device: torch.device, workers: int | None, progress: Progress
) -> Inputs:
    if checkpoint.config.backbone.freeze:
        return frozen_inputs(checkpoint.model, checkpoint.config, manifest, device, workers, progress)
    return PixelInputs(manifest, checkpoint.config, device, workers)


def _measure(job: Job, folder: Path, checkpoint: Checkpoint, inputs: Inputs, device: torch.device) -> Result:
    model, samples = checkpoint.model.to(device), job.manifest.samples
    units = inputs.units(model, job.fold.test)
    tested = {samples[index].path for index in job.fold.test}
    broken = {path: reason for path, reason in units.broken.items() if path in tested}
    for path, reason in broken.items():
        log.warning("left out %s: %s", path, reason)
    with torch.inference_mode():
        pmf = model.ages(units.values.to(device)).cpu()
    results = predictions(pmf, [samples[index] for index in units.indices], model.forest.readout, model.forest.grid)
    metrics = measure(results)
    write_results(folder, results, metrics)
    share = leakage(samples, job.fold) if job.fold.train else None
    if set(job.fold.train) & set(job.fold.test):
        log.warning("%s was trained on some of these faces: its error on new ones is larger", job.checkpoint)
    return Result(job.name or job.checkpoint.stem, folder, metrics, results, share, broken)
