"""Evaluation of runs and checkpoints on faces whose ages are known, one model at a time or compared."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from agecli.core.ages import READOUTS, Readout
from agecli.core.errors import InputError
from agecli.core.files import write_csv
from agecli.datasets.alignment_check import align_folder, check_aligned
from agecli.datasets.protocols import leakage
from agecli.evaluation.conditions import photo_conditions
from agecli.evaluation.files import load_file
from agecli.evaluation.inference import infer, stored_predictions
from agecli.evaluation.seen import MOST_SEEN, Known, seen_before, seen_faces, seen_share
from agecli.evaluation.selection import EvaluationRequest, Measurement, Selection, select
from agecli.images.alignment import Alignment
from agecli.model.bundled import DEFAULT, name_of, named
from agecli.model.card import Card
from agecli.model.devices import keep_memory, pick_device
from agecli.scoring.challenge import CHECK_COLUMNS, check_rows
from agecli.scoring.comparison import compare, on_common_faces
from agecli.scoring.gaps import GAP_COLUMNS, largest_gaps
from agecli.scoring.groups import MetricRow, breakdown, columns, condition_rows
from agecli.scoring.metrics import Metrics, Predictions, measure, pick, pool, tidy
from agecli.scoring.shift import ShiftMonitor, read_statistics
from agecli.training.inference import source_of
from agecli.training.initialisation import initial_file
from agecli.training.inputs import Inputs, Progress, make_inputs, no_progress
from agecli.training.results import write_pooled, write_results
from agecli.training.run_folder import open_run, write_report

log = logging.getLogger("agecli")
POOLED = "pooled"  # the name of the result of all folds together


@dataclass(frozen=True)
class Result:
    """One checkpoint, or all folds of a run, measured on one set of faces."""

    model: str  # the run or checkpoint as it was named
    name: str  # fold-1, the name of the checkpoint, or `POOLED`
    folder: Path  # where predictions.csv and metrics.csv are
    data: Path  # where the pictures are
    predictions: Predictions
    rows: list[MetricRow]  # of metrics.csv and conditions.csv: all faces, then groups
    leakage: float | None  # share of faces whose subject is in the training part; None if not known
    broken: dict[str, str]  # the reason for each picture that could not be read, by path
    known: Known | None = None  # what the model knows of each face (`evaluation.seen`); None if its file does not say
    own_test_part: bool = (
        False  # whether the faces were kept apart when the model, and one it was fine-tuned from, was trained
    )
    shift: str = ""  # the shift alarm, if these photos are unlike those that the intervals were calibrated on

    @property
    def seen(self) -> float | None:
        """The share of faces that the model was trained, selected or calibrated on; None if it is not known.

        0 for the test part of a run, which was kept apart; its near-duplicates are in `known`.
        """
        return 0.0 if self.own_test_part else seen_share(self.known)

    @property
    def misleading(self) -> bool:
        """Whether the model has seen so many of the faces that the metrics don't tell its error on new ones."""
        return (self.seen or 0.0) > MOST_SEEN

    def apart(self) -> list[dict[str, Any]]:
        """The metrics of seen and of unseen faces, each as a table row; none if all faces are of one kind."""
        if self.known is None or self.seen in (None, 0.0, 1.0):
            return []
        parts = (("seen", self.known > 0, 1.0), ("unseen", self.known == 0, 0.0))
        return [
            {
                **breakdown(pick(self.predictions, np.flatnonzero(some)))[0],
                "model": f"{self.name}, {name}",
                "seen": share,
            }
            for name, some, share in parts
        ]

    @property
    def metrics(self) -> Metrics:
        """The metrics over all faces."""
        return measure(self.predictions)

    def row(self) -> dict[str, Any]:
        """The metrics over all faces as a table row: the first of `rows`, with `model`, `seen` and `leakage`."""
        return {**self.rows[0], "model": self.name, "seen": tidy(self.seen), "leakage": tidy(self.leakage)}


