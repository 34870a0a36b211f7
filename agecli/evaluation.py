"""Evaluation: a run or a checkpoint on faces whose ages are known."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Sequence
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
    target = pick_device(device)
    keep_memory()
    path = Path(model)
    folder = Path(data) if data else None
    if path.is_dir():
        run = open_run(path)
        if folder is None and setup is None:
            return _evaluate_run(run, Path(out) if out else None, target, workers, progress)
        jobs = [
            (f"fold-{number}", run.fold(number) / f"{selected(run.config)}.safetensors") for number in _finished(run)
        ]
        folder = folder or run.data
    else:
        jobs = [(path.stem, path)]
    if folder is None:
        raise InputError(f"on which faces should {path} be measured?", hint="name a data folder with --data DIR")
    base = Path(out) if out else (path if path.is_dir() else path.parent) / f"evaluation-{folder.resolve().name}"
    results = []
    for name, file in jobs:
        checkpoint = load_checkpoint(file)
        manifest = read_manifest(folder, AgeGrid(checkpoint.config.ages.low, checkpoint.config.ages.high))
        where = base / name if len(jobs) > 1 else base
        for fold in _chosen(manifest, checkpoint.config, setup):
            here = where / f"fold-{fold.number}" if fold.number > 1 else where
            inputs = _inputs(checkpoint, manifest, target, workers, progress)
            results.append(_measure(name, here, checkpoint, manifest, fold.test, None, inputs, target))
    return results


def selected(config: Config) -> str:
    """The checkpoint that a run's numbers come from."""
    return "best" if config.training.select == "val" else "last"


def _finished(run: Run) -> list[int]:
    numbers = sorted(int(folder.name.removeprefix("fold-")) for folder in run.folder.glob("fold-*") if folder.is_dir())
    finished = [number for number in numbers if run.finished(number)]
    if not finished:
        raise MissingError(
            f"no fold of {run.folder} is finished", hint=f"go on with: agecli train --resume --out {run.folder}"
        )
    return finished


def _evaluate_run(
    run: Run, out: Path | None, device: torch.device, workers: int | None, progress: Progress
) -> list[Result]:
    """Every finished fold on its own test part."""
    manifest = read_manifest(run.data, AgeGrid(run.config.ages.low, run.config.ages.high))
    folds = {fold.number: fold for fold in read_folds(run, manifest)}
    results: list[Result] = []
    inputs: Inputs | None = None
    for number in _finished(run):
        checkpoint = load_checkpoint(run.fold(number) / f"{selected(run.config)}.safetensors")
        if inputs is None:  # of a frozen backbone: the same features for all folds
            inputs = _inputs(checkpoint, manifest, device, workers, progress)
        folder = (out or run.folder) / f"fold-{number}"
        share = leakage(manifest.samples, folds[number])
        results.append(
            _measure(f"fold-{number}", folder, checkpoint, manifest, folds[number].test, share, inputs, device)
        )
    if out is None:
        write_report(run, {number: leakage(manifest.samples, fold) for number, fold in folds.items()})
    return results


def _chosen(manifest: Manifest, config: Config, setup: str | None) -> list[Fold]:
    """The test parts of a setup, or all faces if none is named."""
    if setup is None:
        return [Fold(1, (), (), tuple(range(len(manifest.samples))))]
    data = configs.replace(config, {"data.setup": setup}).data
    return make_folds(manifest.samples, dataclasses.replace(data, val_share=0.0), config.training.seed)


def _inputs(
    checkpoint: Checkpoint, manifest: Manifest, device: torch.device, workers: int | None, progress: Progress
) -> Inputs:
    if checkpoint.config.backbone.freeze:
        return frozen_inputs(checkpoint.model, checkpoint.config, manifest, device, workers, progress)
    return PixelInputs(manifest, checkpoint.config, device, workers)


def _measure(
    name: str,
    folder: Path,
    checkpoint: Checkpoint,
    manifest: Manifest,
    test: Sequence[int],
    share: float | None,
    inputs: Inputs,
    device: torch.device,
) -> Result:
    model = checkpoint.model.to(device)
    units = inputs.units(model, test)
    broken = {path: reason for path, reason in units.broken.items() if path in {manifest.samples[i].path for i in test}}
    for path, reason in broken.items():
        log.warning("left out %s: %s", path, reason)
    with torch.inference_mode():
        pmf = model.ages(units.values.to(device)).cpu()
    samples = [manifest.samples[index] for index in units.indices]
    results = predictions(pmf, samples, model.forest.readout, model.forest.grid)
    metrics = measure(results)
    write_results(folder, results, metrics)
    return Result(name, folder, metrics, results, share, broken)
