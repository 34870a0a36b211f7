"""Cells as shards: real processes in one study folder, a real Dask cluster, and the bytes of one process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import agecli
from agecli.core.errors import TrainingError
from agecli.core.files import read_csv
from agecli.datasets.toy import draw_faces
from agecli.studies import cell_runs
from agecli.studies.cells import find_study
from agecli.studies.study import study
from agecli.studies.training_error import write_training_errors
from agecli.training.train import PREPARE
from benchmarks.scaling import cluster
from tests.conftest import invoke

ROOT = Path(__file__).parents[2]
DEADLINE = 400  # seconds
SMALL = (
    *("--setup", "subject", "--weights", "none", "--freeze", "--iterations", "40", "--batch-size", "8"),
    *("--set", "data.folds=2", "--set", "data.size=32", "--set", "forest.update_every=20", "--device", "cpu"),
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cells")
    draw_faces(folder / "toy", 80)
    return folder


def start(place: Path, *arguments: str, **environment: str) -> subprocess.Popen[bytes]:
    """`agecli study ARGUMENTS` in the background."""
    with (place / "log.txt").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "agecli", "study", *arguments],
            cwd=place,
            stdout=log,
            stderr=log,
            env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        )


def finish(place: Path, *arguments: str, code: int = 0) -> None:
    assert start(place, *arguments).wait(DEADLINE) == code, (place / "log.txt").read_text()


def files_of(folder: Path) -> dict[str, bytes]:
    """What a study measured: its tables, and those of its runs. Times are not among them."""
    names = ("study.csv", "seeds.csv", "report.csv", "predictions.csv", "metrics.csv", "training.csv")
    return {str(path.relative_to(folder)): path.read_bytes() for name in names for path in folder.rglob(name)}


def assert_same(one: Path, other: Path) -> None:
    expected, found = files_of(one), files_of(other)
    assert expected.keys() == found.keys()
    assert [name for name in expected if expected[name] != found[name]] == []
    assert not list(other.rglob("*agecli-lock"))


@pytest.mark.slow
def test_seeds_and_cells_on_workers_elsewhere_give_the_bytes_of_one_process(place: Path) -> None:
    command = ("benchmark", "--data", "toy", *SMALL, "--seed", "0,1")
    finish(place, *command, "--out", "one")
    with cluster(place) as dask:
        finish(place, *command, "--out", "dask", "--cluster", str(dask.file))
    assert_same(place / "one", place / "dask")
    assert len(read_csv(place / "dask/seeds.csv")) == 2
    pictures = sorted(path.relative_to(place / "one") for path in (place / "one").rglob("*.svg"))
    assert sorted(path.relative_to(place / "dask") for path in (place / "dask").rglob("*.svg")) == pictures


@pytest.mark.slow
def test_a_killed_array_task_is_taken_over_by_the_next_one(place: Path) -> None:
    command = ("entropy", "--data", "toy", *SMALL, "--set", "training.save_every=0")
    finish(place, *command, "--out", "whole")
    killed = start(place, *command, "--out", "array", "--shard", "env", SLURM_ARRAY_TASK_ID="0")
    end = time.monotonic() + DEADLINE
    while not list((place / "array").glob("runs/*/fold-*/state.safetensors")) and killed.poll() is None:
        assert time.monotonic() < end
        time.sleep(0.02)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    tasks = [start(place, *command, "--out", "array", "--shard", f"{task}/2") for task in range(2)]
    tasks.append(start(place, *command, "--out", "array", "--shard", "0/2"))  # the same cells as another one
    assert [task.wait(DEADLINE) for task in tasks] == [0, 0, 0], (place / "log.txt").read_text()
    assert_same(place / "whole", place / "array")


def test_a_cell_that_fails_is_known_to_all_processes(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def diverge(*_: object, **__: object) -> None:
        raise TrainingError("the loss is not finite", "")

    monkeypatch.setattr(cell_runs, "train", diverge)
    failed = study("benchmark", place / "toy", out=tmp_path / "study", shard="1/2").failed
    assert failed == {"drf": "the loss is not finite"}
    seen = study("benchmark", place / "toy", out=tmp_path / "study", shard=PREPARE)
    assert (seen.failed, [row for row in seen.rows if row["cell"]]) == (failed, [])
    assert json.loads((tmp_path / "study/study.json").read_text())["failed"] == failed


def test_a_process_that_is_not_the_last_prints_what_there_is(place: Path, tmp_path: Path) -> None:
    """The reference cell, to which others are compared, is not there yet."""
    more = ("--iterations", "5", "--set", "training.eval_every=5")
    done = invoke("study", "alpha", "--data", place / "toy", *SMALL, *more, "--out", tmp_path / "s", "--shard", "0/9")
    assert done.exit_code == 0, done.stderr
    assert [row["cell"] for row in read_csv(tmp_path / "s/study.csv")] == ["dldlf-0"]
    assert not list((tmp_path / "s").glob("*.svg"))


def test_other_options_in_a_shared_folder_are_refused(place: Path, tmp_path: Path) -> None:
    study("alpha", place / "toy", out=tmp_path / "study", shard=PREPARE)
    command = ("study", "alpha", "--data", place / "toy", "--out", tmp_path / "study")
    for more, message in (
        (("--shard", "0/2", "--iterations", "7"), "was started with other options"),
        (("--shard", "0/2", "--cluster", "local:2"), "exclude each other"),
        (("--shard", "9/9"), "there is no shard 9"),
    ):
        done = invoke(*command, *more)
        assert done.exit_code == 2
        assert message in done.stderr


def test_a_cell_killed_before_its_training_part_is_measured_is_not_finished(tmp_path: Path, place: Path) -> None:
    """`initialisation` has one more file for each fold, written after the report."""
    what = find_study("initialisation", "random")
    run = tmp_path / "run"
    small = {"data.size": 32, "training.eval_every": 5}
    agecli.train(
        place / "toy", out=run, setup="random", weights="none", freeze=True, iterations=5, batch_size=8, settings=small
    )
    assert not cell_runs.is_finished(what, run)
    write_training_errors(run, "cpu", None)
    assert cell_runs.is_finished(what, run)
