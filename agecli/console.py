"""Talk, on stderr: progress on a terminal, a line now and then in a pipe."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, TypeVar

from rich.console import Console
from rich.logging import RichHandler
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from agecli.data.manifest import Manifest
from agecli.data.splits import Fold, leakage
from agecli.fitting import Step
from agecli.runs import Run
from agecli.training import Listener

LINE_EVERY = 30.0  # seconds between two lines in a pipe
log = logging.getLogger("agecli")


def stderr() -> Console:
    return Console(stderr=True, highlight=False)


def set_up_logging(console: Console, level: int) -> None:
    handler: logging.Handler
    if console.is_terminal:
        handler = RichHandler(console=console, show_time=False, show_path=False, show_level=False, markup=False)
        handler.setFormatter(logging.Formatter("%(message)s"))
    else:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", datefmt="%H:%M:%S"))
    log.handlers, log.propagate = [handler], False
    log.setLevel(level)


B = TypeVar("B", bound="Bars")


class Bars:
    """Progress bars on a terminal, none in a pipe or when quiet."""

    def __init__(self, console: Console, quiet: bool) -> None:
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            TimeRemainingColumn(compact=True),
            console=console,
            disable=quiet or not console.is_terminal,
            transient=True,
        )
        self.tasks: dict[str, TaskID] = {}
        self.quiet = quiet
        self.spoke = time.monotonic()

    def __enter__(self: B) -> B:
        self.progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.progress.stop()

    def show(self, name: str, done: int, total: int, note: str = "") -> None:
        """Where a piece of work is; a line in a pipe if the last one is some seconds old."""
        if name not in self.tasks:
            self.tasks[name] = self.progress.add_task(escape(name), total=total, completed=done, note="")
        self.progress.update(self.tasks[name], completed=done, total=total, note=note)
        if self.progress.disable and time.monotonic() - self.spoke > LINE_EVERY:
            self.spoke = time.monotonic()
            log.info("%s: %d of %d %s", name, done, total, note)

    def drop(self, name: str) -> None:
        with suppress(KeyError):
            self.progress.remove_task(self.tasks.pop(name))

    def features(self, done: int, total: int) -> None:
        self.show("features", done, total)
        if done == total:
            self.drop("features")


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
