"""Folds as shards: real processes in one run folder, and the same files as one process writes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agecli.cli.arguments import without_options
from agecli.datasets.toy import draw_faces
from tests.conftest import invoke

ROOT = Path(__file__).parents[2]
SMALL = ["--backbone", "timm:test_efficientnet", "--weights", "none", "--set", "data.size=64", "--device", "cpu"]
DEADLINE = 400  # seconds
FILES = ("report.csv", "predictions.csv", "metrics.csv")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `toy`, and a run of all of its folds in one process."""
    folder = tmp_path_factory.mktemp("folds")
    draw_faces(folder / "toy", 30)
    assert start(folder, *lopo("whole")).wait(DEADLINE) == 0
    return folder


def lopo(out: str) -> list[str]:
    more = ["--setup", "lopo", "--freeze", "--batch-size", "8", "--iterations", "30", "--out", out]
    return ["train", "--data", "toy", *SMALL, *more]


def start(folder: Path, *arguments: str, **environment: str) -> subprocess.Popen[bytes]:
    """`agecli ARGUMENTS` in a folder, in the background."""
    with (folder / "log.txt").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "agecli", *arguments],
            cwd=folder,
            stdout=log,
            stderr=log,
            env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        )


def assert_same(folder: Path, out: str) -> None:
    for name in FILES:
        assert (folder / out / name).read_bytes() == (folder / "whole" / name).read_bytes(), name
    assert not list((folder / out).glob(".*"))  # no lock is left


@pytest.mark.slow
def test_folds_of_an_array_give_the_same_report_in_one_folder(whole: Path) -> None:
    tasks = [start(whole, *lopo("array"), "--shard", "env", PBS_ARRAY_INDEX="0")]
    tasks += [start(whole, *lopo("array"), "--shard", f"{share}/2") for share in range(2)]  # both do fold 1, too
    assert [task.wait(DEADLINE) for task in tasks] == [0, 0, 0], (whole / "log.txt").read_text()
    assert_same(whole, "array")


@pytest.mark.slow
def test_folds_on_a_cluster_give_the_same_report(whole: Path) -> None:
    assert start(whole, *lopo("dask"), "--cluster", "local:2").wait(DEADLINE) == 0, (whole / "log.txt").read_text()
    assert_same(whole, "dask")


def test_what_does_not_go_together_is_an_error(whole: Path) -> None:
    for more in (["--shard", "0/2", "--folds", "1"], ["--shard", "0/2", "--seed", "0,1"]):
        done = invoke("train", "--data", whole / "toy", *more)
        assert done.exit_code == 2
        assert "exclude each other" in done.stderr


def test_options_are_left_out_of_a_command_with_their_values() -> None:
    command = ["train", "--cluster", "local:2", "--out", "x", "-o", "y", "--cluster=z", "--clustered"]
    assert without_options(command, "--cluster", "-o") == ["train", "--out", "x", "--clustered"]
