"""Nothing stops a run: photos that kill, hang or fill the memory of their reader, pipes, devices and odd names."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from agecli.core.files import read_csv
from agecli.images.video import VideoFile
from benchmarks.attack.odd_inputs import POISONS, long_name, odd_inputs, poisoned_environment
from tests.conftest import Cli, two_seconds

EXAMPLE = Path(__file__).parent.parent.parent / "docs/example.jpg"
REASONS = {
    "segfault": "SIGSEGV",
    "abort": "SIGABRT",
    "kill": "SIGKILL",
    "exit": "code 7",
    "memory": "more memory than --max-memory 0.9 GB",
    "hang": "longer than --timeout 1.5 s",
}
LIMITS = ("--timeout", 1.5, "--max-memory", 0.9)
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="poisons, limits and odd files are those of Linux")


@pytest.fixture
def poisoned(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "site").mkdir()
    return poisoned_environment(tmp_path / "site")


def faces(folder: Path, names: list[str]) -> None:
    """The same face under each of these names, a pixel apart."""
    folder.mkdir(parents=True, exist_ok=True)
    with Image.open(EXAMPLE) as image:
        for number, name in enumerate(names):
            image.crop((150 + number, 40, 300, 190)).save(folder / name)


def records(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_photos_that_kill_their_reader_are_records_and_the_others_are_as_without_them(
    cli: Cli, tmp_path: Path, poisoned: dict[str, str]
) -> None:
    good = [f"{letter}.jpg" for letter in "abcdefghijklmnopqrstuvwxyz"]
    bad = [f"{poison}.jpg" for poison in POISONS]
    faces(tmp_path / "photos", good + bad)
    done = cli("predict", "photos", "--no-detect", "--workers", 2, *LIMITS, **poisoned)
    expected = cli("predict", *[f"photos/{name}" for name in good], "--no-detect")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    found = {Path(record["source"]).stem: record for record in records(done.stdout)}
    assert list(found) == sorted(Path(name).stem for name in good + bad)
    for poison, reason in REASONS.items():
        assert found[poison]["status"] == "crashed"
        assert reason in found[poison]["error"]
    assert [found[Path(name).stem] for name in good] == records(expected.stdout)


def test_a_single_photo_that_kills_its_reader_is_a_record(cli: Cli, tmp_path: Path, poisoned: dict[str, str]) -> None:
    faces(tmp_path, ["segfault.jpg"])
    done = cli("predict", "segfault.jpg", **poisoned)
    assert done.returncode == 1
    assert records(done.stdout)[0]["status"] == "crashed"


def test_preprocess_and_audit_go_on_after_a_crash(cli: Cli, tmp_path: Path, poisoned: dict[str, str]) -> None:
    faces(tmp_path / "photos", ["a.jpg", "abort.jpg", "b.jpg"])
    (tmp_path / "photos/labels.csv").write_text("path,age\na.jpg,30\nabort.jpg,30\nb.jpg,30\n")
    assert cli("preprocess", "photos", "--out", "out", "--no-detect", **poisoned).returncode == 1
    (failure,) = read_csv(tmp_path / "out/failures.csv")
    assert (failure["source"], failure["status"]) == ("abort.jpg", "crashed")
    assert "SIGABRT" in failure["reason"]
    assert [row["source"] for row in read_csv(tmp_path / "out/manifest.csv")] == ["a.jpg", "b.jpg"]
    assert cli("audit", "photos", **poisoned).returncode == 1
    assert ("abort.jpg", "unreadable") in {
        (row["path"], row["problem"]) for row in read_csv(tmp_path / "suspicious.csv")
    }


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_are_obeyed_while_workers_are_stuck_and_what_is_done_is_kept(
    cli: Cli, tmp_path: Path, poisoned: dict[str, str], number: signal.Signals
) -> None:
    faces(tmp_path / "photos", ["a.jpg", "b.jpg", "hang.jpg", "hang2.jpg", "z.jpg"])
    command = ["predict", "photos", "--no-detect", "--batch-size", "1", "-o", "ages.jsonl"]
    process = subprocess.Popen(
        [sys.executable, "-m", "agecli", *command, "--timeout", "600"],
        cwd=tmp_path,
        env={**os.environ, **poisoned},
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    journal = tmp_path / "ages.jsonl.unfinished"
    end = time.monotonic() + 60
    while not journal.exists() or journal.read_bytes().count(b"\n") < 3:  # a header, and two photos
        assert time.monotonic() < end
        time.sleep(0.02)
    began = time.monotonic()
    os.killpg(process.pid, number) if number == signal.SIGINT else process.send_signal(number)
    errors = process.communicate(timeout=30)[1].decode()  # until its workers have ended, too: they share stderr
    elapsed = time.monotonic() - began
    assert elapsed < two_seconds()
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert cli(*command, "--resume", "--timeout", 1, **poisoned).returncode == 1
    found = records((tmp_path / "ages.jsonl").read_text())
    assert [record["status"] for record in found] == ["ok", "ok", "crashed", "crashed", "ok"]


def test_pipes_devices_links_and_disguised_formats_are_records(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    odd = odd_inputs(tmp_path / "photos")
    faces(tmp_path / "photos", ["a.jpg", long_name()])
    video = next(path for path in odd if path.suffix == ".mp4")
    done = cli("predict", "photos", video, "--no-detect")
    statuses = {Path(record["source"]).name: record["status"] for record in records(done.stdout)}
    assert statuses == {path.name: "unreadable" for path in odd} | {"a.jpg": "ok", long_name(): "ok"}
    assert done.stderr.count("\n") == 2  # the video that was skipped, and how many inputs gave no age


def test_preprocess_takes_odd_names_and_pipes(cli: Cli, tmp_path: Path) -> None:
    odd = odd_inputs(tmp_path)
    names = ["x.png", long_name(".png")]
    faces(tmp_path, names)
    faces(tmp_path / "x.png.jpg", ["y.png"])
    os.mkfifo(tmp_path / "labels.csv")
    done = cli("preprocess", ".", "--out", "out", "--no-detect")
    assert done.returncode == 1
    assert "labels.csv is not read" in done.stderr
    assert {row["source"] for row in read_csv(tmp_path / "out/manifest.csv")} == {*names, "x.png.jpg/y.png"}
    failures = {row["source"] for row in read_csv(tmp_path / "out/failures.csv")}
    assert failures == {path.name for path in odd if path.suffix == ".jpg"}


def film(path: Path) -> None:
    """Six frames in three seconds, with a face."""
    with Image.open(EXAMPLE) as image, VideoFile(path, 2.0) as video:
        for shift in range(6):
            video.write(np.asarray(image.convert("RGB").crop((100 + shift, 0, 350 + shift, 250))))


def test_a_video_that_kills_its_reader_is_a_record_after_the_frames_it_had(
    cli: Cli, tmp_path: Path, poisoned: dict[str, str]
) -> None:
    for name in ("hang.mp4", "later-segfault.mp4", "z.mp4"):
        film(tmp_path / name)
    command = ("predict", "hang.mp4", "later-segfault.mp4", "z.mp4", "--every", "500ms", *LIMITS)
    done = cli(*command, "-o", "ages.jsonl", **poisoned)
    assert (done.returncode, "Traceback" in done.stderr) == (1, False), done.stderr
    found = [
        (record["source"][:5], record["status"], record["time"])
        for record in records((tmp_path / "ages.jsonl").read_text())
    ]
    later = [("later", "ok", 0.0), ("later", "ok", 0.5), ("later", "ok", 1.0), ("later", "crashed", 1.5)]
    assert found == [("hang.", "crashed", None), *later, *(("z.mp4", "ok", number / 2) for number in range(6))]
    done = cli(*command, "--per-person", **poisoned)
    assert [record["status"] for record in records(done.stdout)] == ["crashed", "ok", "ok"]


def test_photos_and_videos_that_kill_their_reader_while_they_are_drawn_are_counted(
    cli: Cli, tmp_path: Path, poisoned: dict[str, str]
) -> None:
    faces(tmp_path, ["a.jpg", "drawn-segfault.jpg", "drawn-memory.jpg", "z.jpg"])
    film(tmp_path / "drawn-hang.mp4")
    done = cli("predict", ".", "drawn-hang.mp4", "--draw", "out", *LIMITS, **poisoned)
    assert (done.returncode, "Traceback" in done.stderr) == (1, False), done.stderr
    assert {record["status"] for record in records(done.stdout)} == {"ok"}
    assert [path.name for path in sorted((tmp_path / "out").iterdir())] == ["a.jpg", "z.jpg"]
    assert "3 photo(s) could not be drawn" in done.stderr
    for reason in ("SIGSEGV", "more memory than --max-memory 0.9 GB", "longer than --timeout 1.5 s"):
        assert reason in done.stderr
