"""One fold: a model is trained, selected and tested, and goes on after a stop where it was."""

from __future__ import annotations

import copy
import logging
import math
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from agecli.core.config import Config
from agecli.core.errors import InputError, Interrupted, TrainingError
from agecli.core.files import link_whole, read_csv, write_csv
from agecli.core.seeding import derive, generator
from agecli.datasets.manifest import Manifest
from agecli.datasets.protocols import Fold
from agecli.model.checkpoint import load_checkpoint, read_tensors, save_checkpoint, write_tensors
from agecli.model.network import AgeModel, start_leaves
from agecli.scoring.calibration import LEAST_FACES, Calibration, calibrate
from agecli.scoring.metrics import Predictions
from agecli.training import distributed
from agecli.training.batches import Stream, rarity
from agecli.training.inference import distributions, source_of
from agecli.training.inputs import FeatureInputs, Inputs
from agecli.training.loop import Learner, Step, fit
from agecli.training.optimisation import make_optimiser
from agecli.training.results import write_results
from agecli.training.run_folder import Run
from agecli.training.stalling import StallCheck

log = logging.getLogger("agecli")
HISTORY_COLUMNS = ("iteration", "loss", "nll", "entropy", "T", "tau", "lr", "train_mae", "val_mae", "images_per_second")
STATE = "agecli-training-state"
REFRESH_FACES = 5000  # of the training part: more than enough for 160 leaves
BROKEN_SHARE = 0.01  # of all faces; with more broken pictures than this, something else is wrong


class Listener:
    """What one may want to see of a run while it goes on; each of these does nothing."""

    def run_started(self, run: Run, manifest: Manifest, folds: Sequence[Fold]) -> None: ...
    def features_computed(self, done: int, total: int) -> None: ...
    def fold_started(self, fold: Fold, iteration: int, iterations: int) -> None: ...
    def stepped(self, step: Step, images_per_second: float) -> None: ...
    def validated(self, iteration: int, mae: float, best: bool) -> None: ...
    def fold_finished(self, fold: Fold, metrics: Mapping[str, Any]) -> None: ...


@dataclass
class Job:
    """One run, as its folds see it."""

    run: Run
    manifest: Manifest
    config: Config
    device: torch.device
    inputs: Inputs
    start: AgeModel  # with its weights loaded: what every fold begins with
    trained: bool  # whether its splits and leaves know something already
    listener: Listener
    stop: threading.Event
    broken: dict[str, str] = field(default_factory=dict)

    def skip(self, broken: Mapping[str, str]) -> None:
        """Name each picture that can't be read, once, and stop if there are too many."""
        for path, reason in broken.items():
            if path not in self.broken:
                log.warning("left out %s: %s", path, reason)
                self.broken[path] = reason
        if len(self.broken) > BROKEN_SHARE * len(self.manifest.samples):
            some = ", ".join(list(self.broken)[:3])
            raise InputError(
                f"{len(self.broken)} of {len(self.manifest.samples)} pictures can't be read ({some}, …), which is more than 1 %",
                hint="mend them, or take them out of the table",
            )


def _fresh_model(job: Job, train: Sequence[int]) -> AgeModel:
    """The model before its first iteration."""
    model = copy.deepcopy(job.start)
    if job.trained:
        return model.to(job.device)
    if job.config.forest.standardise or isinstance(job.inputs, FeatureInputs):
        job.inputs.standardise(model, train)
    train_ages = torch.tensor([job.manifest.samples[index].age for index in train])
    start_leaves(model.forest, train_ages, job.config.training.seed)
    return model.to(job.device)


