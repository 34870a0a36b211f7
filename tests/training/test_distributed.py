"""Two real processes train one model: the same weights and leaves on both, and the same ages as one process gives."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from agecli.core.files import read_csv
from tests.conftest import Cli

DEADLINE = 400  # seconds; two ranks that wait for each other would wait for hours
SMALL = ["--backbone", "timm:test_efficientnet", "--weights", "none", "--set", "data.size=64", "--device", "cpu"]


def train_on_two_ranks(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`agecli train` in two processes of torchrun; both are killed at the deadline."""
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    process = subprocess.Popen(
        [*launch, "-m", "tests.training.two_ranks", "train", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "RANK_FILES": str(folder), "PYTHONPATH": repository()},
    )
    try:
        stdout, stderr = process.communicate(timeout=DEADLINE)
    except subprocess.TimeoutExpired:
        process.terminate()  # torchrun ends its ranks, which are in sessions of their own
        process.communicate(timeout=60)
        pytest.fail(f"the two ranks did not finish within {DEADLINE} s")
    return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)


def repository() -> str:
    return str(Path(__file__).parents[2])


def assert_ranks_are_equal(folder: Path) -> None:
    """Weights, batch-norm statistics, EMA and leaves of both ranks, bit for bit."""
    one, two = (load_file(folder / f"rank-{rank}.safetensors") for rank in range(2))
    assert one.keys() == two.keys()
    assert {name.split(".")[0] for name in one} >= {"network", "forest", "final"}
    different = [name for name, value in one.items() if not torch.equal(value, two[name])]
    assert not different


@pytest.mark.slow
@pytest.mark.parametrize("model", ["drf", "dldlf"])
def test_two_processes_train_the_model_that_one_does(cli: Cli, toy: Path, tmp_path: Path, model: str) -> None:
    base = ["train", "--data", str(toy), "--model", model, *SMALL]
    base += ["--freeze", "--batch-size", "16", "--iterations", "150"]
    assert cli(*base, "--out", "one").returncode == 0
    done = train_on_two_ranks(tmp_path, *base[1:], "--out", "two", "--format", "csv")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("fold,images") == 1  # one of them prints
    assert_ranks_are_equal(tmp_path)
    one, two = (load_file(tmp_path / run / "fold-1/last.safetensors") for run in ("one", "two"))
    for name, value in one.items():  # the same but for rounding, which 150 iterations amplify
        assert torch.allclose(value.float(), two[name].float(), rtol=0.02, atol=0.02), name
    rows = [read_csv(tmp_path / run / "fold-1/predictions.csv") for run in ("one", "two")]
    assert [row["path"] for row in rows[0]] == [row["path"] for row in rows[1]]
    for column, tolerance in (("predicted", 0.1), ("std", 0.1), ("low", 1), ("high", 1)):
        gaps = [abs(float(a[column]) - float(b[column])) for a, b in zip(*rows, strict=True)]
        assert max(gaps) <= tolerance, column


@pytest.mark.slow
@pytest.mark.parametrize("every", [1, 20])
def test_a_rank_without_a_readable_picture_stays_equal_to_the_other(toy: Path, tmp_path: Path, every: int) -> None:
    """In a batch of two, each rank reads one picture. With a leaf update in each iteration, the rank that gets the
    unreadable one has nothing for the update either."""
    shutil.copytree(toy, tmp_path / "data")
    picture = train_picture(tmp_path)
    picture.write_text("no picture")
    done = train_on_two_ranks(
        tmp_path,
        *("--data", "data", "--out", "run", *SMALL, "--batch-size", "2", "--iterations", "60", "--lr", "0.01"),
        *("--set", f"forest.update_every={every}", "--set", "training.average=0.9"),
    )
    assert f"left out images/{picture.name}" in done.stderr
    assert done.stderr.count("1 picture(s) could not be read and were left out") == 1, done.stderr
    assert done.returncode == 1
    assert (tmp_path / "run/report.csv").is_file()
    assert_ranks_are_equal(tmp_path)


def train_picture(folder: Path) -> Path:
    """A picture that the run will train on, in its first pass over the faces."""
    import agecli

    agecli.split(folder / "data", out=folder / "splits.csv")
    train = [row["path"] for row in read_csv(folder / "splits.csv") if row["part"] == "train"]
    return folder / "data" / train[0]
