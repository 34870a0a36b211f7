"""Preprocessing in shards and in tars: the bytes of a run without shards, whoever does them and whatever is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest
from PIL import Image

import agecli
from agecli.core.errors import InputError
from agecli.core.files import read_csv
from agecli.core.locks import locked
from agecli.images.opening import read_content
from benchmarks.attack.odd_inputs import poisoned_environment
from tests.conftest import Cli, invoke

EXAMPLE = Path(__file__).parent.parent.parent / "docs/example.jpg"
COUNT = 10
TABLES = ("manifest.csv", "failures.csv", "alignment.toml")


def draw(folder: Path, count: int) -> None:
    """The same face, a pixel apart, under FG-NET's names."""
    folder.mkdir(parents=True)
    with Image.open(EXAMPLE) as image:
        for number in range(count):
            image.crop((130 + number % 40, 20, 320, 210)).save(folder / f"{number // 50:03d}A{number % 50:02d}.JPG")


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `fg`, in which a photo is no picture and one has no age, and `one`, made of it without shards."""
    folder = tmp_path_factory.mktemp("sharding")
    draw(folder / "fg", COUNT)
    (folder / "fg/005A05.JPG").write_text("no picture")
    with Image.open(EXAMPLE) as image:
        image.save(folder / "fg/unknown.jpg")
    done = run(folder, "--out", "one", "-f", "csv")
    assert done.returncode == 1, done.stderr
    return folder


def run(folder: Path, *more: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`agecli preprocess fg …` in a folder."""
    command = [sys.executable, "-m", "agecli", "preprocess", "fg", *more]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, env={**os.environ, **environment}, timeout=300
    )


def check(folder: Path, out: str, one: str = "one") -> None:
    """The tables and crops are those of the run without shards, and no temporary file or lock is left."""
    for name in TABLES:
        assert (folder / out / name).read_bytes() == (folder / one / name).read_bytes(), name
    for row in read_csv(folder / one / "manifest.csv"):
        crop = (folder / one / row["path"]).read_bytes()
        assert read_content(folder / out / row["path"], 1 << 20) == crop
    assert not [path for path in (folder / out).rglob(".*") if path.is_file()]


def test_shards_and_tars_give_the_tables_and_crops_of_a_run_without_them(photos: Path) -> None:
    for out, more in (("five", ["--shards", "5"]), ("pack", ["--pack", "--shard-size", "4", "--workers", "2"])):
        done = run(photos, "--out", out, *more, "-f", "csv")
        assert done.returncode == 1, done.stderr
        assert {"photos,12", "faces,10", "unreadable,1", "no age,1"} <= set(done.stdout.splitlines())
        check(photos, out)
    assert not (photos / "pack/faces").exists()
    with tarfile.open(photos / "pack/faces-00000.tar") as tar:
        stored = tar.extractfile("00000-0000001.json")
        assert stored is not None
        about = json.load(stored)
    assert (about["path"], about["age"], about["subject"]) == ("faces/000A01.JPG.jpg", 1.0, "000")


def test_the_tasks_of_an_array_are_merged_when_all_are_done(photos: Path) -> None:
    for task in ("0/3", "2/3"):
        assert run(photos, "--out", "array", "--pack", "--shard", task).returncode in (0, 1)
    state = invoke("status", photos / "array", "-f", "csv")
    assert {"shards,3", "done,2", "missing,1"} <= set(state.stdout.splitlines())
    refused = invoke("merge", photos / "array")
    assert refused.exit_code == 2
    assert "--array=1" in refused.output
    assert not (photos / "array/manifest.csv").exists()
    done = run(photos, "--out", "array", "--pack", "--shard", "env", SLURM_ARRAY_TASK_ID="1")
    assert "3 of 3 shards are done: agecli merge array" in done.stderr
    assert invoke("merge", photos / "array").exit_code == 0
    check(photos, "array")
    agecli.merge(photos / "array")  # which may be done again
    check(photos, "array")


def test_the_script_of_an_array_names_the_command(photos: Path) -> None:
    script = run(photos, "--out", "script", "--pack", "--shards", "3", "--script", "slurm").stdout
    assert "preprocess fg --out script --pack --shards 3 --shard env" in script
    assert "--array=0-2" in script


