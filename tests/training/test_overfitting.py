"""Early stopping and warnings of overfitting follow from the history and the leaves."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

import agecli
from agecli.core.ages import AgeGrid
from agecli.core.errors import Interrupted
from agecli.core.files import read_csv
from agecli.forest.forests import GaussianForest
from agecli.forest.gaussian import Gaussians
from agecli.training.context import Listener
from agecli.training.loop import Step
from agecli.training.overfitting import OverfittingCheck, exhausted, gap_message
from tests.training.test_train import TINY


def history(*maes: float, train: float = 3.0, falls: float = 0.2) -> list[dict[str, Any]]:
    """A validation after each 100 iterations, while the training MAE falls; as text, as a resumed run has it."""
    return [
        {"iteration": str(100 * n), "val_mae": f"{mae:.4f}", "train_mae": f"{train - falls * n:.6g}"}
        for n, mae in enumerate(maes, 1)
    ]


def test_a_fold_stops_when_patience_validations_did_not_lower_the_mae() -> None:
    assert not exhausted(history(5, 4, 4.1, 4.2), 3)
    assert exhausted(history(5, 4, 4.1, 4.2, 4.0), 3)  # an equal MAE is no improvement
    assert not exhausted(history(5, 4, 4.1, 4.2, 3.9), 3)
    assert not exhausted(history(5, 6, 7, 8, 9), 0)  # 0 disables it
    assert not exhausted([{"iteration": 50, "val_mae": ""}, *history(5, 6)], 2)  # rows of leaf updates do not count


def test_a_gap_that_opens_is_said_once() -> None:
    rising = history(5, 4, 4.2, 4.3, 4.5)
    assert "training MAE fell from 2.60 to 2.00" in (gap_message(rising) or "")
    assert "validation MAE rose from 4.00 to 4.50" in (gap_message(rising) or "")
    assert gap_message(history(5, 4, 4.01, 4.02, 4.01)) is None  # noise
    assert gap_message(history(5, 4, 4.2, 4.3, 4.5, falls=-0.2)) is None  # both rise: no overfitting
    check, forest = OverfittingCheck(), forest_of(variance=9.0)
    assert len(check(rising, forest)) == 1
    assert check(rising, forest) == []


def forest_of(variance: float) -> GaussianForest:
    leaves = Gaussians(torch.full((2, 4), 30.0), torch.full((2, 4), variance))
    return GaussianForest(torch.zeros(2, 3, dtype=torch.long), leaves, AgeGrid(0, 100), 0.25)


def test_collapsed_leaves_are_said() -> None:
    (message,) = OverfittingCheck()([], forest_of(variance=0.25))
    assert "8 of 8 leaves have collapsed" in message
    half = forest_of(variance=9.0)
    half.variance[0] = 0.25
    assert OverfittingCheck()([], half) == []


class Stopper(Listener):
    """Sends SIGTERM to this process after an iteration."""

    def __init__(self, after: int) -> None:
        self.after = after

    def stepped(self, step: Step, images_per_second: float) -> None:
        if step.iteration == self.after:
            os.kill(os.getpid(), signal.SIGTERM)


def test_a_resumed_run_stops_early_where_an_uninterrupted_one_does(toy: Path, tmp_path: Path) -> None:
    settings = {"data.size": 64, "training.eval_every": 5, "training.patience": 1, "forest.update_every": 5}
    options: dict[str, Any] = {**TINY, "iterations": 200, "lr": 0.05, "settings": settings}
    agecli.train(toy, out=tmp_path / "whole", **options)
    files = ("history.csv", "predictions.csv")
    last = int(read_csv(tmp_path / "whole/fold-1/history.csv")[-1]["iteration"])
    assert 5 < last < 200
    with pytest.raises(Interrupted):
        agecli.train(toy, out=tmp_path / "parts", listener=Stopper(last - 3), **options)
    agecli.train(out=tmp_path / "parts", resume=True)
    whole, parts = ([read_csv(tmp_path / run / "fold-1" / name) for name in files] for run in ("whole", "parts"))
    for row in (*whole[0], *parts[0]):
        row.pop("images_per_second")
    assert whole == parts
