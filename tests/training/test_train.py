"""Training through the real command line, in real processes that are really killed."""

from __future__ import annotations

import csv
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import agecli
from agecli.core.config import replace
from agecli.core.errors import InputError, Interrupted
from agecli.core.files import read_csv
from agecli.forest.forests import Forest
from agecli.model.checkpoint import load_checkpoint, write_tensors
from agecli.model.network import build_model
from agecli.training.batches import Batch, Stream, feature_batches
from agecli.training.context import Listener
from agecli.training.fold_training import STATE, FoldTraining
from agecli.training.loop import Step
from agecli.training.run_folder import open_run
from tests.conftest import Cli, invoke

SMALL = ("--backbone", "timm:test_efficientnet", "--weights", "none", "--set", "data.size=64", "--batch-size", "16")
FROZEN = (*SMALL, "--freeze")
TINY: dict[str, Any] = {
    "backbone": "timm:test_efficientnet",
    "weights": "none",
    "freeze": True,
    "iterations": 30,
    "batch_size": 16,
    "settings": {"data.size": 64},
}


def rows(path: Path) -> list[dict[str, str]]:
    return read_csv(path)


def test_a_run_leaves_all_that_is_promised(cli: Cli, toy: Path, tmp_path: Path) -> None:
    done = cli(
        "train", "--data", toy, "--out", "runs/a", *FROZEN, "--iterations", 120, "--set", "training.eval_every=50"
    )
    assert done.returncode == 0, done.stderr
    run = tmp_path / "runs/a"
    assert {path.name for path in run.iterdir()} == {
        "config.toml",
        "environment.json",
        "splits.csv",
        "report.csv",
        "fold-1",
    }
    assert {path.name for path in (run / "fold-1").iterdir()} == {
        "history.csv",
        "predictions.csv",
        "distributions.npz",
        "metrics.csv",
        "best.safetensors",
        "last.safetensors",
    }
    with (run / "fold-1/history.csv").open() as file:
        history = list(csv.DictReader(file))
    assert list(history[0]) == [
        "iteration",
        "loss",
        "nll",
        "entropy",
        "T",
        "tau",
        "lr",
        "train_mae",
        "val_mae",
        "images_per_second",
    ]
    assert [row["iteration"] for row in history] == ["50", "100", "120"]
    assert all(row["val_mae"] for row in history)
    predictions = rows(run / "fold-1/predictions.csv")
    assert list(predictions[0]) == ["path", "subject", "age", "predicted", "std", "low", "high"]
    assert len(predictions) == 24
    assert all(0 <= float(row["low"]) <= float(row["high"]) <= 120 for row in predictions)
    mae = sum(abs(float(row["predicted"]) - float(row["age"])) for row in predictions) / 24
    assert float(rows(run / "fold-1/metrics.csv")[0]["mae"]) == pytest.approx(mae, abs=1e-3)
    assert [row["fold"] for row in rows(run / "report.csv")] == ["1", "mean", "std", "pooled"]
    assert '"mae"' in done.stdout


@pytest.mark.slow
def test_evaluating_a_run_gives_the_same_numbers_again(cli: Cli, toy: Path, tmp_path: Path) -> None:
    assert (
        cli(
            "train", "--data", toy, "--out", "a", *FROZEN, "--iterations", 60, "--setup", "subject", "--folds", "2-3"
        ).returncode
        == 0
    )
    fold = tmp_path / "a/fold-2"
    before = (fold / "predictions.csv").read_bytes()
    (fold / "predictions.csv").unlink()
    done = cli("evaluate", "a", "--format", "csv")
    assert done.returncode == 0, done.stderr
    assert (fold / "predictions.csv").read_bytes() == before
    table = list(csv.DictReader(done.stdout.splitlines()))
    assert [row["model"] for row in table] == ["fold-2", "fold-3", "pooled"]
    assert [row["leakage"] for row in table] == ["0", "0", "0"]
    done = cli("evaluate", fold / "best.safetensors", "--data", toy, "--out", "e", "-o", "e.csv", "--allow-seen")
    assert done.returncode == 0, done.stderr
    assert len(rows(tmp_path / "e/predictions.csv")) == 120
    assert rows(tmp_path / "e.csv")[0]["images"] == "120"


def start(folder: Path, *arguments: object) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "agecli", "train", *(str(argument) for argument in arguments)]
    return subprocess.Popen(
        command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=dict(os.environ)
    )


