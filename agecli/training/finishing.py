"""The end of a fold's training: final leaves, calibrated checkpoints, and predictions for the test part."""

from __future__ import annotations

import logging
import math
from pathlib import Path

import torch

from agecli.core.files import link_whole
from agecli.core.seeding import generator
from agecli.forest.forests import Forest
from agecli.images.alignment import Alignment
from agecli.model.checkpoint import load_checkpoint
from agecli.model.fingerprint import read_frames, write_fingerprint
from agecli.model.stamping import stamp
from agecli.scoring.calibration import LEAST_FACES, calibrate
from agecli.scoring.shift import read_statistics, shift_reference
from agecli.training.fold_training import FoldTraining
from agecli.training.inference import source_of
from agecli.training.results import write_results

log = logging.getLogger("agecli")
REFRESH_FACES = 5000  # of the training part: more than enough for 160 leaves


def finish_fold(training: FoldTraining) -> None:
    """Finish a fold whose iterations are done; all ranks call it, and rank 0 writes.

    1. The EMA, if there is one, replaces the weights.
    2. The leaves are refreshed on routing in evaluation mode (`training.refresh_leaves`), unless they stay as they are.
    3. best.safetensors and last.safetensors get calibrated intervals, and the fingerprint of the faces they have seen.
    4. The selected one predicts the test part: predictions.csv, distributions.npz and metrics.csv.
    5. state.safetensors is removed.

    Raises TrainingError if the loss or the weights are not finite.
    """
    learner, training_config = training.learner, training.context.config.training
    learner.check_finite()
    learner.check_weights()
    if learner.average:
        learner.average.settle()
    fixed = isinstance(training.model.forest, Forest) and not training.context.config.forest.update_rounds
    if training_config.refresh_leaves and not fixed:
        refresh_leaves(training)
    mae = training.validate()
    training.note_validation(mae)
    if training.main:
        _write_checkpoints(training, mae)
        training.write_history()
        _test(training)
        training.state_file.unlink(missing_ok=True)


def refresh_leaves(training: FoldTraining) -> None:
    """One more leaf update, on routing in evaluation mode: the routing that predictions will use.

    The faces are at most REFRESH_FACES of the training part; all ranks use the same ones.
    """
    context = training.context
    chosen = generator(context.config.training.seed, "refresh", training.fold.number).permutation(training.train)
    units = context.inputs.units(training.model, sorted(chosen[:REFRESH_FACES].tolist()))
    y = context.age_of(units.indices).to(context.device)
    forest = training.model.forest
    with torch.no_grad():
        routing = forest.route(units.values.to(context.device))
    forest.update(routing, y, training.learner.tau, context.config.forest.update_rounds)
    log.debug("refreshed the leaves on %d faces", len(y))


def _write_checkpoints(training: FoldTraining, mae: float | None) -> None:
    """best.safetensors and last.safetensors, with intervals and the fingerprint; one file under two names if they are equal.

    mae: of the last iteration on the validation part; None if there is no such part, and the last one is the best.
    """
    best, last = training.folder / "best.safetensors", training.folder / "last.safetensors"
    if mae is None:
        training.save_model(best.name, None)
    _calibrate(training, best)
    _warn_of_seen(training)
    fingerprint = training.context.fingerprint(training.fold)
    write_fingerprint(best, fingerprint)
    if mae is None or mae == training.best:
        link_whole(best, last)
    else:
        training.save_model(last.name, mae)
        _calibrate(training, last)
        write_fingerprint(last, fingerprint)


def _calibrate(training: FoldTraining, path: Path) -> None:
    """Add the calibration of the intervals and the look of its faces, both of the validation part, to a checkpoint."""
    fold = training.fold
    if not fold.val:
        return
    saved = load_checkpoint(path)
    results = training.predict(saved.model.to(training.context.device), fold.val)
    if calibration := calibrate(results.pmf, results.age, results.grid):
        paths = [training.context.manifest.samples[index].path for index in fold.val]
        statistics = read_statistics(training.context.manifest.folder, paths, saved.model.picture)
        stamp(path, path, calibration=calibration, shift=shift_reference(statistics))
    elif path.name == "best.safetensors":  # once
        log.warning("%s", too_few(len(results), len(fold.train) + len(fold.val)))


def _warn_of_seen(training: FoldTraining) -> None:
    """Warn if the model that the run starts from has seen validation faces: neither selection nor intervals tell of new ones."""
    context = training.context
    if context.parent is None or not training.fold.val:
        return
    folder = context.manifest.folder
    paths = [context.manifest.samples[index].path for index in training.fold.val]
    if seen := int((context.parent.seen(read_frames(folder, paths, Alignment.read(folder))) > 0).sum()):
        log.warning(
            "fold %d: %s has seen %d of the %d validation faces: intervals will be too narrow for new photos",
            training.fold.number,
            context.config.init or context.config.backbone.weights,
            seen,
            len(paths),
        )


def too_few(val: int, faces: int) -> str:
    """Why intervals are not calibrated, and what would help: `val` of all `faces` to learn from are held out."""
    share = math.ceil(100 * LEAST_FACES / faces) / 100
    remedy = (
        f"use --set data.val_share={share}"
        if share <= 0.5
        else f"{2 * LEAST_FACES} photos or more besides the test part are needed"
    )
    return f"{val} validation faces are too few to calibrate intervals, which takes {LEAST_FACES}: {remedy}"


def _test(training: FoldTraining) -> None:
    """Write predictions.csv, distributions.npz and metrics.csv of the selected checkpoint for the test part."""
    context, fold = training.context, training.fold
    path = context.run.checkpoint(fold.number)
    selected = load_checkpoint(path)
    if context.fine_tuned and selected.notes["iteration"] == 0:
        log.warning("fold %d: no iteration beat %s on the validation part", fold.number, context.config.init)
    results = training.predict(selected.model.to(context.device), fold.test, selected.calibration)
    metrics, *_ = write_results(training.folder, results, source_of(path, context.manifest, fold.test))
    context.listener.fold_finished(fold, metrics)