class FoldTraining:
    """One fold: its model and learner, its files, and the best it has seen."""

    def __init__(self, job: Job, fold: Fold) -> None:
        self.job, self.fold, self.folder = job, fold, job.run.fold(fold.number)
        self.main = distributed.rank() == 0  # the rank that writes
        config = job.config
        self.train = fold.train
        if isinstance(job.inputs, FeatureInputs):
            self.train = tuple(index for index in fold.train if job.inputs.readable[index])
        self.model = _fresh_model(job, self.train)
        network = job.inputs.network(self.model)
        optimiser = make_optimiser(job.inputs.trained(self.model), config.training)
        self.learner = Learner(network, self.model.forest, optimiser, config, job.device)
        self.best = math.inf
        self.saved = time.monotonic()
        self.save_pause = config.training.save_every
        self.history: list[dict[str, Any]] = []
        self.state_file = self.folder / "state.safetensors"
        if self.main:
            for part in self.folder.glob(".*.part"):  # what a kill in the middle of a write left
                part.unlink()
        if self.state_file.is_file():
            self._restore()

    def _restore(self) -> None:
        tensors, header = read_tensors(self.state_file, STATE)
        self.learner.restore(tensors, header["learner"])
        self.best = header["best"] if header["best"] is not None else math.inf
        rows = read_csv(self.folder / "history.csv") if (self.folder / "history.csv").is_file() else []
        names = {name.lower(): name for name in HISTORY_COLUMNS}
        rows = [{names[key]: value for key, value in row.items() if key in names} for row in rows]
        self.history = [row for row in rows if int(row["iteration"]) <= self.learner.iteration]

    def save_state(self) -> None:
        """Everything up to now, so that a kill costs what comes after and nothing else."""
        began = time.monotonic()
        tensors, values = self.learner.state()
        if self.main:
            best = None if math.isinf(self.best) else self.best
            self.write_history()
            self.save_model("last.safetensors", None)
            write_tensors(self.state_file, STATE, tensors, {"learner": values, "best": best})
        self.saved = time.monotonic()
        self.save_pause = max(
            self.job.config.training.save_every, 20 * (self.saved - began)
        )  # large models: 5 % of the time at the most

    def note_validation(self, mae: float | None) -> None:
        """In the history's row of this iteration; in one of its own if the leaves were not updated in it."""
        if mae is None:
            return
        if not self.history or int(self.history[-1]["iteration"]) != self.learner.iteration:
            self.history.append({"iteration": self.learner.iteration})
        self.history[-1]["val_mae"] = f"{mae:.4f}"

    def write_history(self) -> None:
        write_csv(self.folder / "history.csv", self.history, HISTORY_COLUMNS)

    def save_model(self, name: str, val_mae: float | None) -> None:
        if self.main:
            notes = {"fold": self.fold.number, "iteration": self.learner.iteration, "val_mae": val_mae}
            with self.learner.as_tested():
                save_checkpoint(self.folder / name, self.model, self.job.config, notes)

    def validate(self) -> float | None:
        """The MAE on the validation part; a new best is kept. None if there is no such part."""
        if not self.fold.val:
            return None
        with self.learner.as_tested():
            mine = self.predict(self.model, self.fold.val[distributed.rank() :: distributed.ranks()])
        if not distributed.total(len(mine)):
            raise InputError("there is no face to validate on", hint="could none of these pictures be read?")
        mean = float(np.abs(mine.error).mean()) if len(mine) else 0.0
        [mae] = distributed.weighted_mean([mean], len(mine))  # each rank has its share of the faces
        if mae < self.best:
            self.best = mae
            self.save_model("best.safetensors", mae)
        self.job.listener.validated(self.learner.iteration, mae, mae == self.best)
        return mae

    def predict(self, model: AgeModel, indices: Sequence[int], calibration: Calibration | None = None) -> Predictions:
        pmf, read, broken = distributions(model, self.job.inputs, indices, self.job.device)
        self.job.skip(broken)
        samples = [self.job.manifest.samples[i] for i in read]
        return Predictions.from_pmf(pmf, samples, model.forest.readout, model.forest.grid, calibration)

    def refresh_leaves(self) -> None:
        """One more leaf update, on routing in evaluation mode: the routing that predictions will use."""
        chosen = generator(self.job.config.training.seed, "refresh", self.fold.number).permutation(self.train)
        units = self.job.inputs.units(self.model, sorted(chosen[:REFRESH_FACES].tolist()))
        y = torch.tensor([self.job.manifest.samples[i].age for i in units.indices], device=self.job.device)
        with torch.no_grad():
            routing = self.model.forest.route(units.values.to(self.job.device))
        self.model.forest.update(routing, y, self.learner.tau, self.job.config.forest.update_rounds)

    def learn(self) -> None:
        """All iterations that are left."""
        job, config = self.job, self.job.config.training
        stream = Stream(
            len(self.train),
            config.batch_size,
            derive(config.seed, "fold", self.fold.number),
            self.learner.iteration,
            config.iterations,
            distributed.rank(),
            distributed.ranks(),
            rarity([job.manifest.samples[index].age for index in self.train], job.config.data.balance),
        )
        job.listener.fold_started(self.fold, self.learner.iteration, config.iterations)
        if job.trained and self.learner.iteration == 0:  # a start that nothing beats is the best one
            self.note_validation(self.validate())
        stalled = StallCheck(job.config)
        since = time.monotonic()
        images = 0
        for step in fit(self.learner, job.inputs.batches(self.model, self.train, stream)):
            job.skip(dict(step.broken))
            images += step.images * distributed.ranks()
            speed = images / max(1e-9, time.monotonic() - since)
            if step.progress:
                values = {name: f"{value:.6g}" for name, value in vars(step.progress).items()}
                self.history.append(
                    {"iteration": step.iteration, **values, "val_mae": "", "images_per_second": f"{speed:.1f}"}
                )
                images, since = 0, time.monotonic()
                if message := stalled(step.progress.entropy, step.progress.T):
                    log.warning("fold %d, iteration %d: %s", self.fold.number, step.iteration, message)
            job.listener.stepped(step, speed)
            if step.iteration % config.eval_every == 0 and step.iteration < config.iterations:
                paused = time.monotonic()
                mae = self.validate()
                since += time.monotonic() - paused
                self.note_validation(mae)
            together = distributed.ranks() == 1 or step.iteration % job.config.forest.update_every == 0
            if together and distributed.any_rank(job.stop.is_set()):
                self.save_state()
                raise Interrupted(
                    f"stopped in fold {self.fold.number} after iteration {step.iteration} of {config.iterations}; all of it is saved",
                    hint=f"go on with: agecli train --resume --out {job.run.folder}",
                )
            if together and distributed.any_rank(time.monotonic() - self.saved > self.save_pause):
                self.save_state()

    def calibrate(self, path: Path) -> None:
        """Give a checkpoint intervals that keep their word on the validation part, if there is one."""
        if not self.fold.val:
            return
        saved = load_checkpoint(path)
        said = self.predict(saved.model.to(self.job.device), self.fold.val)
        if calibration := calibrate(said.pmf, said.age, said.grid):
            save_checkpoint(path, saved.model, saved.config, saved.notes, calibration)
        elif path.name == "best.safetensors":  # once
            log.warning("%s", too_few(len(said), len(self.fold.train) + len(self.fold.val)))

    def finish(self) -> None:
        """The final leaves, the last checkpoint, and what the selected model says of the test part."""
        config = self.job.config
        self.learner.check_finite()
        self.learner.check_weights()
        if self.learner.average:
            self.learner.average.settle()
        if config.training.refresh_leaves:
            self.refresh_leaves()
        mae = self.validate()
        self.note_validation(mae)
        if not self.main:
            return
        best, last = self.folder / "best.safetensors", self.folder / "last.safetensors"
        if mae is None:  # nothing to choose by: the last one is the best one known
            self.save_model(best.name, None)
        self.calibrate(best)
        if mae is None or mae == self.best:
            link_whole(best, last)  # the same file: no second copy
        else:
            self.save_model(last.name, mae)
            self.calibrate(last)
        self.write_history()
        path = self.job.run.checkpoint(self.fold.number)
        selected = load_checkpoint(path)
        if self.job.trained and selected.notes["iteration"] == 0:
            log.warning("fold %d: nothing beat %s on the validation part", self.fold.number, config.init)
        said = self.predict(selected.model.to(self.job.device), self.fold.test, selected.calibration)
        metrics, *_ = write_results(self.folder, said, source_of(path, self.job.manifest, self.fold.test))
        self.state_file.unlink(missing_ok=True)
        self.job.listener.fold_finished(self.fold, metrics)


def too_few(val: int, faces: int) -> str:
    """Why intervals are not calibrated, and what would help: of all `faces` to learn from, `val` are held out."""
    share = math.ceil(100 * LEAST_FACES / faces) / 100
    remedy = f"use --set data.val_share={share}" if share <= 0.5 else f"{2 * LEAST_FACES} photos or more are needed"
    return f"{val} validation faces are too few to calibrate intervals, which take {LEAST_FACES}: {remedy}"


def train_fold(job: Job, fold: Fold) -> None:
    """Train, select and test one fold; after a stop, from where it was."""
    training = FoldTraining(job, fold)
    try:
        training.learn()
        training.finish()
    except TrainingError as error:
        training.write_history()
        last = training.folder / "last.safetensors"
        kept = f"the last good checkpoint is {last}" if last.exists() else "no checkpoint had been saved yet"
        raise TrainingError(f"{error.message}; {kept}", error.hint) from error
