"""A training run on the screen."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from agecli.console import Bars
from agecli.data.manifest import Manifest
from agecli.data.splits import Fold, leakage
from agecli.fitting import Step
from agecli.folds import Listener
from agecli.runs import Run

log = logging.getLogger("agecli")


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
            log.info("fold %d: going on after iteration %d", fold.number, iteration)
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
