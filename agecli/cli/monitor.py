"""The progress of training runs and studies on stderr."""

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
    """A progress bar for each fold of a run, and messages in between."""

    note = ""

    def run_started(self, run: Run, manifest: Manifest, folds: Sequence[Fold]) -> None:
        """Log the size of the run, and its leakage."""
        log.info("run %s: %d faces in %s, %d fold(s)", run.folder, len(manifest.samples), manifest.folder, len(folds))
        shares = [share for fold in folds if (share := leakage(manifest.samples, fold)) is not None]
        if shares and max(shares) > 0:
            log.info("%.0f %% of the test faces are of subjects in the training part", 100 * sum(shares) / len(shares))

    def features_computed(self, done: int, total: int) -> None:
        """Show a bar of the features."""
        self.features(done, total)

    def fold_started(self, fold: Fold, iteration: int, iterations: int) -> None:
        """Log where a resumed fold continues."""
        if iteration:
            log.info("fold %d: resumed after iteration %d", fold.number, iteration)
        self.iterations, self.name, self.note = iterations, f"fold {fold.number}", ""

    def stepped(self, step: Step, images_per_second: float) -> None:
        """Move the bar of the fold, with the numbers of the last leaf update."""
        if p := step.progress:
            self.note = f"loss {p.loss:.2f}  H {p.entropy:.2f}  T {p.T:.2f}  τ {p.tau:.2f}  MAE {p.train_mae:.2f}  {images_per_second:.0f}/s"
        self.show(self.name, step.iteration, self.iterations, self.note)

    def validated(self, iteration: int, mae: float, best: bool) -> None:
        """Log the validation MAE, in years."""
        log.info("%s, iteration %d: validation MAE %.3f%s", self.name, iteration, mae, " (best so far)" if best else "")

    def fold_finished(self, fold: Fold, metrics: Mapping[str, Any]) -> None:
        """Remove the bar and log the test metrics."""
        self.drop(self.name)
        log.info(
            "fold %d: test MAE %.2f, CS@5 %.1f %% on %d faces",
            fold.number,
            metrics["mae"],
            100 * metrics["cs5"],
            metrics["images"],
        )


class StudyBars(TrainingBars, StudyListener):
    """A progress bar for the cells of a study, and those of the current run."""

    started = 0.0
    before = 0  # cells that were finished before this study was resumed

    def folds_finished(self, done: int, total: int) -> None:
        """Show the finished folds of all cells, while other processes train them."""
        self.show("folds", done, total)

    def cell_finished(self, cell: Cell, done: int, total: int, seconds: float) -> None:
        """Log a finished cell, the seconds it took, and an estimate of the time left."""
        if not self.started:  # the first cell began when the study did
            self.started, self.before = time.monotonic() - seconds, done - 1
        left = (time.monotonic() - self.started) / (done - self.before) * (total - done)
        log.info("%d of %d: %s, %.0f s; about %.0f min left", done, total, cell.label, seconds, left / 60)
        self.show(CELLS, done, total, f"about {left / 60:.0f} min left")