def evaluate(
    *models: str | Path,
    data: str | Path | None = None,
    setup: str | None = None,
    readout: str | None = None,
    challenge: Sequence[float] = (),
    exclude: str | Path | None = None,
    align: bool = False,
    out: str | Path | None = None,
    device: str = "auto",
    workers: int | None = None,
    progress: Progress = no_progress,
) -> list[Result]:
    """Measure each fold of a run on its test part, or a checkpoint on a data folder.

    Writes predictions.csv, distributions.npz and metrics.csv for each, and for all folds together age_checks.csv,
    gaps.csv and conditions.csv. Predictions of the same checkpoint for the same
    faces are read from an earlier distributions.npz, so that another readout does not run the network again.

    models: run folders, checkpoints or ONNX files; the bundled model if none is named
    data: a data folder; the run's own by default
    setup: measure on the test parts of this setup instead of on all faces of `data`
    readout: mean, median or mode; the model's own by default
    challenge: ages in years of age checks (see `scoring.age_checks.error_rates`)
    exclude: a file of photos to leave out, as `audit` writes it
    align: `data` holds photos, whose faces are found and aligned first
    out: folder for the results; by default the run, or a folder beside the checkpoint
    progress: called with the numbers of faces done and in all while features are computed
    Returns a result for each fold or checkpoint.
    Raises InputError for wrong options or faces, MissingError if a model is missing.
    Example: `agecli.evaluate("runs/drf")[0].metrics.mae`
    """
    if readout is not None and readout not in READOUTS:
        raise InputError(f"unknown readout `{readout}`", hint=f"choose from: {', '.join(READOUTS)}")
    paths = [named(model, ".safetensors") for model in models or (DEFAULT,)]
    distinct = list({path.resolve(): path for path in paths}.values())
    if len(distinct) < len(paths):
        log.warning("a model was named twice, and is measured once")
    target = pick_device(device)
    keep_memory()
    results: list[Result] = []
    for number, path in enumerate(distinct, 1):
        folder = Path(out) if out else None
        if folder and len(distinct) > 1:
            folder /= f"{number}-{path.stem}"
        faces = _aligned_for(path, data) if align and data is not None else data
        request = EvaluationRequest(
            path, faces, setup, cast("Readout | None", readout), tuple(challenge), exclude, folder
        )
        selection = select(request)
        results += _write(selection, _predict(selection, device, target, workers, progress))
    return results


@dataclass(frozen=True)
class _Predicted:
    """The predictions of one measurement, with the requested readout."""

    measurement: Measurement
    card: Card  # of the model
    predictions: Predictions
    broken: dict[str, str]
    source: Mapping[str, str]


def _predict(
    selection: Selection, device: str, target: torch.device, workers: int | None, progress: Progress
) -> list[_Predicted]:
    """The predictions of each measurement: stored ones, or by the network."""
    inputs: Inputs | None = None
    predicted = []
    for measurement in selection.measurements:
        model = load_file(measurement.checkpoint, device)
        card, checkpoint = model.card, model.checkpoint
        if not selection.own_test_parts:
            paths = [sample.path for sample in measurement.manifest.samples]
            check_aligned(selection.data, paths, card.alignment, name_of(measurement.checkpoint), "evaluate")
            card.warn_of_frame(selection.data)
        source = source_of(measurement.checkpoint, measurement.manifest, measurement.fold.test)
        broken: dict[str, str] = {}
        predictions = stored_predictions(measurement, selection.folder(), source)
        if predictions is None:
            if checkpoint and (inputs is None or not model.config.backbone.freeze):  # folds share a frozen backbone
                inputs = make_inputs(checkpoint.model, model.config, measurement.manifest, target, workers, progress)
            predictions, broken = infer(measurement, model, inputs, target)
        readout = selection.request.readout or card.readout
        predictions = Predictions.from_pmf(predictions.pmf, predictions.samples, readout, card.grid, card.calibration)
        conditions = photo_conditions(measurement.manifest.folder, predictions.samples)
        predictions = dataclasses.replace(predictions, conditions=conditions)
        predicted.append(_Predicted(measurement, card, predictions, broken, source))
    return predicted


def _aligned_for(model: Path, data: str | Path) -> Path:
    """The faces of a folder of photos, aligned as a run or checkpoint needs them."""
    if not model.is_dir():
        return align_folder(Path(data), load_file(model).card.alignment)
    known = open_run(model).config.alignment
    alignment = Alignment(known.size, known.eye_distance, known.eye_height) if known.size else None
    return align_folder(Path(data), alignment)


def _write(selection: Selection, predicted: Sequence[_Predicted]) -> list[Result]:
    """Measure the predictions, and write all files of an evaluation to one folder."""
    folder = selection.folder(complete=not any(part.broken for part in predicted))
    results = [_write_one(selection, part, folder / part.measurement.name) for part in predicted]
    if selection.repeats_run and selection.run is not None and folder == selection.request.model:
        write_report(selection.run, {int(r.name.removeprefix("fold-")): r.leakage for r in results})
    elif len(results) > 1:
        write_pooled(folder, {result.name: result.predictions for result in results}, selection.request.challenge)
    whole = pool([result.predictions for result in results])
    write_csv(folder / "age_checks.csv", check_rows(whole), CHECK_COLUMNS)
    write_csv(folder / "gaps.csv", largest_gaps(whole), GAP_COLUMNS)
    challenge = selection.request.challenge
    write_csv(folder / "conditions.csv", condition_rows(whole, challenge), columns(challenge))
    return results


