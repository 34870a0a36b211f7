"""A full disk: one line that names the file, nothing half written, and a resumed run that ends with the same bytes.

Files are limited to a few bytes (RLIMIT_FSIZE), which makes real writes short or fail on every POSIX system; where
this process may mount one, a small tmpfs is filled, too.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from PIL import Image

from agecli.core.errors import DiskFullError
from agecli.core.files import write_bytes, write_csv
from agecli.core.journal import JournalFile
from agecli.datasets.contact_sheet import draw_contact_sheet
from agecli.datasets.preprocessing import preprocess
from agecli.datasets.toy import draw_faces
from agecli.images.alignment import Alignment
from agecli.model.checkpoint import write_tensors
from agecli.prediction.drawing import Drawer
from tests.conftest import invoke
from tests.prediction.test_drawing_files import face

resource = pytest.importorskip("resource")


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Writes beyond this many bytes of a file fail, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture
def tmpfs(tmp_path: Path) -> Iterator[Path]:
    """An empty disk of 256 kB."""
    place = tmp_path / "disk"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", place], capture_output=True).returncode:
        pytest.skip("only root can mount a disk; the other tests limit the size of files")
    yield place
    subprocess.run(["umount", place], check=True)


def noise(path: Path, side: int = 128) -> Path:
    """A picture that does not compress well."""
    Image.frombytes("RGB", (side, side), os.urandom(3 * side * side)).save(path)
    return path


WRITERS: dict[str, Callable[[Path], object]] = {
    "bytes": lambda folder: write_bytes(folder / "out", bytes(9000)),
    "table": lambda folder: write_csv(folder / "out", [{"a": "x" * 9000}], ("a",)),
    "checkpoint": lambda folder: write_tensors(folder / "out", "k", {"a": torch.zeros(5000)}, {}),
    "contact sheet": lambda folder: draw_contact_sheet([folder / "face.jpg"], 1, Alignment(), folder / "out.png"),
    "drawing": lambda folder: list(Drawer(folder, "1s")([face(str(folder.parent / "out.png"))])),
    "toy faces": lambda folder: draw_faces(folder / "out", 1),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_a_file_that_has_no_space_is_named_and_not_there(tmp_path: Path, writer: str) -> None:
    (tmp_path / "folder").mkdir()
    for name in ("out.png", "folder/face.jpg"):
        noise(tmp_path / name)
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    with largest_file(1500), pytest.raises(DiskFullError, match=r"out.* can't be written: file too large"):
        WRITERS[writer](tmp_path / "folder")
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_journal_on_a_full_disk_resumes_after_its_last_whole_line(tmp_path: Path) -> None:
    def fill() -> None:
        with JournalFile(tmp_path / "a", {"x": 1}, resume=False) as journal:
            for number in range(100):
                journal.append({"number": number})

    with largest_file(500), pytest.raises(DiskFullError, match="a can't be written"):
        fill()
    assert (tmp_path / "a").stat().st_size == 500  # the last line is cut
    with JournalFile(tmp_path / "a", {"x": 1}, resume=True) as journal:
        kept = list(journal.entries())
        assert kept == [{"number": number} for number in range(len(kept))]
        assert len(kept) > 20


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_crop_that_is_cut_short_is_not_believed(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    for number in range(6):
        Image.new("RGB", (64, 64), (40 * number, 0, 0)).save(photos / f"00{number}A1{number}.png")
    noise(photos / "003A13.png", 64)  # its crop is the largest
    preprocess(photos, out=tmp_path / "whole", no_detect=True, size=64)
    largest = max(path.stat().st_size for path in (tmp_path / "whole").rglob("*.jpg"))
    with largest_file(largest - 1), pytest.raises(DiskFullError, match=r"003A13\.png\.jpg can't be written"):
        preprocess(photos, out=tmp_path / "out", no_detect=True, size=64)
    crops = sorted(path.name for path in (tmp_path / "out").rglob("*.jpg"))
    assert crops == ["000A10.png.jpg", "001A11.png.jpg", "002A12.png.jpg"]
    damaged = tmp_path / "out/faces/001A11.png.jpg"  # as an older version, or a power failure, left it
    damaged.write_bytes(damaged.read_bytes()[:100])
    preprocess(photos, out=tmp_path / "out", no_detect=True, size=64, resume=True)
    whole, resumed = contents(tmp_path / "whole"), contents(tmp_path / "out")
    assert resumed.pop(".preprocess.jsonl") != whole.pop(".preprocess.jsonl")  # one photo was done twice
    assert resumed == whole


def test_preprocess_on_a_full_disk_says_so_in_one_line_and_resumes(tmp_path: Path, tmpfs: Path) -> None:
    (tmp_path / "photos").mkdir()
    for number in range(12):
        noise(tmp_path / f"photos/00{number}A1.png", 200)
    arguments = ("preprocess", tmp_path / "photos", "--out", tmpfs / "out", "--no-detect", "--size", 200, "--resume")
    full = invoke(*arguments)
    assert full.exit_code == 2
    errors = [line for line in full.output.splitlines() if "error:" in line]
    assert len(errors) == 1
    assert ".jpg can't be written: no space left on device" in errors[0]
    assert "Traceback" not in full.output
    subprocess.run(["mount", "-o", "remount,size=8m", tmpfs], check=True)
    assert invoke(*arguments).exit_code == 0
    preprocess(tmp_path / "photos", out=tmp_path / "whole", no_detect=True, size=200)
    assert contents(tmpfs / "out") == contents(tmp_path / "whole")
