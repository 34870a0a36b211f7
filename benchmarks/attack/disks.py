"""Full disks: commands write to a tmpfs that is too small, say so in one line, and end with the same bytes when resumed."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image

from benchmarks.attack.fuzzed_files import EXAMPLE
from benchmarks.attack.mutations import Rng
from benchmarks.attack.results import Round, contents, hashes
from benchmarks.attack.watching import watch

PHOTOS = 40
COMMANDS: dict[str, tuple[str, ...]] = {
    "jsonl": ("predict", "photos", "--distribution", "-o", "disk/out/ages.jsonl", "--resume"),
    "csv": ("predict", "photos", "--distribution", "-o", "disk/out/ages.csv", "--resume"),
    "drawn": ("predict", "photos", "-o", "disk/out/ages.csv", "--draw", "disk/out/drawn", "--resume"),
    "preprocess": ("preprocess", "photos", "--out", "disk/out", "--resume"),
}
NOTES = (".preprocess.jsonl",)


def can_mount(folder: Path) -> bool:
    """Whether this process may mount a tmpfs."""
    (folder / "disk").mkdir(exist_ok=True)
    if _mount(folder / "disk", 64):
        return False
    subprocess.run(["umount", folder / "disk"], check=True)
    return True


def fill_disks(folder: Path, rng: Rng, size: int) -> Round:
    """So many commands on disks of random sizes, each resumed on a larger one."""
    result = Round("full disks")
    _write_photos(folder / "photos")
    before = hashes(folder / "photos")
    (folder / "disk/out").mkdir(parents=True, exist_ok=True)
    for number in range(size):
        name = list(COMMANDS)[number % len(COMMANDS)]
        with tmpfs(folder / "disk", 1 << 20):
            result.add(watch(COMMANDS[name], folder))
            good = contents(folder / "disk/out", NOTES)
            used = _kilobytes(folder / "disk")
        with tmpfs(folder / "disk", int(rng.integers(8, max(9, int(0.9 * used))))):
            _fill(folder, name, good, result)
    after = hashes(folder / "photos")
    result.hashed, result.changed = len(before), sum(before.get(name) != after.get(name) for name in before | after)
    return result


def _fill(folder: Path, name: str, good: dict[str, bytes], result: Round) -> None:
    """One command on a full disk, and again on a larger one."""
    result.tried += 1
    run = watch(COMMANDS[name], folder)
    result.add(run)
    if run.code == 2 and len(run.errors) == 1 and "can't be written" in run.errors[0]:
        result.records += 1
    else:
        result.problems.append(f"{name} on a full disk: exit code {run.code}: {run.stderr.strip()[-300:]}")
    subprocess.run(["mount", "-o", f"remount,size={1 << 30}", folder / "disk"], check=True)
    run = watch(COMMANDS[name], folder)
    result.add(run)
    if run.code not in (0, 1):
        result.problems.append(f"{name} resumed: exit code {run.code}: {run.stderr.strip()[-300:]}")
    result.compare(good, contents(folder / "disk/out", NOTES), f"{name} after a full disk")


@contextmanager
def tmpfs(place: Path, kilobytes: int) -> Iterator[None]:
    """A small disk for the length of a `with` block, with a folder `out`."""
    _mount(place, kilobytes, check=True)
    try:
        (place / "out").mkdir()
        yield
    finally:
        subprocess.run(["umount", place], check=True)


def _mount(place: Path, kilobytes: int, check: bool = False) -> int:
    command = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(place)]
    return subprocess.run(command, capture_output=True, check=check).returncode


def _kilobytes(place: Path) -> int:
    """The space that files take on a disk."""
    return sum(-(-path.stat().st_size // 4096) * 4 for path in place.rglob("*") if path.is_file())


def _write_photos(folder: Path) -> None:
    """Photos with a face, and their ages."""
    folder.mkdir()
    with Image.open(EXAMPLE) as example:
        for number in range(PHOTOS):
            example.crop((100 + number, 0, 350, 250)).resize((200, 200)).save(folder / f"{number:03}.jpg")
    (folder / "labels.csv").write_text("path,age\n" + "".join(f"{number:03}.jpg,30\n" for number in range(PHOTOS)))
