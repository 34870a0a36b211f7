"""Studies: the paper's experiments, small, through the real command; a kill in the middle changes nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agecli.config import Config, check, implied, replace
from agecli.errors import InputError
from agecli.files import read_csv
from agecli.studies.cells import STUDIES, find_study
from agecli.studies.paper import ABLATION, BENCHMARKS
from agecli.studies.pictures import draw
from tests.conftest import Cli

SMALL = (
    *("--setup", "subject", "--weights", "none", "--freeze", "--iterations", "60", "--batch-size", "16"),
    *("--set", "data.folds=2", "--set", "data.size=32", "--set", "training.eval_every=60"),
    *("--set", "forest.update_every=20"),
)


def said(cli: Cli, *arguments: object, code: int = 0) -> str:
    """What the command prints: the result, or what it says when it fails."""
    done = cli("study", *arguments)
    assert done.returncode == code, done.stderr
    return done.stderr if code else done.stdout


@pytest.mark.parametrize("name", STUDIES)
def test_every_cell_is_a_run_that_can_be_asked_for(name: str) -> None:
    study = find_study(name, "lopo")
    names = [cell.name for cell in study.cells]
    assert len(set(names)) == len(names) > 1
    assert study.reference in names
    for cell in study.cells:
        check(replace(Config(), {**implied(cell.settings), **cell.settings}))
    assert len({json.dumps(dict(cell.settings), sort_keys=True) for cell in study.cells}) == len(names)


def test_the_rows_of_the_ablation_are_those_of_the_paper() -> None:
    study = find_study("ablation", "I")
    assert [cell.label for cell in study.cells] == [row.method for row in ABLATION.values()]
    full = {cell.name: cell.settings for cell in study.cells}["drf"]
    assert (full["forest.split_temperature"], full["forest.leaf_temperature"], full["forest.leaf_init"]) == (
        1,
        0.5,
        "random",
    )
    for _, rows in BENCHMARKS.values():  # the paper's own two are the best of each of its tables
        assert [row.method for row in sorted(rows, key=lambda row: row.mae)][:2] == ["DRF", "DLDLF"]


def test_ablation_killed_in_the_middle_and_resumed_is_the_same_table(cli: Cli, toy: Path, tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    said(cli, "ablation", "--data", toy, *SMALL, "--out", whole)
    command = [sys.executable, "-m", "agecli", "study", "ablation", "--data", str(toy), *SMALL, "--out", str(cut)]
    killed = subprocess.Popen([*command, "--jobs", "2"], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    finished: list[Path] = []
    while len(finished) < 3 and killed.poll() is None:
        time.sleep(0.05)
        finished = list(cut.glob("runs/*/report.csv"))
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    assert 3 <= len(finished) < 10
    before = {file: file.stat().st_mtime_ns for file in finished}
    printed = said(cli, "ablation", "--resume", "--out", cut)
    assert (cut / "study.csv").read_bytes() == (whole / "study.csv").read_bytes()
    assert {file: file.stat().st_mtime_ns for file in finished} == before  # no finished cell was run again
    rows = [json.loads(line) for line in printed.splitlines()]
    assert [row["cell"] for row in rows] == list(ABLATION)
    assert rows[-1]["difference"] is None  # the reference itself
    assert all(row["mae_low"] <= row["mae"] <= row["mae_high"] for row in rows)
    assert (cut / "ablation.png").read_bytes()[:4] == b"\x89PNG"
    assert (cut / "ablation.svg").read_bytes() == (whole / "ablation.svg").read_bytes()
    assert not list(cut.glob("runs/*/fold-2/*.safetensors"))
    assert list(cut.glob("runs/*/fold-1/best.safetensors"))


def test_other_words_for_a_study_that_is_there_are_refused(cli: Cli, toy: Path, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "study")
    words = ("--data", toy, *SMALL, "--folds", "1")
    said(cli, "alpha", *words, *out)
    rows = read_csv(tmp_path / "study/study.csv")
    assert [float(row["x"]) for row in rows] == [0, 0.5, 1, 2, 3, 4, 6, 8, 10]
    assert "holds a study already" in said(cli, "alpha", *out, code=2)
    assert "another --set training.lr" in said(cli, "alpha", *out, "--resume", "--lr", "0.5", code=2)
    assert "another study" in said(cli, "depth", *out, "--resume", code=2)
    said(cli, "alpha", *words, *out, "--resume")  # the same words go on with it


def test_what_a_study_varies_can_not_be_asked_for(cli: Cli, toy: Path, tmp_path: Path) -> None:
    words = ("--data", toy, "--out", tmp_path / "study")
    assert "varies forest.depth itself" in said(cli, "depth", *words, "--set", "forest.depth=3", code=2)
    assert "there is no study `breadth`" in said(cli, "breadth", *words, code=2)
    assert not (tmp_path / "study").exists()


def test_a_cell_that_fails_does_not_stop_the_others(cli: Cli, toy: Path, tmp_path: Path) -> None:
    """Steps far too large."""
    wild = ("--set", "training.optimiser=sgd", "--lr", "1e30", "--set", "training.clip_norm=0", "--folds", "1")
    words = said(cli, "benchmark", "--data", toy, *SMALL, *wild, "--out", tmp_path / "study", code=1)
    assert "is not a number" in words
    assert "2 cell(s) failed: dldlf, drf" in words


def _row(cell: str, **more: object) -> dict[str, object]:
    return {"cell": cell, "label": cell, "mae": 3.0, "mae_low": 2.8, "mae_high": 3.3, "paper_mae": None, **more}


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_has_a_figure_and_the_same_rows_give_the_same_bytes(name: str) -> None:
    study = find_study(name, "lopo")
    rows = [_row(cell.name, group=cell.group, x=cell.x) for cell in study.cells]
    if name == "entropy":
        rows = [
            {"cell": cell.name, "label": cell.label, "group": cell.group, "iteration": i, "entropy": 3.0 - i / 100}
            for cell in study.cells
            for i in (50, 100)
        ]
    if name == "phi":
        rows += [_row("mean"), _row("std", mae=0.02)]
    one, two = (draw(study, rows, "lopo", "svg") for _ in range(2))
    assert one == two
    assert b"<svg" in one


def test_a_study_that_is_not_there() -> None:
    with pytest.raises(InputError, match="there is no study `x`"):
        find_study("x", "I")