def wait_until(process: subprocess.Popen[bytes], condition: Callable[[], bool], deadline: float = 120) -> None:
    """Wait for a condition, or for the end of the process; kill it and fail at the deadline, in seconds."""
    end = time.monotonic() + deadline
    while process.poll() is None and not condition():
        if time.monotonic() > end:
            process.kill()
            pytest.fail(f"nothing happened within {deadline} s")
        time.sleep(0.01)


@pytest.mark.slow
@pytest.mark.parametrize(("model", "inputs"), [("drf", "pixels"), ("dldlf", "frozen")])
def test_kill_9_and_resume_give_the_same_predictions(
    cli: Cli, toy: Path, tmp_path: Path, model: str, inputs: str
) -> None:
    iterations = 1000 if inputs == "frozen" else 90
    base = ("--data", toy, "--model", model, "--iterations", iterations, "--set", "training.save_every=0.1")
    base = (*base, "--set", "training.eval_every=40", *(FROZEN if inputs == "frozen" else SMALL))
    assert cli("train", *base, "--out", "whole").returncode == 0
    state = tmp_path / "broken/fold-1/state.safetensors"
    dice = random.Random(f"{model} {inputs}")
    kills = 0
    for attempt in range(3):
        process = start(tmp_path, *base, "--out", "broken", *(["--resume"] if attempt else []))
        before = state.stat().st_mtime_ns if state.exists() else 0
        wait_until(process, lambda: state.exists() and state.stat().st_mtime_ns != before)  # noqa: B023
        time.sleep(dice.uniform(0, 0.5))
        kills += process.poll() is None
        process.kill()
        process.wait(timeout=30)
    assert kills >= 2
    assert not (tmp_path / "broken/fold-1/metrics.csv").exists()
    done = cli("train", "--resume", "--out", "broken")
    assert done.returncode == 0, done.stderr
    assert "resumed after iteration" in done.stderr
    for name in ("predictions.csv", "metrics.csv"):
        assert (tmp_path / "broken/fold-1" / name).read_bytes() == (tmp_path / "whole/fold-1" / name).read_bytes()
    for column in ("iteration", "loss", "T", "tau", "train_mae", "val_mae"):
        whole, broken = (
            [row[column.lower()] for row in rows(tmp_path / f"{run}/fold-1/history.csv")] for run in ("whole", "broken")
        )
        assert whole == broken, column
    assert not list((tmp_path / "broken").rglob("*.part"))  # what a kill left half written is cleared away


@pytest.mark.slow
def test_a_polite_stop_saves_and_says_how_to_go_on(cli: Cli, toy: Path, tmp_path: Path) -> None:
    base = [*("--data", str(toy), "--iterations", "60", "--set", "training.save_every=0.1"), *SMALL]
    assert cli("train", *base, "--out", "whole").returncode == 0
    for number in (signal.SIGINT, signal.SIGTERM):
        out = f"run-{number}"
        command = [sys.executable, "-m", "agecli", "train", *base, "--out", out]
        process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
        state = tmp_path / out / "fold-1/state.safetensors"
        wait_until(process, state.exists)
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=120)
        assert process.returncode == 130, stderr
        assert stdout == b""
        assert f"agecli train --resume --out {out}".encode() in stderr
        assert b"Traceback" not in stderr
        assert cli("train", "--resume", "--out", out).returncode == 0
        whole, stopped = (tmp_path / run / "fold-1/predictions.csv" for run in ("whole", out))
        assert whole.read_bytes() == stopped.read_bytes()


class Stopper(Listener):
    """Ctrl-C after some iterations."""

    def __init__(self, iteration: int) -> None:
        self.iteration = iteration

    def stepped(self, step: Step, images_per_second: float) -> None:
        if step.iteration == self.iteration:
            signal.raise_signal(signal.SIGINT)


