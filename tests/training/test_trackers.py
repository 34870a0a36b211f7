"""Experiment trackers get what the history has; TensorBoard's event file is read back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import agecli
from agecli.core.errors import InputError
from agecli.core.files import read_csv
from agecli.core.seeds import mean_and_std, parse_seeds
from agecli.training.context import Listener
from agecli.training.seeds import train_seeds
from agecli.training.trackers import Listeners, make_tracker
from tests.training.test_train import TINY

SETTINGS = {"data.size": 64, "data.folds": 2, "forest.update_every": 2, "training.eval_every": 4}
QUICK: dict[str, Any] = {**TINY, "setup": "subject", "iterations": 8, "folds": "1", "settings": SETTINGS}


def test_the_event_file_of_tensorboard_has_the_curves_of_the_history(toy: Path, tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    listener = Listeners(Listener(), make_tracker("tensorboard"))
    agecli.train(toy, out=tmp_path / "run", listener=listener, **QUICK)
    events = accumulator.EventAccumulator(str(tmp_path / "run/tensorboard/fold-1")).Reload()
    rows = read_csv(tmp_path / "run/fold-1/history.csv")
    losses = {event.step: event.value for event in events.Scalars("train/loss")}
    assert losses == pytest.approx({int(row["iteration"]): float(row["loss"]) for row in rows if row["loss"]}, rel=1e-4)
    validated = {event.step: event.value for event in events.Scalars("val/mae")}
    assert validated == pytest.approx(
        {int(row["iteration"]): float(row["val_mae"]) for row in rows if row["val_mae"]}, rel=1e-3
    )
    assert len(events.Scalars("test/mae")) == 1


def test_an_unknown_tracker_is_refused() -> None:
    with pytest.raises(InputError, match="unknown tracker `x`"):
        make_tracker("x")


def test_several_seeds_are_several_runs_with_mean_and_std(toy: Path, tmp_path: Path) -> None:
    report = train_seeds((0, 1), toy, out=tmp_path / "both", **QUICK)
    one, two, mean, std = report.rows
    assert (one["seed"], two["seed"], mean["seed"], std["seed"]) == (0, 1, "mean", "std")
    assert mean["mae"] == pytest.approx((one["mae"] + two["mae"]) / 2, abs=1e-3)
    assert std["mae"] == pytest.approx(abs(one["mae"] - two["mae"]) / 2**0.5, abs=1e-3)
    assert len(read_csv(tmp_path / "both/seeds.csv")) == 4
    again = train_seeds((0, 1), toy, out=tmp_path / "both", resume=True, **QUICK)
    assert again.rows == report.rows
    with pytest.raises(InputError, match="several seeds are several runs"):
        train_seeds((0, 1), toy, out=None)


def test_seeds_are_whole_numbers_and_their_spread_is_that_of_a_sample() -> None:
    assert (parse_seeds(None), parse_seeds("3"), parse_seeds("0, 1,2")) == ((), (3,), (0, 1, 2))
    for text in ("", "x", "1,1", "0;1", "1.5"):
        with pytest.raises(InputError, match="no list of seeds"):
            parse_seeds(text)
    means, stds = mean_and_std([{"mae": 2.0}, {"mae": 4.0}, {}], ["mae"])
    assert means == {"mae": 3.0}
    assert stds["mae"] == pytest.approx(2**0.5)
