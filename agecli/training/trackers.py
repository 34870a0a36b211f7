"""Experiment trackers as listeners of a run: TensorBoard and Weights & Biases, each an optional package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agecli.core.errors import InputError
from agecli.core.extras import require
from agecli.datasets.manifest import Manifest
from agecli.datasets.protocols import Fold
from agecli.training.context import Listener
from agecli.training.loop import Step
from agecli.training.run_folder import Run

TRACKERS = ("tensorboard", "wandb")
TESTED = ("mae", "cs5", "bias", "coverage", "width", "nll", "crps")  # metrics of the test part that are logged


class Tracker(Listener):
    """Base class: the values of a fold by tag and iteration, given to `log`."""

    run: Run
    iteration = 0

    def run_started(self, run: Run, manifest: Manifest, folds: Sequence[Fold]) -> None:
        """Keep the run, whose folder and settings are logged."""
        self.run = run

    def stepped(self, step: Step, images_per_second: float) -> None:
        """Log loss, entropy, temperatures and training MAE after each leaf update."""
        self.iteration = step.iteration
        if step.progress:
            values = {f"train/{name.removeprefix('train_')}": value for name, value in vars(step.progress).items()}
            self.log({**values, "train/images_per_second": images_per_second}, step.iteration)

    def validated(self, iteration: int, mae: float, best: bool) -> None:
        """Log the validation MAE, in years."""
        self.log({"val/mae": mae}, iteration)

    def fold_finished(self, fold: Fold, metrics: Mapping[str, Any]) -> None:
        """Log the metrics of the test part, and close the fold."""
        self.log({f"test/{name}": metrics[name] for name in TESTED if metrics.get(name) is not None}, self.iteration)
        self.close()

    def log(self, values: Mapping[str, float], iteration: int) -> None:
        """Log some values of one iteration."""
        raise NotImplementedError

    def close(self) -> None:
        """Write what is pending."""
        raise NotImplementedError


class TensorBoard(Tracker):
    """Event files in `<run>/tensorboard/fold-N`. A resumed fold continues its curves."""

    def fold_started(self, fold: Fold, iteration: int, iterations: int) -> None:
        """Open the event file of a fold."""
        from torch.utils.tensorboard import SummaryWriter

        folder = self.run.folder / "tensorboard" / f"fold-{fold.number}"
        self.writer: Any = SummaryWriter(str(folder), purge_step=iteration + 1 if iteration else None)

    def log(self, values: Mapping[str, float], iteration: int) -> None:
        """Add a scalar for each value."""
        for tag, value in values.items():
            self.writer.add_scalar(tag, value, iteration)

    def close(self) -> None:
        """Close the event file."""
        self.writer.close()


class WandB(Tracker):
    """A run of Weights & Biases for each fold, grouped by the run folder; WANDB_MODE=offline needs no account."""

    def fold_started(self, fold: Fold, iteration: int, iterations: int) -> None:
        """Start or continue the run of a fold."""
        import wandb

        name = f"{self.run.folder.name}-fold-{fold.number}"
        self.tracked: Any = wandb.init(
            project="agecli", group=self.run.folder.name, name=name, id=name, resume="allow", dir=str(self.run.folder)
        )

    def log(self, values: Mapping[str, float], iteration: int) -> None:
        """Log the values of one iteration."""
        self.tracked.log(dict(values), step=iteration)

    def close(self) -> None:
        """Finish the run of a fold."""
        self.tracked.finish()


class Listeners(Listener):
    """Several listeners as one, called in order."""

    def __init__(self, *listeners: Listener) -> None:
        self.listeners = listeners

    def run_started(self, run: Run, manifest: Manifest, folds: Sequence[Fold]) -> None:
        """Before the first fold."""
        for listener in self.listeners:
            listener.run_started(run, manifest, folds)

    def features_computed(self, done: int, total: int) -> None:
        """While features are computed."""
        for listener in self.listeners:
            listener.features_computed(done, total)

    def fold_started(self, fold: Fold, iteration: int, iterations: int) -> None:
        """Before a fold."""
        for listener in self.listeners:
            listener.fold_started(fold, iteration, iterations)

    def stepped(self, step: Step, images_per_second: float) -> None:
        """After each iteration."""
        for listener in self.listeners:
            listener.stepped(step, images_per_second)

    def validated(self, iteration: int, mae: float, best: bool) -> None:
        """After each validation."""
        for listener in self.listeners:
            listener.validated(iteration, mae, best)

    def fold_finished(self, fold: Fold, metrics: Mapping[str, Any]) -> None:
        """After a fold's test."""
        for listener in self.listeners:
            listener.fold_finished(fold, metrics)


def make_tracker(name: str) -> Tracker:
    """The tracker with this name. Raises InputError for another name, MissingError if its package is not installed."""
    if name not in TRACKERS:
        raise InputError(f"unknown tracker `{name}`", hint=f"choose from: {', '.join(TRACKERS)}")
    require(name, needed_by=f"--log {name}")
    return TensorBoard() if name == "tensorboard" else WandB()
