"""What the folds of a run share: its faces, inputs and initial model, and the callbacks for its progress."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from agecli.core.config import Config
from agecli.core.errors import InputError, Interrupted
from agecli.core.seeding import generator
from agecli.datasets.manifest import Manifest
from agecli.datasets.protocols import Fold
from agecli.images.alignment import Alignment
from agecli.images.face_frames import Floats
from agecli.model.fingerprint import Fingerprint, fingerprint_of, read_frequencies
from agecli.model.network import AgeModel
from agecli.training.batches import in_proportion, sampling_weights
from agecli.training.inputs import Inputs
from agecli.training.loop import Step
from agecli.training.run_folder import Run

log = logging.getLogger("agecli")
BROKEN_SHARE = 0.01  # of all faces; more unreadable pictures than this are an error


class Listener:
    """Callbacks of a run; no-ops by default.

    >>> class Printer(Listener):
    ...     def validated(self, iteration, mae, best): print(iteration, mae)
    >>> agecli.train("aligned", listener=Printer())
    """

    def run_started(self, run: Run, manifest: Manifest, folds: Sequence[Fold]) -> None:
        """Before the first fold, with the folds that will be trained."""

    def features_computed(self, done: int, total: int) -> None:
        """While the features of a frozen backbone are computed: faces that are done, of all."""

    def fold_started(self, fold: Fold, iteration: int, iterations: int) -> None:
        """Before a fold's first iteration; `iteration` is above 0 if it is resumed."""

    def stepped(self, step: Step, images_per_second: float) -> None:
        """After each iteration."""

    def validated(self, iteration: int, mae: float, best: bool) -> None:
        """After each validation, with the MAE in years, and whether it is the lowest so far."""

    def fold_finished(self, fold: Fold, metrics: Mapping[str, Any]) -> None:
        """After a fold's test, with the row of metrics.csv for all test faces."""


@dataclass
class RunContext:
    """One run, as its folds see it."""

    run: Run
    manifest: Manifest
    device: torch.device
    inputs: Inputs
    initial_model: AgeModel  # with its weights loaded; every fold starts from a copy
    fine_tuned: bool  # whether its splits and leaves are trained already (`--init`)
    listener: Listener
    stop: threading.Event  # set by SIGINT or SIGTERM
    untrained: bool = True  # whether it starts from no model of agecli (`--init`, `--weights`)
    parent: Fingerprint | None = None  # of the model that it starts from: the faces that this has seen
    broken: dict[str, str] = field(default_factory=dict)  # unreadable pictures: path -> reason

    @property
    def config(self) -> Config:
        """The settings of the run."""
        return self.run.config

    def age_of(self, indices: Sequence[int]) -> torch.Tensor:
        """The ages of some faces, in years.   (n,)"""
        return torch.tensor([self.manifest.samples[index].age for index in indices])

    def weights_of(self, indices: Sequence[int]) -> NDArray[np.float64] | None:
        """How often some faces are drawn in training, relative to each other; None if all alike.   (n,)"""
        samples = [self.manifest.samples[index] for index in indices]
        ages, weights = [sample.age for sample in samples], [sample.weight for sample in samples]
        return sampling_weights(ages, self.config.data.balance, weights)

    def drawn_ages(self, indices: Sequence[int]) -> torch.Tensor:
        """The ages of some faces, in years, each as often as it is drawn in one pass: what the leaves start from.   (n,)

        With the ages as they are, a forest trained with `data.balance` would begin with hardly a leaf for rare ages, and
        leaves rarely move far: the default model had two per tree below ten years.
        """
        ages, weights = self.age_of(indices), self.weights_of(indices)
        return (
            ages if weights is None else ages[in_proportion(weights, generator(self.config.training.seed, "leaf ages"))]
        )

    @cached_property
    def face_frequencies(self) -> Floats:
        """The frequencies of all faces of the manifest, for the fingerprints of the folds.   (n, BITS)"""
        folder = self.manifest.folder
        return read_frequencies(folder, [sample.path for sample in self.manifest.samples], Alignment.read(folder))

    def fingerprint(self, fold: Fold) -> Fingerprint:
        """The fingerprint of the model of a fold: its training and validation faces, and those of the initial model."""
        values, samples = self.face_frequencies, self.manifest.samples
        subjects = (samples[index].subject for index in (*fold.train, *fold.val))
        known = self.untrained or self.parent is not None
        return fingerprint_of(values[list(fold.train)], values[list(fold.val)], subjects, self.parent, known)

    def skip(self, broken: Mapping[str, str]) -> None:
        """Warn of each unreadable picture, once. Raises InputError if there are more than BROKEN_SHARE of all."""
        for path, reason in broken.items():
            if path not in self.broken:
                log.warning("left out %s: %s", path, reason)
                self.broken[path] = reason
        if len(self.broken) > BROKEN_SHARE * len(self.manifest.samples):
            some = ", ".join(list(self.broken)[:3])
            raise InputError(
                f"{len(self.broken)} of {len(self.manifest.samples)} pictures can't be read ({some}, …), which is more than 1 %",
                hint="repair them, or remove them from the table",
            )


@dataclass(frozen=True)
class FeatureProgress:
    """Tells a listener of computed features, and stops between two batches if a signal came."""

    listener: Listener
    stop: threading.Event

    def __call__(self, done: int, total: int) -> None:
        """`done` of `total` faces have features. Raises Interrupted if the run is to stop."""
        self.listener.features_computed(done, total)
        if self.stop.is_set():
            raise Interrupted(
                f"stopped after the features of {done} of {total} faces", hint="run it again: they are cached"
            )