@pytest.mark.slow
def test_integer_layers_and_exact_ones_are_the_same_after_a_stop(toy: Path, tmp_path: Path) -> None:
    settings = {"data.size": 64, "backbone.stages": 3, "backbone.int8": True, "backbone.exact": 3}
    chosen: dict[str, Any] = {"backbone": "timm:edgenext_xx_small", "weights": "none", "settings": settings}
    chosen |= {"data": toy, "iterations": 6, "batch_size": 8, "workers": 0}
    agecli.train(**chosen, out=tmp_path / "whole")
    with pytest.raises(Interrupted):
        agecli.train(**chosen, out=tmp_path / "stopped", listener=Stopper(3))
    agecli.train(out=tmp_path / "stopped", resume=True, workers=0)
    whole, stopped = (load_file(tmp_path / run / "fold-1/last.safetensors") for run in ("whole", "stopped"))
    assert sum(int(value) for name, value in whole.items() if name.endswith(".exact")) == 3
    assert whole.keys() == stopped.keys()
    assert [name for name, value in whole.items() if not torch.equal(value, stopped[name])] == []
    one, two = (tmp_path / run / "fold-1/predictions.csv" for run in ("whole", "stopped"))
    assert one.read_bytes() == two.read_bytes()


@pytest.mark.slow
def test_a_finished_fold_is_not_run_again(cli: Cli, toy: Path, tmp_path: Path) -> None:
    base = ("--data", toy, *FROZEN, "--iterations", 40, "--setup", "subject", "--out", "a")
    assert cli("train", *base, "--folds", 1).returncode == 0
    before = (tmp_path / "a/fold-1/best.safetensors").stat().st_mtime_ns
    done = cli("train", "--out", "a", "--resume", "--folds", "1,2")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "a/fold-1/best.safetensors").stat().st_mtime_ns == before
    assert [row["fold"] for row in rows(tmp_path / "a/report.csv")] == ["1", "2", "mean", "std", "pooled"]


def test_a_run_is_not_overwritten_nor_resumed_with_other_settings_or_faces(toy: Path, tmp_path: Path) -> None:
    shutil.copytree(toy, tmp_path / "data")
    run = tmp_path / "a"
    agecli.train(tmp_path / "data", out=run, **TINY)
    again = invoke("train", "--data", tmp_path / "data", *FROZEN, "--out", run)
    assert again.exit_code == 2
    assert "--resume" in again.stderr
    other = invoke("train", "--out", run, "--resume", "--trees", 3)
    assert other.exit_code == 2
    assert "forest.trees" in other.stderr
    (tmp_path / "data/labels.csv").write_text((tmp_path / "data/labels.csv").read_text().replace(",0000", ",0001"))
    changed = invoke("train", "--out", run, "--resume")
    assert changed.exit_code == 2
    assert f"not those that {run} was started with" in changed.stderr


