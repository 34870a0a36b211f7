"""Every block of the docs that is marked `<!-- run -->` runs, word for word, in a folder with small photos.

Blocks below one `##` heading are one session: they run one after the other in one folder. A tutorial is one session as a whole.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
import pytest
from PIL import Image, ImageEnhance

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs/tutorials").glob("*.md"))]
BLOCK = re.compile(r"^<!-- run -->\n```(bash|python)\n(.*?)^```$", re.M | re.S)
LONG = re.compile(r"agecli (train|study|evaluate|export|inspect|calibrate)\b")


class Session(NamedTuple):
    """Blocks that run in one folder: where they are, and their languages and texts."""

    name: str
    blocks: list[tuple[str, str]]


def sessions(pages: list[Path] = PAGES) -> Iterator[Session]:
    """All sessions of the docs."""
    for page in pages:
        text = page.read_text(encoding="utf-8")
        parts = [text] if page.parent.name == "tutorials" else re.split(r"^(?=## )", text, flags=re.M)
        for number, part in enumerate(parts):
            if blocks := BLOCK.findall(part):
                yield Session(f"{page.stem}-{number}", blocks)


def parameters() -> Iterator[object]:
    """The sessions as parameters of a test; those that train are slow."""
    for session in sessions():
        slow = any(LONG.search(text) for _, text in session.blocks)
        yield pytest.param(session, id=session.name, marks=[pytest.mark.slow] if slow else [])


def test_no_marker_is_lost() -> None:
    """A misspelt marker or fence would be a block that nobody runs."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert len(re.findall(r"<!-- *run", text)) == len(BLOCK.findall(text)), page.name


def test_each_tutorial_runs_commands() -> None:
    tutorials = {page.stem for page in PAGES if page.parent.name == "tutorials"}
    assert len(tutorials) == 5
    assert tutorials <= {session.name.rpartition("-")[0] for session in sessions()}


def variants(folder: Path, names: list[str], side: int = 256) -> None:
    """Photos of one face that differ: turned by some degrees, lighter or darker, cut elsewhere."""
    folder.mkdir()
    portrait = Image.open(ROOT / "docs/example.jpg").convert("RGB")
    draw = np.random.default_rng(0)
    for name in names:
        shift = draw.integers(-12, 13, size=2)
        photo = portrait.rotate(draw.uniform(-8, 8), translate=(int(shift[0]), int(shift[1]))).resize((side, side))
        ImageEnhance.Brightness(photo).enhance(draw.uniform(0.6, 1.4)).save(folder / name, quality=90, format="JPEG")


def film(path: Path) -> None:
    """Two seconds of the portrait."""
    frame = cv2.resize(cv2.imread(str(ROOT / "docs/example.jpg")), (320, 320))
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"mp4v"), 5, (320, 320))
    for _ in range(10):
        writer.write(frame)
    writer.release()


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the pages talk about: photos/, photo.jpg, docs/, film.mp4, mine/ with a labels.csv, and FGNET/."""
    folder = tmp_path_factory.mktemp("material")
    variants(folder / "photos", ["a.jpg", "b.jpg", "c.jpg", "d.jpg"])
    shutil.copytree(folder / "photos", folder / "holidays")
    shutil.copytree(folder / "photos", folder / "faces")
    film(folder / "film.mp4")
    (folder / "docs").mkdir()
    shutil.copy(ROOT / "docs/example.jpg", folder / "docs")
    shutil.copy(ROOT / "docs/example.jpg", folder / "photo.jpg")
    ages = [12 + 2 * number % 50 for number in range(80)]
    variants(folder / "mine", [f"{number}.jpg" for number in range(80)])
    rows = [f"{number}.jpg,{age},person{number // 4}" for number, age in enumerate(ages)]
    (folder / "mine/labels.csv").write_text("\n".join(["path,age,subject", *rows]) + "\n", encoding="utf-8")
    variants(
        folder / "FGNET",
        [f"{subject:03}A{age:02}.JPG" for subject in range(1, 6) for age in (3, 9, 12, 16, 20, 24, 38, 51)],
    )
    return folder


@pytest.mark.parametrize("session", list(parameters()))
def test_the_block_runs(session: Session, material: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    shutil.copytree(material, work)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    for language, text in session.blocks:
        command = ["bash", "-euo", "pipefail", "-c", text] if language == "bash" else [sys.executable, "-c", text]
        done = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True, timeout=500)
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
