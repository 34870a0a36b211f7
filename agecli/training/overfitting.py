"""Overfitting while a fold is trained: early stopping, and warnings of a growing gap and of collapsed leaves.

All follow from the history of the fold and its leaves, so that a resumed run decides as an uninterrupted one does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agecli.forest.collapse import collapsed
from agecli.forest.forests import Forest, Top

WORSE = 3  # validations in a row above the best one, before the gap is said to open
GAP = 1.03  # times the lowest validation MAE: smaller rises are noise
MANY = 0.5  # of the leaves; more collapsed ones are worth a warning
History = Sequence[Mapping[str, Any]]  # rows of history.csv, as text or numbers


def exhausted(history: History, patience: int) -> bool:
    """Whether the last `patience` validations did not lower the MAE (`training.patience`); never if that is 0."""
    maes = [mae for _, mae in validations(history)]
    return 0 < patience < len(maes) and min(maes[-patience:]) >= min(maes[:-patience])


def validations(history: History) -> list[tuple[int, float]]:
    """The iteration and the MAE in years of each validation."""
    return [(int(row["iteration"]), float(row["val_mae"])) for row in history if row.get("val_mae")]


class OverfittingCheck:
    """Warns once of each sign of overfitting.

    >>> check = OverfittingCheck()
    >>> messages = check(training.history, model.forest)  # after each validation
    """

    def __init__(self) -> None:
        self.said: set[str] = set()

    def __call__(self, history: History, forest: Top) -> list[str]:
        """The warnings that are due and were not given before."""
        found = {"gap": gap_message(history), "leaves": collapse_message(forest)}
        new = {name: message for name, message in found.items() if message and name not in self.said}
        self.said |= set(new)
        return [*new.values()]


def gap_message(history: History) -> str | None:
    """A warning if the training MAE fell since the best validation while the validation MAE rose; else None."""
    done = validations(history)
    if len(done) <= WORSE:
        return None
    best_at, best = min(done, key=lambda item: item[1])
    if any(mae <= GAP * best for _, mae in done[-WORSE:]):
        return None
    training = [(int(row["iteration"]), float(row["train_mae"])) for row in history if row.get("train_mae")]
    before = [mae for iteration, mae in training if iteration <= best_at]
    if not before or training[-1][1] >= before[-1]:
        return None
    return (
        f"the model overfits: since iteration {best_at} the training MAE fell from {before[-1]:.2f} to {training[-1][1]:.2f}, "
        f"and the validation MAE rose from {best:.2f} to {done[-1][1]:.2f}; use --set training.patience={WORSE}, fewer "
        "--iterations, more faces or stronger augmentation"
    )


def collapse_message(forest: Top) -> str | None:
    """A warning if more than MANY of the leaves have shrunk to one year; else None."""
    if not isinstance(forest, Forest):  # regression has no leaves
        return None
    leaves = collapsed(forest)
    if leaves.float().mean() <= MANY:
        return None
    return (
        f"{int(leaves.sum())} of {leaves.numel()} leaves have collapsed to one year: without calibration, intervals are too narrow; use "
        "fewer --trees or a smaller --depth, or see `agecli inspect`"
    )
