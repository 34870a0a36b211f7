"""Hostile models, run folders and tables: an error in one line, exit code 1 or 2, quickly, and without much memory."""

from __future__ import annotations

import os
import re
import sqlite3
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest

from agecli.core.errors import InputError
from agecli.core.files import write_csv
from agecli.training.features import FeatureStore
from agecli.training.results import read_predictions
from benchmarks.attack.hostile_folders import FOLDERS
from benchmarks.attack.hostile_models import MODELS, graph, write_onnx
from tests.conftest import invoke

SECONDS = 5  # of computing, whatever else the machine does
MEMORY = 1e9  # bytes


@pytest.mark.parametrize("name", [*MODELS, *FOLDERS])
def test_a_hostile_file_is_one_line(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = {**MODELS, **FOLDERS}[name](tmp_path)
    before = time.process_time()
    done = invoke(*arguments)
    assert time.process_time() - before < SECONDS
    assert done.exit_code in (1, 2), done.output[-2000:]
    assert isinstance(done.exception, SystemExit), done.exception
    lines = done.output.splitlines()
    assert sum(line.startswith("error:") for line in lines) == 1, done.output[-2000:]
    assert all(len(line) < 600 for line in lines)
    assert "NaN" not in done.stdout.replace("error: ", "") or "error" in done.output
    assert '"status": "ok"' not in done.output
    assert not (tmp_path / "hacked").exists()


def test_the_model_that_they_are_made_of_is_a_good_one(tmp_path: Path) -> None:
    done = invoke(*write_onnx(tmp_path, graph()))
    assert done.exit_code == 0, done.output
    assert '"age": 60.0' in done.output


PEAK = """
import atexit, runpy, sys
def peak():  # of this program alone: ru_maxrss counts what the test's process had, too
    sys.stderr.write(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")))
atexit.register(peak)
sys.argv[0] = "agecli"
runpy.run_module("agecli", run_name="__main__")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    "name", ["onnx: 20 GB", "onnx: picture of 10^6 pixels", "checkpoint: many deep trees", "mat: unpacks to 1 GB"]
)
def test_a_hostile_file_takes_little_memory(name: str, tmp_path: Path) -> None:
    arguments = {**MODELS, **FOLDERS}[name](tmp_path)
    command = [sys.executable, "-c", PEAK, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert done.returncode in (1, 2)
    assert "Traceback" not in done.stderr
    (kilobytes,) = re.findall(r"VmHWM:\s+(\d+) kB", done.stderr)
    assert int(kilobytes) * 1024 < MEMORY


@pytest.mark.parametrize("kind", ["bomb", "pickle", "claim", "no numbers", "cut"])
def test_a_hostile_cache_of_predictions_is_not_used(tmp_path: Path, kind: str) -> None:
    write_csv(tmp_path / "predictions.csv", [{"path": "a", "subject": "", "age": 3}], ("path", "subject", "age"))
    path = tmp_path / "distributions.npz"
    if kind == "bomb":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("pmf.npy", "w") as entry:
            for _ in range(1024):
                entry.write(bytes(1 << 20))
    elif kind == "pickle":
        np.savez(path, pmf=np.array([print], dtype=object), allow_pickle=True)
    elif kind == "claim":
        with zipfile.ZipFile(path, "w") as archive:
            head = b"{'descr': '<f8', 'fortran_order': False, 'shape': (100000, 10000000), }"
            archive.writestr("pmf.npy", b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head)
    else:
        np.savez(path, pmf=np.full((1, 3), np.nan), grid=np.array([0, 10**9]))
        path.write_bytes(path.read_bytes()[: 100 if kind == "cut" else None])
    before = time.process_time()
    assert read_predictions(tmp_path) is None
    assert time.process_time() - before < SECONDS


def test_a_hostile_cache_of_features_is_refused_or_computed_again(tmp_path: Path) -> None:
    path = tmp_path / "features.sqlite"
    store = FeatureStore(path)
    with sqlite3.connect(path) as base:
        values = {b"a": b"123", b"b": "text", b"c": np.full(3, np.nan, np.float32).tobytes(), b"d": bytes(12)}
        base.executemany("INSERT INTO features VALUES (?, ?)", values.items())
    base.close()
    assert list(store.get([b"a", b"b", b"c", b"d"], 3)) == [b"d"]
    endless = "WITH RECURSIVE n(key) AS (SELECT 1 UNION ALL SELECT key + 1 FROM n) SELECT key, key AS value FROM n"
    with sqlite3.connect(tmp_path / "view.sqlite") as base:
        base.execute(f"CREATE VIEW features AS {endless}")
    base.close()
    with pytest.raises(InputError, match="views or triggers"):
        FeatureStore(tmp_path / "view.sqlite")
    (tmp_path / "noise.sqlite").write_bytes(os.urandom(5000))
    with pytest.raises(InputError, match="can't be used"):
        FeatureStore(tmp_path / "noise.sqlite")
