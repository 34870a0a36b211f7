"""Kill chains: a command is ended at random moments and resumed until it is done; its output must have the same bytes."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from benchmarks.attack.fuzzed_files import EXAMPLE, pictures, videos, write_fuzzed
from benchmarks.attack.mutations import Rng
from benchmarks.attack.results import Round, contents, hashes
from benchmarks.attack.watching import watch

PHOTOS = 240  # with a face, beside some damaged files and videos
LONGEST_CHAIN = 40  # signals after which a chain is left to finish
OBEYED_WITHIN = 2.0  # seconds for SIGTERM and SIGINT, on an idle machine


@dataclass(frozen=True)
class Chain:
    """A command that can be resumed."""

    command: tuple[str, ...]
    output: str  # the file or folder that it writes
    workers: bool = True  # whether it takes --workers and --batch-size
    notes: tuple[str, ...] = ()  # files of the command's own, which may differ


PREDICT = ("predict", "photos", "--resume", "--distribution")
CHAINS: dict[str, Chain] = {
    "jsonl": Chain((*PREDICT, "-o", "out/ages.jsonl"), "out"),
    "csv": Chain((*PREDICT, "-o", "out/ages.csv", "--every", "300ms", "--videos"), "out"),
    "json": Chain((*PREDICT, "-o", "out/ages.json", "--over", "18"), "out"),
    "parquet": Chain((*PREDICT, "-o", "out/ages.parquet"), "out"),
    "drawn": Chain((*PREDICT, "-o", "out/ages.tsv", "--draw", "out/drawn", "--largest"), "out"),
    "persons": Chain((*PREDICT, "-o", "out/ages.jsonl", "--videos", "--per-person", "--every", "200ms"), "out"),
    "preprocess": Chain(("preprocess", "photos", "--out", "out", "--resume"), "out", False, (".preprocess.jsonl",)),
}


def try_kills(folder: Path, rng: Rng, size: int) -> Round:
    """Chains of at least `size` times `kill -9` in all."""
    return _chains(Round("kill -9"), (signal.SIGKILL,), folder, rng, size)


def try_stops(folder: Path, rng: Rng, size: int) -> Round:
    """The same with SIGTERM and SIGINT, which must be obeyed soon."""
    return _chains(Round("SIGTERM, SIGINT"), (signal.SIGTERM, signal.SIGINT), folder, rng, size)


def _chains(result: Round, kinds: tuple[signal.Signals, ...], folder: Path, rng: Rng, size: int) -> Round:
    """Chains of at least `size` signals of these kinds in all."""
    photos = folder / "photos"
    _write_photos(photos, rng)
    before = hashes(photos)
    while result.tried < size:
        name = str(rng.choice(list(CHAINS)))
        good, seconds = _reference(folder, CHAINS[name])
        signals, found = _chain(folder, CHAINS[name], kinds, seconds, rng, result)
        result.tried, result.records = result.tried + signals, result.records + signals
        result.compare(good, found, f"{name} after {signals} signals")
    after = hashes(photos)
    result.hashed, result.changed = len(before), sum(before.get(name) != after.get(name) for name in before | after)
    return result


def _write_photos(folder: Path, rng: Rng) -> None:
    """Photos of a face at many sizes and places, some with two faces, damaged files and videos; with ages."""
    write_fuzzed(folder, pictures(), 30, rng)
    for name, (ending, content) in videos().items():
        (folder / f"video-{name[1:]}{ending}").write_bytes(content)
    with Image.open(EXAMPLE) as example:
        for number in range(PHOTOS):
            left, top = int(rng.integers(60, 150)), int(rng.integers(0, 40))
            side = int(rng.integers(180, 260))
            photo = example.crop((left, top, left + side, top + side)).resize((150, 150))
            if number % 10 == 0:
                two = Image.new("RGB", (300, 150))
                two.paste(photo, (0, 0))
                two.paste(photo, (150, 0))
                photo = two
            photo.save(folder / f"face{number:03}.jpg", quality=int(rng.integers(60, 95)))
    names = sorted(path.name for path in folder.iterdir())
    (folder / "labels.csv").write_text("path,age\n" + "".join(f"{name},{len(name) + 20}\n" for name in names))


def _reference(folder: Path, chain: Chain) -> tuple[dict[str, bytes], float]:
    """The output of an uninterrupted run, and its time in seconds. Raises RuntimeError if it fails."""
    output = folder / chain.output
    output.mkdir()
    run = watch(chain.command, folder)
    if run.code not in (0, 1):
        raise RuntimeError(f"{chain.command} failed: {run.stderr}")
    good = contents(output, chain.notes)
    shutil.rmtree(output)
    return good, run.seconds


def _chain(
    folder: Path, chain: Chain, kinds: tuple[signal.Signals, ...], seconds: float, rng: Rng, result: Round
) -> tuple[int, dict[str, bytes]]:
    """End and resume a command until it is done.   seconds: of an uninterrupted run. Returns the signals and the output."""
    output = folder / chain.output
    output.mkdir()
    signals = 0
    while True:
        more = ("--workers", int(rng.integers(1, 4)), "--batch-size", int(rng.integers(1, 40))) if chain.workers else ()
        kind = kinds[int(rng.integers(len(kinds)))]
        stop = (float(rng.uniform(0.02, 0.7 * seconds)), kind) if signals < LONGEST_CHAIN else None
        run = watch([*chain.command, *more], folder, stop=stop)
        result.add(run)
        if run.stopped is None:
            break
        signals += 1
        if kind == signal.SIGKILL:
            continue
        result.slowest = max(result.slowest, run.stopped)
        if run.stopped > _two_seconds():
            result.problems.append(f"{kind.name} was obeyed after {run.stopped:.1f} s")
        if run.code in (0, 1):  # it was done when the signal came
            break
        # -SIGINT, which a shell shows as 130, also after SIGTERM: Python ends so if C code that it ran was interrupted
        if run.code not in (130, -kind, -signal.SIGINT):
            result.problems.append(f"{kind.name}: exit code {run.code}: {run.stderr.strip()[-300:]}")
    if run.code not in (0, 1):
        result.problems.append(f"resumed: exit code {run.code}: {run.stderr.strip()[-300:]}")
    found = contents(output, chain.notes)
    shutil.rmtree(output)
    return signals, found


def _two_seconds() -> float:
    """OBEYED_WITHIN, and more on a machine so busy that even an empty program takes a while."""
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    return OBEYED_WITHIN + 4 * (time.monotonic() - began)
