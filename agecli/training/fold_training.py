"""The training of one fold: its iterations, validations and saved states, resumed where it was stopped.

Files in the fold's folder while it is trained: state.safetensors (weights, leaves, optimiser, EMA and routing, to
resume from), last.safetensors (the model of the last save), best.safetensors (lowest validation MAE) and history.csv.
"""

from __future__ import annotations

import copy
import logging
import math
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from agecli.core.errors import InputError, Interrupted
from agecli.core.files import read_csv, remove_parts, write_csv
from agecli.core.seeding import derive
from agecli.datasets.protocols import Fold
from agecli.forest.forests import Forest
from agecli.forest.routing import entropy
from agecli.model.checkpoint import read_tensors, save_checkpoint, write_tensors
from agecli.model.integers import has_integers, use_integers
from agecli.model.network import AgeModel, start_leaves
from agecli.model.thinning import is_thin, make_thin
from agecli.scoring.calibration import Calibration
from agecli.scoring.metrics import Predictions
from agecli.training import distributed
from agecli.training.batches import Stream
from agecli.training.context import FeatureProgress, RunContext
from agecli.training.distillation import teacher_units
from agecli.training.inference import distributions
from agecli.training.inputs import FeatureInputs
from agecli.training.loop import Learner, Step, fit
from agecli.training.optimisation import make_optimiser
from agecli.training.overfitting import OverfittingCheck, exhausted
from agecli.training.stalling import StallCheck

log = logging.getLogger("agecli")
HISTORY_COLUMNS = ("iteration", "loss", "nll", "entropy", "T", "tau", "lr", "train_mae", "val_mae", "images_per_second")
STATE = "agecli-training-state"
SAVE_SHARE = 0.05  # of the time that saves may take, for large models


def _fresh_model(context: RunContext, train: Sequence[int], resumed: bool) -> AgeModel:
    """The model before its first iteration, on its device; `train` are the indices of the training faces.

    resumed: whether its tensors are read from a file next, so that hidden units need not be fitted, nor exact layers
        chosen, which takes minutes
    """
    model, settings = copy.deepcopy(context.initial_model), context.config.backbone
    if settings.hidden < 1 and not is_thin(model.backbone, settings.name):
        if resumed:
            make_thin(model.backbone, settings.name, settings.hidden)
        else:
            context.inputs.thin(model, train)
    if settings.int8 and not has_integers(model.backbone):
        if resumed:
            use_integers(model.backbone, settings.name)
        else:
            context.inputs.start_integers(model, train)
    if context.fine_tuned:
        return model.to(context.device)
    if context.config.forest.standardise or isinstance(context.inputs, FeatureInputs):
        context.inputs.standardise(model, train)
    start_leaves(model.forest, context.drawn_ages(train), context.config.training.seed)
    return model.to(context.device)


class Throughput:
    """Images per second since the last reset, without pauses."""

    def __init__(self) -> None:
        self.images, self.since = 0, time.monotonic()

    def add(self, images: int) -> float:
        """Count some more images; the images per second."""
        self.images += images
        return self.images / max(1e-9, time.monotonic() - self.since)

    def pause(self, seconds: float) -> None:
        """Don't count some seconds that were spent on something else."""
        self.since += seconds

    def reset(self) -> None:
        """Start counting anew."""
        self.images, self.since = 0, time.monotonic()


