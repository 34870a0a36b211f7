"""One process at a time writes to an output, and a lock ends with its process."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agecli.core.errors import InputError
from agecli.core.locks import locked
from tests.conftest import invoke

HOLD = "import sys, time; from pathlib import Path; from agecli.core.locks import locked\nwith locked(Path(sys.argv[1]), folder=bool(sys.argv[2:])): print('held', flush=True); time.sleep(60)"


def hold(path: Path, *folder: str) -> subprocess.Popen[bytes]:
    """Another process that holds the lock of an output."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, path, *folder], stdout=subprocess.PIPE)
    assert process.stdout
    assert process.stdout.readline() == b"held\n"
    return process


def kill(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert process.stdout
    process.stdout.close()


def test_the_second_run_says_who_the_first_is_and_a_killed_one_blocks_nobody(tmp_path: Path) -> None:
    output = tmp_path / "ages.csv"
    process = hold(output)
    try:
        with pytest.raises(
            InputError, match=rf"ages\.csv is being written by another agecli: process {process.pid} on "
        ):
            locked(output).__enter__()
    finally:
        kill(process)
    assert [path.name for path in tmp_path.iterdir()] == [".ages.csv.agecli-lock"]
    with locked(output):
        pass
    assert list(tmp_path.iterdir()) == []


def test_commands_with_the_same_output_exit_with_2(tmp_path: Path, toy: Path) -> None:
    photo = next((toy / "images").iterdir())
    commands: dict[str, tuple[object, ...]] = {
        "ages.csv": ("predict", photo, "--no-detect", "-o", tmp_path / "ages.csv"),
        "aligned": ("preprocess", toy, "--no-detect", "--out", tmp_path / "aligned"),
        "run": ("train", "--data", toy, "--out", tmp_path / "run"),
        "study": ("study", "alpha", "--data", toy, "--out", tmp_path / "study"),
    }
    for name, command in commands.items():
        process = hold(tmp_path / name, *(["folder"] if "." not in name else []))
        try:
            done = invoke(*command)
        finally:
            kill(process)
        assert done.exit_code == 2
        assert f"{name} is being written by another agecli: process {process.pid}" in done.output


def test_a_folder_that_was_only_locked_is_removed(tmp_path: Path) -> None:
    with locked(tmp_path / "runs/new", folder=True):
        assert (tmp_path / "runs/new/.agecli-lock").is_file()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["file", "link", "pipe", "folder"])
def test_a_file_of_the_user_is_no_lock(tmp_path: Path, kind: str) -> None:
    path = tmp_path / ".a.csv.agecli-lock"
    (tmp_path / "notes").write_text("mine")
    if kind == "file":
        path.write_text("mine")
    elif kind == "link":
        path.symlink_to(tmp_path / "notes")
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    with pytest.raises(InputError, match="is no lock of agecli"):
        locked(tmp_path / "a.csv").__enter__()
    assert (tmp_path / "notes").read_text() == "mine"
    assert path.exists()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_worker_does_not_keep_the_lock_of_its_parent(tmp_path: Path) -> None:
    with locked(tmp_path / "a.csv"):
        worker = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
        worker.start()
    try:
        process = hold(tmp_path / "a.csv")
        kill(process)
    finally:
        worker.kill()
        worker.join()
