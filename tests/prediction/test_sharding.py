"""Predictions in shards: the same bytes however they are divided, whoever does them, and whatever is killed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

import agecli
from agecli.core.errors import InputError
from benchmarks.attack.odd_inputs import poisoned_environment
from tests.conftest import Cli, invoke

EXAMPLE = Path(__file__).parent.parent.parent / "docs/example.jpg"
COUNT = 11


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `photos`, of which one is no picture, and what `predict -o` writes of them."""
    folder = tmp_path_factory.mktemp("sharding")
    (folder / "photos/inner").mkdir(parents=True)
    with Image.open(EXAMPLE) as image:
        for number in range(COUNT):
            image.crop((150 + number, 40, 300, 190)).save(folder / f"photos/{'inner/' * (number % 2)}{number}.jpg")
    (folder / "photos/no.jpg").write_text("no picture")
    for ending in ("jsonl", "csv", "parquet"):
        done = run(folder, "-o", f"one.{ending}")
        assert done.returncode == 1, done.stderr
    return folder


def run(folder: Path, *more: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`agecli predict photos --no-detect …` in a folder."""
    command = [sys.executable, "-m", "agecli", "predict", "photos", "--no-detect", "--workers", "2", *more]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, env={**os.environ, **environment}, timeout=300
    )


def merged(folder: Path, out: str, ending: str = "jsonl") -> bytes:
    agecli.merge(folder / out, folder / f"{out}.{ending}")
    return (folder / f"{out}.{ending}").read_bytes()


def test_the_merged_file_is_what_predict_writes_in_every_format(photos: Path) -> None:
    done = run(photos, "--out", "five", "--shards", "5")
    assert done.returncode == 1
    assert f"1 of {COUNT + 1} inputs gave no age" in done.stderr
    assert "all 5 shards are done: agecli merge five" in done.stderr
    for ending in ("jsonl", "csv", "parquet"):
        merged = invoke("merge", photos / "five", "-o", photos / f"five.{ending}")
        assert merged.exit_code == 0
        assert f"five.{ending}: " in merged.stderr  # how many inputs, and how many without an age
        assert (photos / f"five.{ending}").read_bytes() == (photos / f"one.{ending}").read_bytes()
    printed = subprocess.run([sys.executable, "-m", "agecli", "merge", "five"], cwd=photos, capture_output=True)
    assert printed.stdout == (photos / "one.jsonl").read_bytes()


def test_the_tasks_of_an_array_give_the_same_file_and_missing_ones_are_named(photos: Path) -> None:
    for task in range(2):
        slurm = {"SLURM_ARRAY_TASK_MIN": "0", "SLURM_ARRAY_TASK_MAX": "2", "SLURM_ARRAY_TASK_COUNT": "3"}
        run(photos, "--out", "array", "--shards", "7", "--shard", "env", SLURM_ARRAY_TASK_ID=str(task), **slurm)
    with pytest.raises(InputError, match="2 of 7 shards are missing") as error:
        merged(photos, "array")
    assert "--array=2,5" in error.value.hint
    assert not (photos / "array.jsonl").exists()
    state = invoke("status", photos / "array", "-f", "csv")
    assert state.exit_code == 0
    assert {"done,5", "running,0", "missing,2", "inputs,12"} <= set(state.stdout.splitlines())
    assert "missing: --array=2,5" in state.stderr
    run(photos, "--out", "array", "--shard", "2/3")
    assert merged(photos, "array") == (photos / "one.jsonl").read_bytes()


FAKE_SBATCH = """#!/bin/bash
# runs each task of the array on stdin, as SLURM does
cat > job.sh
last=$(sed -n 's/^#SBATCH --array=0-//p' job.sh)
export SLURM_ARRAY_TASK_MIN=0 SLURM_ARRAY_TASK_MAX=$last SLURM_ARRAY_TASK_COUNT=$((last + 1))
for task in $(seq 0 $last); do
    (cd / && SLURM_ARRAY_TASK_ID=$task bash "$OLDPWD/job.sh") || exit
done
"""


def test_the_printed_script_runs_under_sbatch(photos: Path) -> None:
    (photos / "bin").mkdir()
    (photos / "bin/sbatch").write_text(FAKE_SBATCH)
    (photos / "bin/sbatch").chmod(0o755)
    printed = run(photos, "--out", "slurm", "--shards", "2", "--script", "slurm")
    assert printed.returncode == 0
    assert sorted(path.name for path in (photos / "slurm").iterdir()) == ["plan.inputs.jsonl", "plan.json"]
    path = f"{photos / 'bin'}:{os.environ['PATH']}"
    done = subprocess.run(
        ["sbatch"], input=printed.stdout, cwd=photos, capture_output=True, text=True, env={**os.environ, "PATH": path}
    )
    assert done.returncode == 0, done.stderr
    assert merged(photos, "slurm") == (photos / "one.jsonl").read_bytes()


@pytest.mark.parametrize("system", ["pbs", "sge", "kubernetes"])
def test_scripts_of_other_systems_name_the_command_and_the_tasks(photos: Path, system: str) -> None:
    script = run(photos, "--out", "script", "--shards", "2", f"--script={system}").stdout
    assert "predict photos --no-detect --workers 2 --out script --shards 2 --shard env" in script
    assert re.search({"pbs": "-J 0-1", "sge": "-t 1-2", "kubernetes": "completions: 2"}[system], script)
    assert "--script" not in script


def test_a_photo_that_kills_its_reader_is_one_record_of_its_shard(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "photos").mkdir()
    with Image.open(EXAMPLE) as image:
        for name in ("a", "abort", "b", "c"):
            image.crop((150, 40, 300, 190)).save(tmp_path / f"photos/{name}.jpg")
    poison = poisoned_environment(tmp_path / "site")
    cli("predict", "photos", "--no-detect", "-o", "one.jsonl", **poison)
    done = cli("predict", "photos", "--no-detect", "--out", "out", "--shards", 2, **poison)
    assert done.returncode == 1
    assert merged(tmp_path, "out") == (tmp_path / "one.jsonl").read_bytes()
    statuses = [json.loads(line)["status"] for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert statuses == ["ok", "crashed", "ok", "ok"]


def test_options_that_do_not_go_together_are_errors(photos: Path, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "out")
    for arguments, says in (
        (("--shards", 3), "shards need a folder"),
        ((*out, "-o", tmp_path / "y.csv"), "--output has no effect on shards"),
        ((*out, "--shards", 3, "--shard-size", 4), "exclude each other"),
        ((*out, "--shard", "3/3"), "no shard 3"),
    ):
        done = invoke("predict", photos / "photos", *arguments)
        assert done.exit_code == 2
        assert says in done.stderr


@pytest.mark.parametrize("command", ["predict", "preprocess"])
def test_a_command_that_fails_at_once_leaves_no_plan(photos: Path, tmp_path: Path, command: str) -> None:
    out = tmp_path / "out"
    for wrong, code in (
        (("--cluster", tmp_path / "none.json"), 3),
        (("--shard", "env"), 2),
        (("--shards", 2, "--shard", "1/3"), 2),
        (("--max-memory", 0), 2),
    ):
        done = invoke(command, photos / "photos", "--no-detect", "--out", out, "--shard-size", 4, *wrong)
        done = done if "--shards" not in wrong else invoke(command, photos / "photos", "--out", out, *wrong)
        assert done.exit_code == code, done.output
        assert not out.exists() or not any(out.iterdir())


def test_another_run_in_the_folder_is_refused(photos: Path) -> None:
    run(photos, "--out", "mine", "--shards", "2", "--script", "slurm")
    done = run(photos, "--out", "mine", "--shards", "2", "--largest")
    assert done.returncode == 2
    assert "--largest was False and is True" in done.stderr


def test_an_empty_run_merges_to_an_empty_file(photos: Path, cli: Cli) -> None:
    (photos / "none.txt").touch()
    assert cli("predict", f"@{photos / 'none.txt'}", "--out", photos / "none").returncode == 0
    assert merged(photos, "none") == b""
    assert merged(photos, "none", "csv").startswith(b"schema,source,status")
