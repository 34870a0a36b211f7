"""Two real processes train one model: the same leaves on both, and the same ages as one process gives."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agecli.core.files import read_csv
from tests.conftest import Cli


@pytest.mark.slow
@pytest.mark.parametrize("model", ["drf", "dldlf"])
def test_two_processes_train_the_model_that_one_does(cli: Cli, toy: Path, tmp_path: Path, model: str) -> None:
    base = ["train", "--data", str(toy), "--model", model, "--backbone", "timm:test_efficientnet", "--weights", "none"]
    base += ["--freeze", "--set", "data.size=64", "--batch-size", "16", "--iterations", "150", "--device", "cpu"]
    assert cli(*base, "--out", "one").returncode == 0
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "agecli"]
    done = subprocess.run(
        [*launch, *base, "--out", "two", "--format", "csv"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("fold,images") == 1  # one of them talks
    one, two = (read_csv(tmp_path / run / "fold-1/predictions.csv") for run in ("one", "two"))
    assert [row["path"] for row in one] == [row["path"] for row in two]
    pairs = [(float(a["std"]), float(b["std"])) for a, b in zip(one, two, strict=True)]
    assert max(abs(a - b) for a, b in pairs) < 0.1  # the same but for rounding