def _write_one(selection: Selection, predicted: _Predicted, folder: Path) -> Result:
    """Measure the predictions of one checkpoint, and write its files to `folder`. Warns of training faces among them."""
    measurement, fold, request = predicted.measurement, predicted.measurement.fold, selection.request
    kept_apart = selection.own_test_parts
    known = seen_faces(measurement, predicted.predictions, predicted.source, folder, kept_apart)
    if kept_apart and (initial := _initial_model(selection)):
        known = seen_before(initial, measurement, predicted.predictions, predicted.source, folder)
        kept_apart = False
    if shift := _shift_alarm(selection, predicted):
        log.warning("%s", shift)
    rows = write_results(folder, predicted.predictions, predicted.source, request.challenge)
    rows += condition_rows(predicted.predictions, request.challenge)
    if known is None and set(fold.train) & set(fold.test):
        log.warning("%s was trained on some of these faces: its error on new ones is larger", measurement.checkpoint)
    return Result(
        str(request.model),
        measurement.name or measurement.checkpoint.stem,
        folder,
        measurement.manifest.folder,
        predicted.predictions,
        rows,
        leakage(measurement.manifest.samples, fold) if fold.train else None,
        predicted.broken,
        known,
        kept_apart,
        shift,
    )


def _initial_model(selection: Selection) -> Path | None:
    """The file of the trained model that a run started from (--init, or --weights default); None if it started from none."""
    config = selection.run.config if selection.run else None
    if config is None or not (config.init or config.backbone.weights == DEFAULT):
        return None
    return initial_file(config)


def _shift_alarm(selection: Selection, predicted: _Predicted) -> str:
    """The alarm if the faces look unlike those that the model was calibrated on (`scoring.shift`); "" if they don't."""
    card = predicted.card
    monitor, folder = ShiftMonitor(card.shift), predicted.measurement.manifest.folder
    if card.shift and not selection.own_test_parts:
        paths = [sample.path for sample in predicted.predictions.samples]
        statistics = read_statistics(folder, paths, card.picture)
        monitor.add([str(number) for number in range(len(statistics))], statistics)
    return monitor.message() or ""


def pooled(results: Sequence[Result], challenge: Sequence[float] = ()) -> dict[str, Result]:
    """One result for each model, by its name: that of its only fold, or of the predictions of all its folds together.

    With folds of different sizes, as in leave-one-person-out, the pooled metrics are the ones to publish.
    challenge: ages in years of age checks, as for `evaluate`
    Example: `pooled(evaluate("runs/drf"))["runs/drf"].metrics.mae`
    """
    models: dict[str, list[Result]] = {}
    for result in results:
        models.setdefault(result.model, []).append(result)
    return {model: parts[0] if len(parts) == 1 else _pool(parts, challenge) for model, parts in models.items()}


def _pool(results: Sequence[Result], challenge: Sequence[float]) -> Result:
    """The results of several folds as one: predictions concatenated, leakage averaged over the faces."""
    predictions = pool([result.predictions for result in results])
    shares = [r.leakage for r in results for _ in range(len(r.predictions)) if r.leakage is not None]
    known = [result.known for result in results if result.known is not None]
    first = results[0]
    return dataclasses.replace(
        first,
        name=POOLED,
        folder=first.folder.parent,
        predictions=predictions,
        rows=breakdown(predictions, challenge) + condition_rows(predictions, challenge),
        leakage=float(np.mean(shares)) if shares else None,
        broken={path: reason for result in results for path, reason in result.broken.items()},
        known=np.concatenate(known) if len(known) == len(results) else None,
    )


def compare_models(models: Mapping[str, Predictions]) -> list[dict[str, Any]]:
    """Compare models as `scoring.comparison.compare` does, with a warning for each that has faces the others lack.

    models: predictions by the name of the model; differences are to the first
    Raises InputError if the models have no face in common.
    """
    shared = on_common_faces(models)
    for name, predictions in models.items():
        if len(shared[name]) < len(predictions):
            counts = len(shared[name]), len(predictions)
            log.warning("%s: compared on %d of its %d faces, which all models have", name, *counts)
    return compare(shared)