def test_other_options_and_folders_of_runs_without_shards_are_refused(
    photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(photos)
    run(photos, "--out", "options", "--shards", "2", "--shard", "0/2")
    for more, says in (
        (["--out", "options", "--shards", "2", "--size", "128"], "--size was 256 and is 128"),
        (["--out", "options", "--shards", "2", "--pack"], "--pack was False and is True"),
        (["--out", "options"], "options is the folder of a run in shards"),
        (["--out", "one", "--pack"], "is not of a run in shards"),
        (["--out", "new", "--pack", "--dry-run"], "--dry-run has no effect on shards"),
        (["--out", "new", "--pack", "--workers", "0"], "--workers"),
    ):
        done = invoke("preprocess", "fg", *more)
        assert done.exit_code == 2
        assert says in done.output
    assert not (photos / "new").exists()
    assert "leave out -o" in invoke("merge", photos / "options", "-o", photos / "x.csv").output


def test_an_edited_manifest_is_kept_and_a_lost_tar_is_named(photos: Path) -> None:
    run(photos, "--out", "edited", "--pack", "--shard-size", "6")
    (photos / "edited/manifest.csv").write_text("path,age\n")
    with pytest.raises(InputError, match=r"manifest\.csv was changed"):
        agecli.merge(photos / "edited")
    assert (photos / "edited/manifest.csv").read_text() == "path,age\n"
    agecli.merge(photos / "edited", force=True)
    check(photos, "edited")
    (photos / "edited/faces-00001.tar").unlink()
    with pytest.raises(InputError, match=r"faces-00001\.tar is missing or damaged") as error:
        agecli.merge(photos / "edited")
    assert "part-00001.jsonl" in error.value.hint
    (photos / "edited/part-00001.jsonl").unlink()
    run(photos, "--out", "edited", "--pack", "--shard-size", "6")
    check(photos, "edited")


def test_a_full_disk_leaves_neither_a_tar_nor_a_part(photos: Path) -> None:
    limit = f"ulimit -f 40; exec {sys.executable} -m agecli preprocess fg --out full --pack --shards 1"  # 40 KiB a file
    done = subprocess.run(["bash", "-c", limit], cwd=photos, capture_output=True, text=True, timeout=300)
    assert done.returncode == 2, done.stderr
    assert "can't be written" in done.stderr
    left = sorted(path.name for path in (photos / "full").iterdir())
    assert left == ["part-00000.error", "plan.inputs.jsonl", "plan.json"]
    assert run(photos, "--out", "full", "--pack", "--shards", "1").returncode == 1
    check(photos, "full")


def test_a_second_run_says_who_holds_the_folder_and_stops(photos: Path) -> None:
    with locked(photos / "held", folder=True):
        done = run(photos, "--out", "held")
    assert done.returncode == 2
    assert f"held is being written by another agecli: process {os.getpid()} on " in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("more", [("--shards", "20"), ("--pack", "--shards", "20")])
def test_kill_9_and_the_same_command_give_the_same_bytes(tmp_path: Path, more: tuple[str, ...]) -> None:
    draw(tmp_path / "fg", 120)
    assert run(tmp_path, "--out", "one").returncode == 0
    command = [sys.executable, "-m", "agecli", "preprocess", "fg", "--out", "killed", "--workers", "2", *more]
    for wanted in (2, 9, 15):
        process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while len(list((tmp_path / "killed").glob("part-*.jsonl"))) < wanted and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert not (tmp_path / "killed/manifest.csv").exists()
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "killed").glob("part-*.jsonl")}
    assert run(tmp_path, "--out", "killed", *more).returncode == 0
    check(tmp_path, "killed")
    assert all(path.stat().st_mtime_ns == changed for path, changed in before.items())  # finished shards are kept


def poison(folder: Path, count: int) -> dict[str, str]:
    """So many photos, of which the last but one aborts its reader; and the variables with which it does."""
    draw(folder / "fg", 40)
    for number in range(40, count - 1):
        os.link(folder / f"fg/000A{number % 40:02d}.JPG", folder / f"fg/{number // 50:03d}A{number % 50:02d}.JPG")
    os.link(folder / "fg/000A00.JPG", folder / "fg/abort.jpg")
    (folder / "fg/labels.csv").write_text(
        "path,age\n" + "".join(f"{path.name},30\n" for path in sorted((folder / "fg").glob("*.[jJ]*")))
    )
    (folder / "site").mkdir()
    return poisoned_environment(folder / "site")


@pytest.mark.parametrize("count", [60, pytest.param(2000, marks=pytest.mark.slow)])
def test_a_photo_that_kills_its_reader_is_one_failure(cli: Cli, tmp_path: Path, count: int) -> None:
    poisoned = poison(tmp_path, count)
    shard = str(count // 5)
    small = ("--no-detect", "--size", "32")
    expected = run(tmp_path, "--out", "clean", *small)  # without the poison
    assert expected.returncode == 0, expected.stderr
    rows = [row for row in read_csv(tmp_path / "clean/manifest.csv") if row["source"] != "abort.jpg"]
    assert len(rows) == count - 1
    for out, more in {
        "whole": ["--workers", "2"],
        "local": ["--shard-size", shard, "--workers", "2"],
        "dask": ["--shard-size", shard, "--cluster", "local:2", "--pack"],
    }.items():
        done = run(tmp_path, "--out", out, *small, *more, **poisoned)
        assert done.returncode == 1, done.stderr
        assert "Traceback" not in done.stderr
        (failure,) = read_csv(tmp_path / out / "failures.csv")
        assert (failure["source"], failure["status"]) == ("abort.jpg", "crashed")
        assert "SIGABRT" in failure["reason"]
        assert read_csv(tmp_path / out / "manifest.csv") == rows
        for row in rows[:: count // 20]:
            crop = read_content(tmp_path / out / row["path"], 1 << 20)
            assert crop == (tmp_path / "clean" / row["path"]).read_bytes()
