"""Preprocessing through the real command line, on a real face, with bad files, workers and kills."""

from __future__ import annotations

import filecmp
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from skimage import data

import agecli
from agecli.core.ages import AgeGrid
from agecli.core.errors import InputError
from agecli.core.files import read_csv
from agecli.datasets.manifest import read_manifest
from tests.conftest import Cli


@pytest.fixture(scope="module")
def portrait() -> Image.Image:
    """NASA's portrait of Eileen Collins."""
    return Image.fromarray(np.asarray(data.astronaut(), np.uint8))  # type: ignore[no-untyped-call]


def photos(folder: Path, portrait: Image.Image, count: int) -> None:
    """Variations on one photo under FG-NET's names: other sizes, turns and lights."""
    folder.mkdir(parents=True)
    for number in range(count):
        dice = np.random.default_rng(number)
        image = portrait.rotate(dice.uniform(-15, 15), Image.Resampling.BILINEAR).resize(
            (int(dice.integers(200, 500)),) * 2
        )
        image.point([round(v * dice.uniform(0.6, 1)) for v in range(256)] * 3).save(
            folder / f"{number:03d}A{20 + number % 50}.JPG"
        )


def same(one: Path, two: Path) -> bool:
    names = {str(path.relative_to(folder)) for folder in (one, two) for path in folder.rglob("*") if path.is_file()}
    return all(filecmp.cmp(one / name, two / name, shallow=False) for name in names)


def test_crops_tables_and_a_contact_sheet(cli: Cli, tmp_path: Path, portrait: Image.Image) -> None:
    photos(tmp_path / "fg", portrait, 6)
    Image.new("RGB", (200, 200), "grey").save(tmp_path / "fg/007A33.JPG")
    done = cli("preprocess", "fg", "--out", "aligned", "--contact-sheet", "sheet.png", "--format", "csv")
    assert done.returncode == 1, done.stderr
    assert "recognised as fgnet" in done.stderr
    assert done.stdout.splitlines() == [
        "what,count",
        "photos,7",
        "with a face,6",
        "faces,6",
        "no face,1",
        "by yunet-dlib,6",
    ]
    rows = read_csv(tmp_path / "aligned/manifest.csv")
    columns = "path age subject sex race source left_eye_x left_eye_y right_eye_x right_eye_y detector score"
    assert list(rows[0])[:12] == columns.split()
    assert [row["age"] for row in rows] == [str(20 + n) for n in range(6)]
    assert rows[3]["subject"] == "003"
    assert rows[3]["source"] == "003A23.JPG"
    assert Image.open(tmp_path / "aligned" / rows[0]["path"]).size == (256, 256)
    (failure,) = read_csv(tmp_path / "aligned/failures.csv")
    assert (failure["source"], failure["status"]) == ("007A33.JPG", "no_face")
    assert (tmp_path / "aligned/alignment.toml").read_text() == "size = 256\neye_distance = 0.342\neye_height = 0.312\n"
    assert Image.open(tmp_path / "sheet.png").width > 1000
    tiny: dict[str, Any] = {
        "backbone": "timm:test_efficientnet",
        "weights": "none",
        "freeze": True,
        "iterations": 10,
        "batch_size": 2,
    }
    report = agecli.train(tmp_path / "aligned", out=tmp_path / "run", **tiny)  # it is a data folder
    assert report.rows[0]["images"] == 1


def test_the_same_face_gives_about_the_same_crop(cli: Cli, tmp_path: Path, portrait: Image.Image) -> None:
    photos(tmp_path / "fg", portrait, 8)
    assert cli("preprocess", "fg", "--out", "aligned").returncode == 0
    crops = [
        np.asarray(Image.open(path).convert("L"), float) for path in sorted((tmp_path / "aligned/faces").iterdir())
    ]
    crops = [(crop - crop.mean()) / crop.std() for crop in crops]
    assert all((crops[0] * crop).mean() > 0.9 for crop in crops)


def test_any_number_of_workers_gives_the_same_bytes(cli: Cli, tmp_path: Path, portrait: Image.Image) -> None:
    photos(tmp_path / "fg", portrait, 12)
    for workers in (1, 2, 3):
        assert cli("preprocess", "fg", "--out", f"w{workers}", "--workers", workers).returncode == 0
    assert same(tmp_path / "w1", tmp_path / "w2")
    assert same(tmp_path / "w1", tmp_path / "w3")


