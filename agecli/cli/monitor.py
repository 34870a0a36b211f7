"""A training run on the screen."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Any

from agecli.cli.progress import Bars
from agecli.datasets.manifest import Manifest
from agecli.datasets.protocols import Fold, leakage
from agecli.studies.cells import Cell
from agecli.studies.listener import StudyListener
from agecli.training.context import Listener
from agecli.training.loop import Step
from agecli.training.run_folder import Run

log = logging.getLogger("agecli")
CELLS = "cells"


class TrainingBars(Bars, Listener):
    """A run as it goes on."""

    note = ""

    def run_started(self, run: Run, manifest: Manifest, folds: Sequence[Fold]) -> None:
        log.info("run %s: %d faces in %s, %d fold(s)", run.folder, len(manifest.samples), manifest.folder, len(folds))
        shares = [share for fold in folds if (share := leakage(manifest.samples, fold)) is not None]
        if shares and max(shares) > 0:
            log.info("%.0f %% of the test faces are of people seen in training", 100 * sum(shares) / len(shares))

    def features_computed(self, done: int, total: int) -> None:
        self.features(done, total)

    def fold_started(self, fold: Fold, iteration: int, iterations: int) -> None:
        if iteration:
            log.info("fold %d: resumed after iteration %d", fold.number, iteration)
        self.iterations, self.name, self.note = iterations, f"fold {fold.number}", ""

    def stepped(self, step: Step, images_per_second: float) -> None:
        if p := step.progress:
            self.note = f"loss {p.loss:.2f}  H {p.entropy:.2f}  T {p.T:.2f}  τ {p.tau:.2f}  MAE {p.train_mae:.2f}  {images_per_second:.0f}/s"
        self.show(self.name, step.iteration, self.iterations, self.note)

    def validated(self, iteration: int, mae: float, best: bool) -> None:
        log.info("%s, iteration %d: validation MAE %.3f%s", self.name, iteration, mae, " (best so far)" if best else "")

    def fold_finished(self, fold: Fold, metrics: Mapping[str, Any]) -> None:
        self.drop(self.name)
        log.info(
            "fold %d: test MAE %.2f, CS@5 %.1f %% on %d faces",
            fold.number,
            metrics["mae"],
            100 * metrics["cs5"],
            metrics["images"],
        )


class StudyBars(TrainingBars, StudyListener):
    """A study as it goes on: its cells, and the run of the one at hand."""

    started = 0.0
    before = 0  # cells that were finished when it began

    def folds_finished(self, done: int, total: int) -> None:
        """While several processes train, and say nothing themselves."""
        self.show("folds", done, total)

    def cell_finished(self, cell: Cell, done: int, total: int, seconds: float) -> None:
        if not self.started:  # the first one that is told of was begun when the study was
            self.started, self.before = time.monotonic() - seconds, done - 1
        left = (time.monotonic() - self.started) / (done - self.before) * (total - done)
        log.info("%d of %d: %s, %.0f s; about %.0f min left", done, total, cell.label, seconds, left / 60)
        self.show(CELLS, done, total, f"about {left / 60:.0f} min left")