class FoldTraining:
    """The training of one fold: its model and learner, its files, and its lowest validation error.

    It starts from a copy of the run's initial model, or from state.safetensors if there is one. Raises InputError if
    that file does not fit the settings.

    >>> training = FoldTraining(context, fold)
    >>> training.learn()
    """

    def __init__(self, context: RunContext, fold: Fold) -> None:
        self.context, self.fold, self.folder = context, fold, context.run.fold(fold.number)
        self.main = distributed.rank() == 0  # the rank that writes
        config = context.config
        self.train = fold.train
        if isinstance(context.inputs, FeatureInputs):
            self.train = tuple(index for index in fold.train if context.inputs.readable[index])
        self.state_file = self.folder / "state.safetensors"
        self.model = _fresh_model(context, self.train, self.state_file.is_file())
        network = context.inputs.network(self.model)
        optimiser = make_optimiser(context.inputs.trained(self.model), config.training)
        self.learner = Learner(network, self.model.forest, optimiser, config, context.device, self._teacher())
        self.best = math.inf  # the lowest validation MAE, in years
        self.saved = time.monotonic()
        self.save_pause = config.training.save_every
        self.history: list[dict[str, Any]] = []
        if self.main:
            remove_parts(self.folder)  # left by a kill in the middle of a write
        if self.state_file.is_file():
            self._restore()

    def _teacher(self) -> Tensor | None:
        """f(x) of the teacher for the training faces (n, M); None if there is no teacher."""
        context, teacher = self.context, self.context.config.training.teacher
        if not teacher:
            return None
        progress = FeatureProgress(context.listener, context.stop)
        return teacher_units(teacher, self.model, context.manifest, self.train, context.device, progress=progress)

    def _restore(self) -> None:
        """Continue from state.safetensors. Raises InputError if it does not fit this model, or an older format."""
        tensors, header = read_tensors(self.state_file, STATE)
        try:
            self.learner.restore(tensors, header["learner"])
            best = header["best"]
        except (KeyError, IndexError, ValueError, RuntimeError) as error:
            raise InputError(
                f"{self.state_file} can't be resumed by this version of agecli: {error}",
                hint="remove the file to train this fold again, or resume with the version that wrote it",
            ) from error
        self.best = best if best is not None else math.inf
        rows = read_csv(self.folder / "history.csv") if (self.folder / "history.csv").is_file() else []
        names = {name.lower(): name for name in HISTORY_COLUMNS}
        rows = [{names[key]: value for key, value in row.items() if key in names} for row in rows]
        self.history = [row for row in rows if int(row["iteration"]) <= self.learner.iteration]
        log.debug("restored %s: iteration %d, %d tensors", self.state_file, self.learner.iteration, len(tensors))

    def save_state(self) -> None:
        """Write the training state, the history and last.safetensors, so that a kill costs only what comes after.

        The next save is due after `training.save_every` seconds, later if a save takes more than SAVE_SHARE of that.
        Raises TrainingError, and writes nothing, if the losses or the weights are not finite.
        """
        began = time.monotonic()
        tensors, values = self.learner.state()
        if self.main:
            best = None if math.isinf(self.best) else self.best
            self.write_history()
            self.save_model("last.safetensors", None)
            write_tensors(self.state_file, STATE, tensors, {"learner": values, "best": best})
        self.saved = time.monotonic()
        seconds = self.saved - began
        self.save_pause = max(self.context.config.training.save_every, seconds / SAVE_SHARE)
        log.debug("saved the state after iteration %d in %.2f s", self.learner.iteration, seconds)

    def note_validation(self, mae: float | None) -> None:
        """Put a validation MAE into the history's row of this iteration; add a row if there is none."""
        if mae is None:
            return
        if not self.history or int(self.history[-1]["iteration"]) != self.learner.iteration:
            self.history.append({"iteration": self.learner.iteration})
        self.history[-1]["val_mae"] = f"{mae:.4f}"

    def write_history(self) -> None:
        """Write history.csv."""
        write_csv(self.folder / "history.csv", self.history, HISTORY_COLUMNS)

    def save_model(self, name: str, val_mae: float | None) -> None:
        """Write the model, with averaged weights if there is an EMA, to a file in the fold's folder; on rank 0 only."""
        if self.main:
            notes = {"fold": self.fold.number, "iteration": self.learner.iteration, "val_mae": val_mae}
            with self.learner.as_tested():
                save_checkpoint(self.folder / name, self.model, self.context.config, notes)

    def validate(self) -> float | None:
        """The MAE on the validation part, in years; the lowest so far is saved. None if there is no such part.

        Each rank predicts its share of the faces. Raises InputError if none of them can be read.
        """
        if not self.fold.val:
            return None
        with self.learner.as_tested():
            mine = self.predict(self.model, self.fold.val[distributed.rank() :: distributed.ranks()])
        if not distributed.total(len(mine)):
            raise InputError("there is no face to validate on", hint="could none of these pictures be read?")
        mean = float(np.abs(mine.error).mean()) if len(mine) else 0.0
        [mae] = distributed.weighted_mean([mean], len(mine))
        if mae < self.best:
            self.best = mae
            self.save_model("best.safetensors", mae)
        self.context.listener.validated(self.learner.iteration, mae, mae == self.best)
        return mae

    def predict(self, model: AgeModel, indices: Sequence[int], calibration: Calibration | None = None) -> Predictions:
        """The predictions of a model for some faces of the manifest, without those that can't be read.

        indices: of samples in the manifest; calibration: of the intervals, uncalibrated quantiles if None.
        Raises InputError if too many pictures of the run can't be read.
        """
        pmf, read, broken = distributions(model, self.context.inputs, indices, self.context.device)
        self.context.skip(broken)
        samples = [self.context.manifest.samples[i] for i in read]
        return Predictions.from_pmf(pmf, samples, model.forest.readout, model.forest.grid, calibration)

    def _stream(self) -> Stream:
        """The samples of all iterations that are left, this rank's share of them."""
        training = self.context.config.training
        return Stream(
            len(self.train),
            training.batch_size,
            derive(training.seed, "fold", self.fold.number),
            self.learner.iteration,
            training.iterations,
            distributed.rank(),
            distributed.ranks(),
            self.context.weights_of(self.train),
        )

    def learn(self) -> None:
        """All iterations that are left, or fewer if the validation MAE does not fall any more (`training.patience`).

        Raises Interrupted, after saving, if the run is to stop.
        """
        context, iterations = self.context, self.context.config.training.iterations
        context.listener.fold_started(self.fold, self.learner.iteration, iterations)
        if context.fine_tuned and self.learner.iteration == 0:  # the initial model may remain the best one
            self.note_validation(self.validate())
        throughput, stalled, overfits = Throughput(), StallCheck(context.config), OverfittingCheck()
        for step in fit(self.learner, context.inputs.batches(self.model, self.train, self._stream())):
            context.skip(dict(step.broken))
            speed = throughput.add(step.images * distributed.ranks())
            if step.progress:
                self._note_progress(step, speed)
                throughput.reset()
                if message := stalled(step.progress.entropy, step.progress.T):
                    log.warning("fold %d, iteration %d: %s", self.fold.number, step.iteration, message)
            context.listener.stepped(step, speed)
            if step.iteration % context.config.training.eval_every == 0 and step.iteration < iterations:
                began = time.monotonic()
                self.note_validation(self.validate())
                throughput.pause(time.monotonic() - began)
                for message in overfits(self.history, self.model.forest):
                    log.warning("fold %d, iteration %d: %s", self.fold.number, step.iteration, message)
                if exhausted(self.history, context.config.training.patience):
                    log.info("fold %d: stopped early after iteration %d", self.fold.number, step.iteration)
                    return
            self._save_or_stop(step)

    def _note_progress(self, step: Step, speed: float) -> None:
        """Add a row to the history after a leaf update."""
        values = {name: f"{value:.6g}" for name, value in vars(step.progress).items()}
        if self.context.config.training.full_entropy and isinstance(self.model.forest, Forest):
            values["entropy"] = f"{self._entropy(self.model.forest):.6g}"
        self.history.append({"iteration": step.iteration, **values, "val_mae": "", "images_per_second": f"{speed:.1f}"})
        log.debug("fold %d, iteration %d: %s", self.fold.number, step.iteration, values)

    def _entropy(self, forest: Forest) -> float:
        """H, the mean entropy of the routing over the training part, in evaluation mode, nats.  [eqn:entropy]"""
        mine = self.train[distributed.rank() :: distributed.ranks()]
        units = self.context.inputs.units(self.model, mine)
        with torch.no_grad():
            H = entropy(forest.route(units.values.to(self.context.device))).mean()
        return distributed.weighted_mean([float(H)], len(units.indices))[0]

    def _save_or_stop(self, step: Step) -> None:
        """Save the state if that is due, or if the run is to stop, and then raise Interrupted.

        Several ranks do so only after a leaf update, at the same iteration, when no routing waits on any of them.
        """
        if distributed.ranks() > 1 and step.iteration % self.context.config.forest.update_every:
            return
        if distributed.any_rank(self.context.stop.is_set()):
            self.save_state()
            iterations = self.context.config.training.iterations
            raise Interrupted(
                f"stopped in fold {self.fold.number} after iteration {step.iteration} of {iterations}; all of it is saved",
                hint=f"continue with: agecli train --resume --out {self.context.run.folder}",
            )
        if distributed.any_rank(time.monotonic() - self.saved > self.save_pause):
            self.save_state()
