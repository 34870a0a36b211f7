"""Evaluation: runs and checkpoints on faces whose ages are known, alone or against each other."""

from __future__ import annotations

import dataclasses
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from agecli.core import config as configs
from agecli.core.ages import READOUTS, AgeGrid, Readout
from agecli.core.config import Config
from agecli.core.errors import InputError, MissingError
from agecli.datasets.manifest import Manifest, read_manifest, read_names
from agecli.datasets.protocols import Fold, leakage, make_folds
from agecli.model.bundled import DEFAULT, FOLDERS, named
from agecli.model.checkpoint import Checkpoint, load_checkpoint
from agecli.model.devices import keep_memory, pick_device
from agecli.scoring import bootstrap
from agecli.scoring.groups import breakdown, write_pooled, write_results
from agecli.scoring.metrics import Metrics, Predictions, measure, pick, pool, predictions, read_predictions, tidy
from agecli.training.inference import distributions, source_of
from agecli.training.inputs import Inputs, make_inputs
from agecli.training.run_folder import Run, finished_folds, open_run, owner_of, read_faces, write_report

log = logging.getLogger("agecli")
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Result:
    """One model on one set of faces."""

    model: str  # the run or checkpoint, as it was named
    name: str  # fold-1, or the checkpoint's
    folder: Path  # where predictions.csv and metrics.csv are
    data: Path  # where the pictures are
    predictions: Predictions
    rows: list[dict[str, Any]]  # of metrics.csv: all faces, then groups
    leakage: float | None
    broken: dict[str, str]

    @property
    def metrics(self) -> Metrics:
        return measure(self.predictions)

    def row(self) -> dict[str, Any]:
        return {**self.rows[0], "model": self.name, "leakage": tidy(self.leakage)}


def evaluate(
    *models: str | Path,
    data: str | Path | None = None,
    setup: str | None = None,
    readout: str | None = None,
    challenge: Sequence[float] = (),
    exclude: str | Path | None = None,
    out: str | Path | None = None,
    device: str = "auto",
    workers: int | None = None,
    progress: Progress = lambda done, total: None,
) -> list[Result]:
    """What is known of a run's folds on their test parts, or of a checkpoint on a data folder; of several, one by one.

    What a model said of the same faces before is read from its distributions.npz, and the network does not run again.
    """
    models = tuple(named(model, ".safetensors") for model in models or (DEFAULT,))
    if readout is not None and readout not in READOUTS:
        raise InputError(f"unknown readout `{readout}`", hint=f"there are: {', '.join(READOUTS)}")
    target = pick_device(device)
    keep_memory()
    results: list[Result] = []
    different = list({Path(model).resolve(): model for model in models}.values())
    if len(different) < len(models):
        log.warning("a model was named twice, and is measured once")
    for number, model in enumerate(different, 1):
        place = Path(out) / f"{number}-{Path(model).stem}" if out and len(different) > 1 else Path(out) if out else None
        task = Task(Path(model), data, setup, cast("Readout | None", readout), tuple(challenge), exclude, place)
        results += _evaluate(task, target, workers, progress)
    return results


@dataclass(frozen=True)
class Task:
    """One run or checkpoint, and what is to be done with it."""

    model: Path
    data: str | Path | None
    setup: str | None
    readout: Readout | None
    challenge: tuple[float, ...]
    exclude: str | Path | None
    out: Path | None


def _evaluate(task: Task, device: torch.device, workers: int | None, progress: Progress) -> list[Result]:
    path = task.model
    if not path.exists():
        raise MissingError(
            f"there is no run or checkpoint {path}", hint="`agecli train` makes one: runs/NAME/fold-1/best.safetensors"
        )
    run = open_run(path) if path.is_dir() else None
    if run is None and task.data is None:
        raise InputError(
            f"{path} is a checkpoint, which knows no faces", hint="name a data folder with --data, or a run folder"
        )
    folder = Path(task.data) if task.data else cast(Run, run).data
    own = run is not None and task.setup is None and folder.resolve() == run.data.resolve()
    plain = own and task.readout is None
    base = task.out or (path if run else Path("runs") if path.parent in FOLDERS else path.parent)
    if not task.out and not plain:
        base /= "-".join(filter(None, ("evaluation", "" if own else folder.resolve().name, task.readout)))
        base = base if run else base / path.stem
    results: list[Result] = []
    inputs: Inputs | None = None
    for job in _jobs(task, run, folder, own):
        checkpoint = load_checkpoint(job.checkpoint)
        if not own:
            checkpoint.warn_of_frame(folder)
        source = source_of(job.checkpoint, job.manifest, job.fold.test)
        stored = _stored(job, base, source)
        if stored is None:
            if inputs is None or not checkpoint.config.backbone.freeze:  # a frozen backbone is the same in all
                inputs = _inputs(checkpoint, job.manifest, device, workers, progress)
            stored = _ask(job, checkpoint, inputs, device)
        if plain and stored[1] and not task.out:  # what the run once measured on all of its faces stays
            base = path / "evaluation"
        results.append(_measure(task, job, base / job.name, checkpoint, *stored, source))
    if plain and run is not None and base == path:
        write_report(run, {int(r.name.removeprefix("fold-")): r.leakage for r in results})
    elif len(results) > 1:
        write_pooled(base, {result.name: result.predictions for result in results}, task.challenge)
    return results


