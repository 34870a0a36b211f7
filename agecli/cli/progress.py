"""Progress on stderr: bars on a terminal, a log line every LINE_EVERY seconds in a pipe."""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from types import TracebackType
from typing import TypeVar

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

LINE_EVERY = 30.0  # seconds between two lines in a pipe
log = logging.getLogger("agecli")


B = TypeVar("B", bound="Bars")


class Bars:
    """A context manager with one progress bar for each name; no bars in a pipe, or if quiet.

    >>> with Bars(quiet=False) as bars:
    ...     bars.show("faces", done=3, total=10)
    """

    def __init__(self, quiet: bool) -> None:
        console = Console(stderr=True, highlight=False)
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
        self.began: dict[str, tuple[float, int]] = {}  # when a bar was first shown, and how many items were done then
        self.quiet = quiet
        self.spoke = time.monotonic()

    def __enter__(self: B) -> B:
        self.progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.progress.stop()

    def show(self, name: str, done: int, total: int | None, note: str = "") -> None:
        """Show that `done` of `total` items are finished, with a note, by default the items per second.

        total: None if it is not known yet. In a pipe, a line is logged if the last one is LINE_EVERY seconds old.
        """
        if name not in self.tasks:
            self.began[name] = (time.monotonic(), done)
            self.tasks[name] = self.progress.add_task(escape(name), total=total, completed=done, note="")
        if not note:
            since, first = self.began[name]
            rate = (done - first) / max(1e-9, time.monotonic() - since)
            note = f"{rate:.{0 if rate >= 10 else 1}f}/s"
        self.progress.update(self.tasks[name], completed=done, total=total, note=note)
        if self.progress.disable and time.monotonic() - self.spoke > LINE_EVERY:
            self.spoke = time.monotonic()
            log.info("%s: %d%s %s", name, done, f" of {total}" if total else "", note)

    def drop(self, name: str) -> None:
        """Remove a bar."""
        with suppress(KeyError):
            self.progress.remove_task(self.tasks.pop(name))

    def features(self, done: int, total: int) -> None:
        """Show the faces whose features are computed; the bar is removed when all are."""
        self.show("features", done, total)
        if done == total:
            self.drop("features")
