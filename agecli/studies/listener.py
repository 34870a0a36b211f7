"""Callbacks of a study."""

from __future__ import annotations

from agecli.studies.cells import Cell
from agecli.training.context import Listener


class StudyListener(Listener):
    """Callbacks of a study, beside those of its runs; no-ops by default."""

    def cell_finished(self, cell: Cell, done: int, total: int, seconds: float) -> None:
        """A cell took so many seconds, and `done` of `total` cells are finished."""

    def folds_finished(self, done: int, total: int) -> None:
        """So many folds of all cells are finished; called now and then while other processes train them."""
