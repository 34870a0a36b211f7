"""Rounds of the campaign that read hostile inputs: pictures, videos, names, models, tables, and very many inputs.

Each takes an empty folder, a random generator and a size, and returns what it found.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from benchmarks.attack.fuzzed_files import EXAMPLE, FACE, pictures, videos, write_fuzzed, write_huge
from benchmarks.attack.mutations import Rng, mutate
from benchmarks.attack.odd_names import odd_names
from benchmarks.attack.results import Round, hashes
from benchmarks.attack.watching import Run, watch

LIMITS = ("--timeout", 20)
STATUSES = ("ok", "no_face", "unreadable", "crashed")
ON_STDIN = 3  # pictures of a round that are also given on standard input
SHOWN = 5  # problems of one kind in a round


def fuzz_pictures(folder: Path, rng: Rng, size: int) -> Round:
    """Mutated pictures of all formats in one run of `predict` or `preprocess`, and some on standard input."""
    result = Round("fuzzed pictures")
    photos = folder / "photos"
    paths = write_fuzzed(photos, pictures(), size, rng)
    before = hashes(photos)
    kind = str(rng.choice(["predict", "draw", "preprocess"], p=[0.5, 0.25, 0.25]))
    if kind == "preprocess":
        (photos / "labels.csv").write_text("path,age\n" + "".join(f"{path.name},30\n" for path in paths))
        before = hashes(photos)
        run = watch(["preprocess", "photos", "--out", "out", *LIMITS], folder, grows=folder / "out/.preprocess.jsonl")
        rows = _read_csv(folder / "out/manifest.csv") + _read_csv(folder / "out/failures.csv")
        _expect_names(result, [path.name for path in paths], sorted({row["source"] for row in rows}), run)
        result.crashed += sum(row.get("status") == "crashed" for row in rows)
    else:
        more = ["--draw", "drawn"] if kind == "draw" else []
        run = watch(["predict", "photos", "-o", "a.jsonl", *LIMITS, *more], folder, grows=folder / "a.jsonl.unfinished")
        _expect_records(result, [f"photos/{path.name}" for path in paths], folder / "a.jsonl", run)
    for number in rng.choice(len(paths), min(ON_STDIN, len(paths)), replace=False):
        _expect_stdin(result, paths[number], folder)
    return _unchanged(result, before, photos)


def try_huge(folder: Path, rng: Rng, size: int) -> Round:
    """Pictures of up to 120 megapixels, small as files, some of them drawn."""
    result = Round("huge pictures")
    photos = folder / "photos"
    photos.mkdir()
    for number in range(size):
        write_huge(photos, number, rng)
    before = hashes(photos)
    more = ["--draw", "drawn"] if rng.random() < 0.3 else []
    run = watch(["predict", "photos", "-o", "a.jsonl", *more], folder, grows=folder / "a.jsonl.unfinished")
    _expect_records(result, [f"photos/{path.name}" for path in sorted(photos.iterdir())], folder / "a.jsonl", run)
    if result.crashed:
        result.problems.append("a picture below the limit in pixels exceeded the limit in memory or time")
    return _unchanged(result, before, photos)


def fuzz_videos(folder: Path, rng: Rng, size: int) -> Round:
    """Mutated videos in one run of `predict --videos`, drawn in half of the rounds."""
    result = Round("fuzzed videos")
    paths = write_fuzzed(folder / "photos", videos(), size, rng)
    before = hashes(folder / "photos")
    more = ["--draw", "drawn"] if rng.random() < 0.5 else []
    command = ["predict", "photos", "--videos", "--every", "500ms", "-o", "a.jsonl", *LIMITS, *more]
    run = watch(command, folder, grows=folder / "a.jsonl.unfinished")
    _expect_records(result, [f"photos/{path.name}" for path in paths], folder / "a.jsonl", run)
    return _unchanged(result, before, folder / "photos")


def try_names(folder: Path, rng: Rng, size: int) -> Round:
    """Files with odd names: in a folder and as a list, as JSON lines, CSV and a table, drawn and preprocessed."""
    result = Round("odd names")
    photos = folder / "photos"
    photos.mkdir()
    names = sorted(odd_names(size, rng), key=os.fsencode)
    with Image.open(EXAMPLE) as example:
        small = io.BytesIO()
        example.crop(FACE).resize((64, 64)).save(small, "JPEG")
    for name in names:
        (photos / name).write_bytes(small.getvalue())
    before = hashes(photos)
    sources = [f"photos/{name}" for name in names]
    run = watch(["predict", "photos", "--no-detect", "-o", "a.jsonl", "--draw", "drawn", *LIMITS], folder)
    _expect_records(result, sources, folder / "a.jsonl", run)
    if len(hashes(folder / "drawn")) < len(names):
        result.problems.append(f"{len(hashes(folder / 'drawn'))} drawings of {len(names)} photos")
    listed = b"\0".join(map(os.fsencode, sources))
    run = watch(["predict", "-", "-0", "--no-detect", "-o", "a.csv", *LIMITS], folder, stdin=listed)
    again = Round("")
    _expect_names(again, sources, [row["source"] for row in _read_csv(folder / "a.csv")], run)
    run = watch(["predict", "photos", "--no-detect", "--format", "table", *LIMITS], folder)
    again.add(run)
    if any(letter in run.stdout + run.stderr.encode() for letter in (b"\x1b", b"\x07", b"\x08", b"\x7f")):
        again.problems.append("control characters of a name reached the terminal")
    run = watch(["preprocess", "photos", "--no-detect", "--out", "out", *LIMITS], folder)  # some names hold an age
    rows = _read_csv(folder / "out/manifest.csv") + _read_csv(folder / "out/failures.csv")
    _expect_names(again, names, sorted((row["source"] for row in rows), key=os.fsencode), run)
    result.problems += again.problems
    result.tracebacks, result.hangs = result.tracebacks + again.tracebacks, result.hangs + again.hangs
    return _unchanged(result, before, photos)


def try_models(folder: Path, rng: Rng, size: int) -> Round:
    """Hostile models, run folders and tables: the made ones in turn, and mutations of a good model and a good table."""
    from benchmarks.attack.hostile_folders import FOLDERS
    from benchmarks.attack.hostile_models import MODELS, graph, write_onnx

    result = Round("models, tables, run folders")
    every = {**MODELS, **FOLDERS}
    names = [str(name) for name in rng.permutation(list(every))]
    for number in range(size):
        place = folder / str(number)
        place.mkdir()
        if number % 2 == 0 and names:
            name = names.pop()
            _expect_error(result, watch(every[name](place), place), name)
        elif number % 4 == 1:
            arguments = write_onnx(place, graph())
            model = place / "model.onnx"
            model.write_bytes(mutate(model.read_bytes(), [model.read_bytes()], rng))
            _expect_line_or_age(result, watch(arguments, place), f"mutated model in {model}")
        else:
            Image.new("RGB", (32, 32)).save(place / "face.jpg")
            good = b"path,age,subject,sex\n" + b"face.jpg,30,a,M\n" * 20
            (place / "labels.csv").write_bytes(mutate(good, [good], rng))
            run = watch(["preprocess", place, "--no-detect", "--out", place / "out"], place)
            _expect_line_or_age(result, run, f"mutated table in {place}")
    return result


def try_many(folder: Path, rng: Rng, size: int) -> Round:
    """Very many inputs in folders: one in twelve a face, the others small files that are no pictures or damaged ones."""
    result = Round("many inputs")
    kinds = _common_files(folder / "kinds")
    photos = folder / "photos"
    for number, kind in enumerate(rng.choice(kinds, size)):
        place = photos / f"{number // 1000:03}"
        place.mkdir(parents=True, exist_ok=True)
        os.link(kind, place / f"{number:06}.jpg")
    before = hashes(photos)
    run = watch(["predict", "photos", "-o", "a.jsonl", *LIMITS], folder, grows=folder / "a.jsonl.unfinished")
    sources = [f"photos/{number // 1000:03}/{number:06}.jpg" for number in range(size)]
    _expect_records(result, sources, folder / "a.jsonl", run)
    return _unchanged(result, before, photos)


def _common_files(folder: Path) -> list[str]:
    """Two files with a face, and 22 that are empty, text, or damaged; links to one file are limited to 65,000."""
    folder.mkdir()
    with Image.open(EXAMPLE) as example:
        for number in range(2):
            example.crop((150 + number, 40, 310, 200)).resize((112, 112)).save(folder / f"face{number}.jpg")
    good = (folder / "face0.jpg").read_bytes()
    for number in range(8):
        (folder / f"empty{number}").write_bytes(b"")
    for number in range(7):
        (folder / f"text{number}").write_text("no picture")
        (folder / f"cut{number}").write_bytes(good[: 200 + number])
    return sorted(str(path) for path in folder.iterdir())


# What is expected


def _expect_records(result: Round, sources: Sequence[str], path: Path, run: Run) -> None:
    """Every input has records, in order, with a known status and a finite age if it is ok."""
    result.add(run)
    result.tried += len(sources)
    if not path.exists():
        result.problems.append(f"no output; exit code {run.code}: {run.stderr.strip()[-300:]}")
        return
    found: dict[str, None] = {}
    for line in path.read_text(errors="surrogateescape").split("\n")[:-1]:
        record: dict[str, Any] = json.loads(line)
        found[record["source"]] = None
        result.crashed += record["status"] == "crashed"
        if problem := _wrong(record):
            result.problems.append(f"{record['source']}: {problem}")
    _expect_same(result, sources, list(found))


def _wrong(record: dict[str, Any]) -> str | None:
    """What is wrong with a record."""
    if record["status"] not in STATUSES:
        return f"status {record['status']}"
    if record["status"] != "ok":
        return None if record["error"] and record["age"] is None else "a failure without a reason"
    numbers = [record[name] for name in ("age", "std", "low", "high")]
    if not all(isinstance(value, (int, float)) and math.isfinite(value) and 0 <= value <= 130 for value in numbers):
        return f"numbers {numbers}"
    return None


def _expect_names(result: Round, expected: Sequence[str], found: Sequence[str], run: Run) -> None:
    """Every input has a row."""
    result.add(run)
    result.tried += len(expected)
    if run.code not in (0, 1):
        result.problems.append(f"exit code {run.code}: {run.stderr.strip()[-300:]}")
    _expect_same(result, expected, found)


def _expect_same(result: Round, expected: Sequence[str], found: Sequence[str]) -> None:
    """The inputs with a record are those that were given, in the same order."""
    result.records += len(set(expected) & set(found))
    missing, extra = sorted(set(expected) - set(found)), sorted(set(found) - set(expected))
    result.problems += [f"no record: {name!r}" for name in missing[:SHOWN]]
    result.problems += [f"a record of nothing: {name!r}" for name in extra[:SHOWN]]
    if not missing and not extra and list(expected) != list(found):
        result.problems.append("the records are in another order")


def _expect_stdin(result: Round, path: Path, folder: Path) -> None:
    """A picture on standard input is a record, or an error of one line if it does not look like one."""
    run = watch(["predict", "-", "--format", "jsonl", *LIMITS], folder, stdin=path)
    result.add(run)
    if run.code not in (0, 1, 2) or (run.code == 2 and len(run.errors) != 1):
        result.problems.append(f"{path} on stdin: exit code {run.code}: {run.stderr.strip()[-300:]}")


def _expect_error(result: Round, run: Run, name: str) -> None:
    """One line, exit code 1 or 2, below a gigabyte."""
    result.add(run)
    result.tried += 1
    good = run.code in (1, 2) and len(run.errors) == 1 and run.main < 1e9 and b'"status": "ok"' not in run.stdout
    result.records += good
    if not good:
        result.problems.append(
            f"{name}: exit code {run.code}, {run.main / 1e6:.0f} MB, {run.seconds:.1f} s: {run.stderr.strip()[-300:]}"
        )


def _expect_line_or_age(result: Round, run: Run, name: str) -> None:
    """A mutated file may still be a good one."""
    result.add(run)
    result.tried += 1
    good = run.code in (0, 1, 2) and len(run.errors) <= 1 and run.main < 1e9 and b"NaN" not in run.stdout
    result.records += good
    if not good:
        result.problems.append(f"{name}: exit code {run.code}, {run.main / 1e6:.0f} MB: {run.stderr.strip()[-300:]}")


def _unchanged(result: Round, before: dict[bytes, str], folder: Path) -> Round:
    """Compare the hashes of the user's files."""
    after = hashes(folder)
    result.hashed += len(before)
    changed = [name for name in before.keys() | after.keys() if before.get(name) != after.get(name)]
    result.changed += len(changed)
    result.problems += [f"changed: {name!r}" for name in changed[:SHOWN]]
    return result


def _read_csv(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file; none if it is not there."""
    if not path.exists():
        return []
    with path.open(errors="surrogateescape", newline="") as file:
        return list(csv.DictReader(file))