@dataclass(frozen=True)
class Job:
    """One checkpoint and the faces to measure it on."""

    name: str  # of the folder for its results
    checkpoint: Path
    manifest: Manifest
    fold: Fold  # its test part is measured; its training part is what the checkpoint has seen, as far as that is known
    known: Path | None = None  # where the run keeps what this checkpoint said of these faces


Said = tuple[Predictions, dict[str, str]]  # and the pictures that could not be read


def _jobs(task: Task, run: Run | None, folder: Path, own: bool) -> Iterator[Job]:
    """The finished folds of a run, or a checkpoint, on their own test parts, on those of a setup, or on all faces."""
    config = run.config if run else load_checkpoint(task.model).config
    if run is not None and own:
        manifest, folds = read_faces(run, folder)  # an error if the faces have changed
        parts = {fold.number: fold for fold in folds}
        for n in finished_folds(run):
            yield Job(f"fold-{n}", run.checkpoint(n), manifest, parts[n], run.fold(n))
        return
    owner, number = (run, 0) if run else owner_of(task.model)
    if owner is not None and folder.resolve() == owner.data.resolve():
        manifest, _ = read_faces(owner, folder)  # of a folder, a run knows the faces that it was given
    else:
        excluded = read_names(Path(task.exclude)) if task.exclude else ()
        manifest = read_manifest(folder, AgeGrid(config.ages.low, config.ages.high), exclude=excluded)
    trained = _trained(owner, manifest)
    models = [(f"fold-{n}", run.checkpoint(n), n) for n in finished_folds(run)] if run else [("", task.model, number)]
    tests = (
        [(f"{task.setup}-{fold.number}", fold.test) for fold in _folds(manifest, config, task.setup)]
        if task.setup
        else []
    )
    for name, checkpoint, fold_number in models:
        seen = trained.get(fold_number, ((), ()))
        for part, test in tests or [("", tuple(range(len(manifest.samples))))]:
            yield Job("/".join(filter(None, (name, part))), checkpoint, manifest, Fold(1, *seen, test))


def _trained(run: Run | None, manifest: Manifest) -> dict[int, tuple[tuple[int, ...], tuple[int, ...]]]:
    """Which of these faces each fold of a run has learned from, if they are the run's own."""
    if run is None or manifest.folder.resolve() != run.data.resolve():
        return {}
    own, folds = read_faces(run)
    where = {sample.path: index for index, sample in enumerate(manifest.samples)}

    def here(part: Sequence[int]) -> tuple[int, ...]:
        return tuple(where[own.samples[i].path] for i in part if own.samples[i].path in where)

    return {fold.number: (here(fold.train), here(fold.val)) for fold in folds}


def _folds(manifest: Manifest, config: Config, setup: str) -> list[Fold]:
    data = configs.replace(config, {"data.setup": setup}).data
    return make_folds(manifest.samples, dataclasses.replace(data, val_share=0.0), config.training.seed)


def _inputs(
    checkpoint: Checkpoint, manifest: Manifest, device: torch.device, workers: int | None, progress: Progress
) -> Inputs:
    return make_inputs(checkpoint.model, checkpoint.config, manifest, device, workers, progress)


def _stored(job: Job, base: Path, source: Mapping[str, str]) -> Said | None:
    """What the checkpoint said of these very faces before."""
    for folder in filter(None, (job.known, base / job.name)):
        said = read_predictions(folder, source)
        if said is not None and len(said) == len(job.fold.test):
            samples = tuple(job.manifest.samples[index] for index in job.fold.test)
            return dataclasses.replace(said, samples=samples), {}
    return None