def lines(path: Path) -> int:
    return path.read_bytes().count(b"\n") if path.exists() else 0


def start_and_kill(folder: Path, workers: int, more: int) -> None:
    """Kill a `preprocess --resume` in mid-run, as soon as its journal has so many more lines."""
    journal = folder / "broken/.preprocess.jsonl"
    wanted = lines(journal) + more
    command = [
        sys.executable,
        "-m",
        "agecli",
        "preprocess",
        "fg",
        "--out",
        "broken",
        "--resume",
        "--workers",
        str(workers),
    ]
    process = subprocess.Popen(
        command, cwd=folder, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + 120
        while lines(journal) < wanted and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.002)
        assert lines(journal) >= wanted, "it ended or was too slow"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        code = process.wait(timeout=30)
    assert code == -signal.SIGKILL, "it had ended before it was killed"
    assert not (folder / "broken/manifest.csv").exists()


@pytest.mark.slow
def test_kill_9_and_resume_lose_nothing_and_do_nothing_twice(cli: Cli, tmp_path: Path, portrait: Image.Image) -> None:
    photos(tmp_path / "fg", portrait, 150)
    assert cli("preprocess", "fg", "--out", "whole").returncode == 0
    dice = random.Random(0)
    for attempt in range(8):
        start_and_kill(tmp_path, workers=1 + attempt % 2, more=dice.randint(1, 9))
    journal = tmp_path / "broken/.preprocess.jsonl"
    assert 1 + 8 <= lines(journal) < 1 + 150  # a header, and some photos of each attempt, but not all
    assert cli("preprocess", "fg", "--out", "broken", "--resume").returncode == 0
    assert not list((tmp_path / "broken").rglob(".*.part"))
    assert same(tmp_path / "whole", tmp_path / "broken")
    assert len(read_csv(tmp_path / "broken/manifest.csv")) == 150


def test_a_folder_begun_by_an_earlier_version_is_resumed(tmp_path: Path, portrait: Image.Image) -> None:
    photos(tmp_path / "fg", portrait, 3)
    agecli.preprocess(tmp_path / "fg", out=tmp_path / "whole")
    agecli.preprocess(tmp_path / "fg", out=tmp_path / "old")
    (tmp_path / "old/manifest.csv").unlink()
    _, first, second, _ = (tmp_path / "old/.preprocess.jsonl").read_text().splitlines()
    header = '{"detector": "auto", "detect": true, "all_faces": false, "labelled": true}'  # as version 0.3 wrote it
    (tmp_path / "old/.preprocess.jsonl").write_text(f"{header}\n{first}\n{second[:40]}")
    agecli.preprocess(tmp_path / "fg", out=tmp_path / "old", resume=True)
    assert same(tmp_path / "whole", tmp_path / "old")


def test_aligned_faces_of_two_sizes_are_not_mixed(tmp_path: Path, portrait: Image.Image) -> None:
    photos(tmp_path / "fg", portrait, 2)
    agecli.preprocess(tmp_path / "fg", out=tmp_path / "out", no_detect=True, size=64)
    with pytest.raises(InputError, match="begun with other options: --size"):
        agecli.preprocess(tmp_path / "fg", out=tmp_path / "out", no_detect=True, size=128, resume=True)


def test_the_eight_orientations_give_the_same_crop(tmp_path: Path, portrait: Image.Image) -> None:
    turn = Image.Transpose
    undo = [
        None,
        turn.FLIP_LEFT_RIGHT,
        turn.ROTATE_180,
        turn.FLIP_TOP_BOTTOM,
        turn.TRANSPOSE,
        turn.ROTATE_90,
        turn.TRANSVERSE,
        turn.ROTATE_270,
    ]
    (tmp_path / "x").mkdir()
    for orientation, way in enumerate(undo, 1):
        exif = Image.Exif()
        exif[0x0112] = orientation
        (portrait if way is None else portrait.transpose(way)).save(tmp_path / f"x/{orientation}.png", exif=exif)
    agecli.preprocess(tmp_path / "x", out=tmp_path / "out")
    crops = [np.asarray(Image.open(path), float) for path in sorted((tmp_path / "out/faces").iterdir())]
    assert len(crops) == 8
    assert all(np.abs(crop - crops[0]).mean() < 1 for crop in crops)