def test_what_a_kill_left_of_the_first_writes_is_no_run(toy: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run/splits.csv").write_text("fold,part,path\n")
    (tmp_path / "run/.config.toml.x.part").touch()
    report = agecli.train(toy, out=tmp_path / "run", **TINY)
    assert report.rows[0]["images"] == 24


def test_a_resumed_run_is_told_apart_from_another_preset_or_other_weights(toy: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    agecli.train(toy, out=run, **TINY)
    with pytest.raises(InputError, match=r"training\.optimiser"):
        agecli.train(toy, out=run, resume=True, preset="paper")
    about = (run / "environment.json").read_text()
    (run / "environment.json").write_text(about.replace('"backbone_sha256": "', '"backbone_sha256": "0'))
    with pytest.raises(InputError, match="not the weights"):
        agecli.train(out=run, resume=True)


def test_the_pooled_row_is_the_error_over_all_predictions(toy: Path, tmp_path: Path) -> None:
    shutil.copytree(toy, tmp_path / "data")
    table = (tmp_path / "data/labels.csv").read_text().splitlines()
    (tmp_path / "data/labels.csv").write_text("\n".join(table[:32]) + "\n")  # the last of six subjects has one face
    report = agecli.train(tmp_path / "data", out=tmp_path / "run", setup="lopo", **TINY)
    faces = [row for fold in (tmp_path / "run").glob("fold-*") for row in read_csv(fold / "predictions.csv")]
    mae = sum(abs(float(row["predicted"]) - float(row["age"])) for row in faces) / 31
    assert report.rows[-1]["fold"] == "pooled"
    assert report.rows[-1]["mae"] == pytest.approx(mae, abs=1e-3)
    assert report.rows[-3]["mae"] != pytest.approx(mae, abs=1e-3)


@pytest.mark.slow
def test_evaluating_on_faces_that_were_trained_on_is_said(cli: Cli, toy: Path, tmp_path: Path) -> None:
    agecli.train(toy, out=tmp_path / "a", **TINY)
    done = cli("evaluate", "a", "--setup", "II", "--format", "csv")
    assert done.returncode == 1, done.stderr
    table = [row for row in csv.DictReader(done.stdout.splitlines()) if "seen" not in row["model"]]
    assert [row["model"] for row in table] == [*(f"fold-1/II-{n}" for n in range(1, 6)), "pooled"]
    assert all(float(row["leakage"]) > 0.9 for row in table[:5])
    assert all(float(row["seen"]) > 0.1 for row in table)
    assert "this is not its error on new faces" in done.stderr
    assert (tmp_path / f"a/evaluation-{toy.name}/fold-1/II-3/metrics.csv").exists()


@pytest.mark.slow
@pytest.mark.parametrize("inputs", [FROZEN, SMALL], ids=["frozen", "pixels"])
def test_a_broken_picture_is_named_skipped_and_counted(
    cli: Cli, toy: Path, tmp_path: Path, inputs: tuple[str, ...]
) -> None:
    shutil.copytree(toy, tmp_path / "data")
    first, second, *_ = sorted((tmp_path / "data/images").iterdir())
    first.write_bytes(first.read_bytes()[:1000])
    done = cli("train", "--data", "data", *inputs, "--iterations", 30, "--out", "a")
    assert done.returncode == 1, done.stderr  # finished, but not with all of them
    assert done.stderr.count(f"left out images/{first.name}") == 1
    assert (tmp_path / "a/report.csv").exists()
    second.write_text("no picture")
    refused = invoke("train", "--data", tmp_path / "data", *inputs, "--iterations", 30, "--out", tmp_path / "b")
    assert refused.exit_code == 2
    assert "2 of 120 pictures can't be read" in refused.stderr


def test_a_loss_that_explodes_keeps_the_last_good_checkpoint(cli: Cli, toy: Path, tmp_path: Path) -> None:
    explode = (
        "--lr",
        "1e30",
        "--set",
        "training.clip_norm=0",
        "--set",
        "training.warmup=100000",
        "--set",
        "training.save_every=0",
    )
    done = cli("train", "--data", toy, *SMALL, "--iterations", 60, "--out", "a", *explode)
    assert done.returncode == 2
    assert "error: the " in done.stderr
    assert "not" in done.stderr
    assert "last good checkpoint is a/fold-1/last.safetensors" in done.stderr
    assert "--lr" in done.stderr
    assert (tmp_path / "a/fold-1/last.safetensors").exists()


def test_a_name_of_its_own_from_model_and_setup(cli: Cli, toy: Path, tmp_path: Path) -> None:
    assert (
        cli(
            "train", "--data", toy, *FROZEN, "--iterations", 20, "--model", "dldlf", "--preset", "paper", "--lr", 0.01
        ).returncode
        == 0
    )
    assert (tmp_path / "runs/dldlf-random/config.toml").read_text().startswith('model = "dldlf"')
    assert (tmp_path / "runs/dldlf-random/fold-1/best.safetensors").exists()


def trained_forest(run: Path) -> dict[str, torch.Tensor]:
    """phi and the leaves of a run's last checkpoint."""
    tensors = load_file(run / "fold-1/last.safetensors")
    return {name: value for name, value in tensors.items() if name.startswith("forest.")}


def test_another_assignment_is_another_phi_on_the_same_network(toy: Path, tmp_path: Path) -> None:
    for number in (0, 0, 1):
        settings = {**TINY["settings"], "forest.assignment": number}
        agecli.train(toy, out=tmp_path / str(number), resume=True, **{**TINY, "settings": settings})
    first, second = (trained_forest(tmp_path / name) for name in ("0", "1"))
    assert not torch.equal(first["forest.phi"], second["forest.phi"])
    config = load_checkpoint(tmp_path / "0/fold-1/last.safetensors").config
    changed = build_model(replace(config, {"forest.assignment": 1}))
    assert isinstance(changed.forest, Forest)
    assert torch.equal(changed.forest.phi, second["forest.phi"])
    assert torch.equal(changed.f.weight, build_model(config).f.weight)


def test_refreshed_leaves_are_fitted_to_the_routing_that_predicts(toy: Path, tmp_path: Path) -> None:
    """30 iterations have no leaf update: without the refresh leaves keep their random start."""
    for refresh in (True, False):
        settings = {**TINY["settings"], "training.refresh_leaves": refresh}
        agecli.train(toy, out=tmp_path / str(refresh), **{**TINY, "settings": settings})
    fitted, start = (trained_forest(tmp_path / str(refresh)) for refresh in (True, False))
    assert start["forest.variance"].unique().numel() == 1
    assert fitted["forest.variance"].unique().numel() > 1
    ages = torch.tensor([float(row["age"]) for row in read_csv(toy / "labels.csv")])
    assert fitted["forest.mean"].min() >= ages.min()
    one, two = (load_file(tmp_path / str(refresh) / "fold-1/last.safetensors") for refresh in (True, False))
    assert torch.equal(one["f.weight"], two["f.weight"])  # the leaves alone are refreshed


@pytest.mark.parametrize(("model", "refreshes"), [("drf", 0), ("regression", 1)])
def test_leaves_that_stay_as_they_are_need_no_faces(
    toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: Any, refreshes: int
) -> None:
    """The variance of regression does not depend on rounds of variational bounding."""
    refreshed: list[FoldTraining] = []
    monkeypatch.setattr("agecli.training.finishing.refresh_leaves", refreshed.append)
    settings = {**TINY["settings"], "forest.update_rounds": 0}
    agecli.train(toy, model=model, out=tmp_path / "run", **{**TINY, "settings": settings})
    assert len(refreshed) == refreshes


def test_balance_draws_rare_ages_more_often(toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A face whose age no other has within two years is drawn more often, and common ages less often."""
    shutil.copytree(toy, tmp_path / "data")
    table = [row.split(",") for row in (tmp_path / "data/labels.csv").read_text().splitlines()]
    place = table[0].index("age")
    for number, row in enumerate(table[1:]):
        row[place] = "90" if number % 12 == 0 else "30"
    (tmp_path / "data/labels.csv").write_text("\n".join(",".join(row) for row in table) + "\n")
    ages: list[float] = []

    def note(features: torch.Tensor, y: torch.Tensor, stream: Stream) -> Iterator[Batch]:
        for batch in feature_batches(features, y, stream):
            ages.extend(batch.ages.tolist())
            yield batch

    monkeypatch.setattr("agecli.training.inputs.feature_batches", note)
    shares = {}
    for balance in (0.0, 1.0):
        ages.clear()
        settings = {**TINY["settings"], "data.balance": balance}
        agecli.train(tmp_path / "data", out=tmp_path / str(balance), **{**TINY, "settings": settings})
        shares[balance] = sum(age == 90 for age in ages) / len(ages)
    assert shares[0.0] < 0.15
    assert shares[1.0] == pytest.approx(0.5, abs=0.05)


def test_a_run_folder_of_an_older_version_is_read_and_resumed(toy: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    agecli.train(toy, out=run, setup="subject", folds="1", **TINY)
    about = json.loads((run / "environment.json").read_text())
    assert about.pop("folds") == open_run(run).count_folds() == 5
    (run / "environment.json").write_text(json.dumps(about))
    later = ("standardise", "noise", "stages", "layer_decay", "unfreeze_every", "mask")  # settings it did not have
    lines = (run / "config.toml").read_text().splitlines(keepends=True)
    (run / "config.toml").write_text("".join(line for line in lines if line.split(" =")[0] not in later))
    assert open_run(run).count_folds() == 5
    assert not open_run(run).config.forest.standardise  # as it was then
    report = agecli.train(out=run, resume=True, folds="1-2")
    assert [row["fold"] for row in report.rows] == [1, 2, "mean", "std", "pooled"]
    del about["backbone_sha256"]
    (run / "environment.json").write_text(json.dumps(about))
    with pytest.raises(InputError, match=r"environment\.json can't be used: KeyError\('backbone_sha256'\)"):
        agecli.train(out=run, resume=True)


def test_a_state_that_does_not_fit_is_one_clear_error(toy: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    agecli.train(toy, out=run, **TINY)
    for name in ("metrics.csv", "predictions.csv"):
        (run / "fold-1" / name).unlink()
    write_tensors(run / "fold-1/state.safetensors", STATE, {"network.w": torch.zeros(1)}, {"learner": {}, "best": None})
    with pytest.raises(InputError, match=r"state\.safetensors can't be resumed by this version"):
        agecli.train(out=run, resume=True)