def _ask(job: Job, checkpoint: Checkpoint, inputs: Inputs, device: torch.device) -> Said:
    """Run the network on the faces."""
    model, samples = checkpoint.model.to(device), job.manifest.samples
    pmf, read, broken = distributions(model, inputs, job.fold.test, device)
    tested = {samples[index].path for index in job.fold.test}
    broken = {path: reason for path, reason in broken.items() if path in tested}
    for path, reason in broken.items():
        log.warning("left out %s: %s", path, reason)
    chosen = [samples[index] for index in read]
    return predictions(pmf, chosen, model.forest.readout, model.forest.grid, checkpoint.calibration), broken


def _measure(
    task: Task,
    job: Job,
    folder: Path,
    checkpoint: Checkpoint,
    said: Predictions,
    broken: dict[str, str],
    source: Mapping[str, str],
) -> Result:
    forest, samples = checkpoint.model.forest, job.manifest.samples
    said = predictions(said.pmf, said.samples, task.readout or forest.readout, forest.grid, checkpoint.calibration)
    rows = write_results(folder, said, source, task.challenge)
    share = leakage(samples, job.fold) if job.fold.train else None
    if set(job.fold.train) & set(job.fold.test):
        log.warning("%s was trained on some of these faces: its error on new ones is larger", job.checkpoint)
    name = job.name or job.checkpoint.stem
    return Result(str(task.model), name, folder, job.manifest.folder, said, rows, share, broken)


def pooled(results: Sequence[Result], challenge: Sequence[float] = ()) -> dict[str, Result]:
    """The results of each model as one, over all its folds."""
    models: dict[str, list[Result]] = {}
    for result in results:
        models.setdefault(result.model, []).append(result)
    return {model: some[0] if len(some) == 1 else _pool(some, challenge) for model, some in models.items()}


def _pool(results: Sequence[Result], challenge: Sequence[float]) -> Result:
    said = pool([result.predictions for result in results])
    shares = [r.leakage for r in results for _ in range(len(r.predictions)) if r.leakage is not None]
    first = results[0]
    return dataclasses.replace(
        first,
        name="pooled",
        folder=first.folder.parent,
        predictions=said,
        rows=breakdown(said, challenge),
        leakage=float(np.mean(shares)) if shares else None,
        broken={path: reason for result in results for path, reason in result.broken.items()},
    )


def compare(models: Mapping[str, Predictions]) -> list[dict[str, Any]]:
    """Each model on the faces that all of them were tested on, and its difference in MAE to the first, paired by face.

    The bootstrap draws the same subjects for all models, so that hard faces are hard for each of them.
    """
    numbered = {name: _numbered(said) for name, said in models.items()}
    shared = sorted(set.intersection(*(set(places) for places in numbered.values())))
    if not shared:
        raise InputError(
            f"{' and '.join(models)} were tested on no face in common",
            hint="measure them on the same faces: --data DIR, or runs with the same --setup and --seed",
        )
    for name, said in models.items():
        if len(shared) < len(said):
            log.warning("%s: compared on %d of its %d faces, which all models have", name, len(shared), len(said))
    aligned = {name: pick(said, [numbered[name][key] for key in shared]) for name, said in models.items()}
    first = next(iter(aligned.values()))
    who = bootstrap.people(first.samples)
    errors = np.stack([np.abs(said.error) for said in aligned.values()], axis=1)
    draws = bootstrap.resampled(errors, np.ones_like(errors), who)
    low, high = bootstrap.limits(draws)
    rows: list[dict[str, Any]] = []
    for place, (name, said) in enumerate(aligned.items()):
        metrics = measure(said)
        row: dict[str, Any] = {"model": name, "images": len(said), "mae": metrics.mae, "cs5": metrics.cs5}
        row |= {"mae_low": float(low[place]), "mae_high": float(high[place])}
        if place:
            difference = draws[:, place] - draws[:, 0]
            ends = bootstrap.limits(difference[:, None])
            row |= {"difference": metrics.mae - rows[0]["mae"], "p": bootstrap.two_sided_p(difference)}
            row |= {"difference_low": float(ends[0][0]), "difference_high": float(ends[1][0])}
        rows.append(row)
    return [{name: tidy(value) for name, value in row.items()} for row in rows]


def _numbered(said: Predictions) -> dict[tuple[str, float, str, int], int]:
    """Where each face stands, by path, age and subject, since names alone repeat in other data sets.

    One that several folds tested is told apart by which time it is.
    """
    seen: Counter[tuple[str, float, str]] = Counter()
    places = {}
    for place, sample in enumerate(said.samples):
        face = (sample.path, sample.age, sample.subject)
        seen[face] += 1
        places[(*face, seen[face])] = place
    return places