def bomb(path: Path) -> None:
    """A PNG of 40,000 x 40,000 pixels in a few bytes."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", 40000, 40000, 8, 2, 0, 0, 0)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(bytes(10000)))
        + chunk(b"IEND", b"")
    )


def bad_folder(folder: Path, portrait: Image.Image) -> None:
    folder.mkdir()
    portrait.save(folder / "good.jpg")
    (folder / "zero.jpg").touch()
    (folder / "cut.jpg").write_bytes((folder / "good.jpg").read_bytes()[:6000])
    (folder / "text.jpg").write_text("this is a letter")
    bomb(folder / "bomb.png")
    portrait.convert("CMYK").save(folder / "cmyk.jpg")
    Image.fromarray(np.asarray(portrait.convert("L")).astype(np.uint16) * 257).save(folder / "deep.png")
    portrait.convert("P").save(folder / "palette.png")
    portrait.convert("LA").save(folder / "grey-alpha.png")
    portrait.convert("RGBA").save(folder / "alpha.png")
    portrait.save(folder / "moving.gif", save_all=True, append_images=[Image.new("RGB", portrait.size)])
    for suffix in ("webp", "bmp", "tiff"):
        portrait.save(folder / f"other.{suffix}")
    (folder / "folder.jpg").mkdir()
    Image.new("L", (90000, 2)).save(folder / "strip.png")
    (folder / "loop.jpg").symlink_to("loop.jpg")
    (folder / "loops").symlink_to(".")
    (folder / "gone.jpg").symlink_to("nowhere.jpg")
    for name in (b"a name with spaces.jpg", b"two\nlines.jpg", b"caf\xe9.jpg"):
        Path(os.fsdecode(os.fsencode(folder) + b"/" + name)).write_bytes((folder / "good.jpg").read_bytes())


WATCH = """import resource, subprocess, sys
code = subprocess.run(sys.argv[1:]).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
sys.exit(code)"""  # a small process of its own: this one's children count what it holds itself


def test_a_folder_of_bad_files(tmp_path: Path, portrait: Image.Image) -> None:
    bad_folder(tmp_path / "bad", portrait)
    words = ("preprocess", "bad", "--out", "out", "--workers", "2", "--format", "csv")
    command = [sys.executable, "-c", WATCH, sys.executable, "-m", "agecli", *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="surrogateescape", timeout=300)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    reasons = {row["source"]: row["reason"] for row in read_csv(tmp_path / "out/failures.csv")}
    assert {name: reason.split(":")[0] for name, reason in reasons.items()} == {
        "zero.jpg": "it is an empty file",
        "cut.jpg": "it is damaged",
        "text.jpg": "it is not a picture, or of a kind that can't be read",
        "bomb.png": "it is too large",
        "loop.jpg": "it is a link that leads to itself",
        "gone.jpg": "there is no such file",
        "folder.jpg": "it is a folder without pictures",
        "strip.png": "no face was found",
    }
    found = [row["source"] for row in read_csv(tmp_path / "out/manifest.csv")]
    assert len(found) == 13
    assert b"caf\xe9.jpg" in [os.fsencode(name) for name in found]
    assert all((tmp_path / "out" / row["path"]).is_file() for row in read_csv(tmp_path / "out/manifest.csv"))
    assert int(done.stderr.splitlines()[-1]) < 1.5e6  # kilobytes


def test_aligned_faces_are_only_resized_and_ages_may_be_missing(tmp_path: Path, portrait: Image.Image) -> None:
    (tmp_path / "x").mkdir()
    portrait.resize((100, 100)).save(tmp_path / "x/a.png")
    portrait.save(tmp_path / "x/b.jpg")
    portrait.save(tmp_path / "x/b.png")
    (tmp_path / "x/labels.csv").write_text("path,age\n,5\na.png,41\nb.jpg,\nb.png,40\nc.png,3\n")
    summary = agecli.preprocess(tmp_path / "x", out=tmp_path / "out", no_detect=True, size=64)
    assert (summary.source, summary.found, summary.failures) == ("csv", 2, {"no_age": 1, "unreadable": 1})
    assert {row["path"] for row in read_csv(tmp_path / "out/manifest.csv")} == {"faces/a.png.jpg", "faces/b.png.jpg"}
    crop = np.asarray(Image.open(tmp_path / "out/faces/b.png.jpg"), float)
    assert np.abs(crop - np.asarray(portrait.resize((64, 64), Image.Resampling.BOX), float)).mean() < 3


def test_a_table_can_not_write_outside_of_the_output(tmp_path: Path, portrait: Image.Image) -> None:
    (tmp_path / "x").mkdir()
    portrait.save(tmp_path / "outside.png")
    (tmp_path / "x/labels.csv").write_text(f"path,age\n../outside.png,40\n{tmp_path}/outside.png,40\n")
    summary = agecli.preprocess(tmp_path / "x", out=tmp_path / "y/out")
    assert summary.faces == 2
    crops = list(tmp_path.rglob("*.jpg"))
    assert len(crops) == 2
    assert all((tmp_path / "y/out/faces") in path.parents for path in crops)


def test_a_crop_that_was_removed_is_made_again(tmp_path: Path, portrait: Image.Image) -> None:
    photos(tmp_path / "fg", portrait, 3)
    agecli.preprocess(tmp_path / "fg", out=tmp_path / "out")
    crop = tmp_path / "out/faces/001A21.JPG.jpg"
    before = crop.read_bytes()
    crop.unlink()
    agecli.preprocess(tmp_path / "fg", out=tmp_path / "out", resume=True)
    assert crop.read_bytes() == before


def test_every_face_of_a_photo(tmp_path: Path, portrait: Image.Image) -> None:
    both = Image.new("RGB", (1024, 512))
    both.paste(portrait, (0, 0))
    both.paste(portrait.transpose(Image.Transpose.FLIP_LEFT_RIGHT).resize((400, 400)), (560, 60))
    (tmp_path / "x").mkdir()
    both.save(tmp_path / "x/two.jpg")
    assert agecli.preprocess(tmp_path / "x", out=tmp_path / "one").faces == 1
    assert agecli.preprocess(tmp_path / "x", out=tmp_path / "all", all_faces=True).faces == 2
    assert [row["path"] for row in read_csv(tmp_path / "all/manifest.csv")] == [
        "faces/two.jpg.jpg",
        "more-faces/two.jpg.2.jpg",
    ]


@pytest.mark.slow
def test_wrong_calls(cli: Cli, tmp_path: Path, portrait: Image.Image) -> None:
    photos(tmp_path / "fg", portrait, 1)
    (tmp_path / "empty").mkdir()
    assert cli("preprocess", "fg", "--out", "out").returncode == 0
    for arguments, code, says in (
        (("fg", "--out", "out"), 2, "--resume"),
        (("fg", "--out", "out", "--resume", "--size", 128), 2, "another alignment"),
        (("fg", "--out", "out", "--resume", "--detector", "hog"), 2, "other options"),
        (("nowhere", "--out", "b"), 3, "there is no folder nowhere"),
        (("empty", "--out", "b"), 3, "has no photos"),
        (("fg", "--out", "b", "--detector", "eyes"), 2, "yunet-dlib"),
        (("fg", "--out", "b", "--dataset", "mnist"), 2, "fgnet"),
        (("fg", "--out", "b", "--size", 4), 2, "--size 16"),
    ):
        done = cli("preprocess", *arguments)
        assert done.returncode == code, done.stderr
        assert says in done.stderr
        assert not (tmp_path / "b").exists()
    done = cli("preprocess", "fg", "--out", "b", "--dry-run")
    assert done.returncode == 0
    assert not (tmp_path / "b").exists()


def test_impossible_ages_are_failures_and_the_faces_can_be_trained_on(tmp_path: Path) -> None:
    """Ages that are in the real WIKI: -27, 250, 1996."""
    folder = tmp_path / "wiki"
    folder.mkdir()
    ages = {"a": "42", "b": "-27", "c": "250", "d": "1996", "e": "old", "f": ""}
    for name in ages:
        shutil.copy(Path(__file__).parents[2] / "docs/example.jpg", folder / f"{name}.jpg")
    (folder / "labels.csv").write_text("path,age\n" + "".join(f"{name}.jpg,{age}\n" for name, age in ages.items()))
    made = agecli.preprocess(folder, out=tmp_path / "out", workers=1)
    assert (made.faces, made.failures) == (1, {"no_age": 5})
    reasons = {row["source"][0]: row["reason"] for row in read_csv(tmp_path / "out/failures.csv")}
    assert reasons["b"] == "its age, -27, is impossible"
    assert reasons["d"] == "its age, 1996, is impossible"
    assert reasons["e"] == "its age, 'old', is not a number"
    assert reasons["f"] == "its age is not known"
    assert [sample.age for sample in read_manifest(tmp_path / "out", AgeGrid()).samples] == [42]
