"""The campaign of attacks: its generators are seeded, and it notices what it is looking for."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from benchmarks.attack.fuzzed_files import ENCODINGS, SIDES, pictures, videos, write_fuzzed
from benchmarks.attack.mutations import PNG, mutate, with_checksums
from benchmarks.attack.odd_names import odd_names
from benchmarks.attack.results import Round, append_round, hashes, read_rounds, table
from benchmarks.attack.rounds import _expect_records, _unchanged
from benchmarks.attack.watching import Run

ROOT = Path(__file__).parent.parent


def test_the_good_pictures_are_pictures_and_half_of_the_mutations_are_not(tmp_path: Path) -> None:
    good = pictures()
    assert len(good) == len(ENCODINGS) * len(SIDES)
    for name, (_, content) in good.items():
        with Image.open(io.BytesIO(content)) as image:
            image.load()
            assert str(image.width) in name
    assert {".mp4", ".avi"} <= videos().keys()
    paths = write_fuzzed(tmp_path, good, 80, np.random.default_rng(0))
    contents = {content for _, content in good.values()}
    assert sum(path.read_bytes() in contents for path in paths) < 10


def test_mutations_and_names_depend_on_the_seed_alone() -> None:
    content = pictures()["png, 48"][1]
    one, two, other = (mutate(content, [content], np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert one == two != other
    names = odd_names(200, np.random.default_rng(3))
    assert names == odd_names(200, np.random.default_rng(3))
    assert len({*names}) == 200
    assert max(len(os.fsencode(name)) for name in names) == 255
    assert not any("/" in name or "\0" in name for name in names)


def test_the_checksums_of_a_mutated_png_are_made_right() -> None:
    damaged = bytearray(pictures()["png, 48"][1])
    damaged[len(PNG) + 8] = 1  # 2^24 pixels wide
    repaired = with_checksums(bytes(damaged))
    assert repaired[29:33] == zlib.crc32(repaired[12:29]).to_bytes(4, "big")
    assert repaired[:29] == damaged[:29]


def record(source: str, **values: object) -> str:
    good = {"source": source, "status": "ok", "age": 30.0, "std": 3.0, "low": 20.0, "high": 40.0, "error": None}
    return json.dumps({**good, **values}) + "\n"


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ([record("a")], "no record: 'b'"),
        ([record("a"), record("b"), record("c")], "a record of nothing: 'c'"),
        ([record("b"), record("a")], "the records are in another order"),
        ([record("a"), record("b", age=float("nan"))], "b: numbers"),
        ([record("a"), record("b", status="no_face", age=None)], "b: a failure without a reason"),
    ],
)
def test_a_missing_or_wrong_record_is_a_problem(tmp_path: Path, lines: list[str], problem: str) -> None:
    (tmp_path / "a.jsonl").write_text("".join(lines))
    result = Round("part")
    _expect_records(result, ["a", "b"], tmp_path / "a.jsonl", Run(0, b"", "", 1.0))
    assert result.problems[0].startswith(problem)
    assert result.wrong


@pytest.mark.parametrize(
    "run",
    [
        Run(1, b"", "Traceback (most recent call last):\nValueError: x", 1.0),
        Run(-9, b"", "", 1.0, hung=True),
        Run(-11, b"", "", 1.0),
        Run(0, b"", "", 1.0, worker=2 * 10**9),
        Run(0, b"", "", 1.0, orphans=1),
    ],
)
def test_tracebacks_hangs_crashes_memory_and_orphans_are_wrong(run: Run) -> None:
    result = Round("part")
    result.add(Run(0, b"", "", 1.0))
    assert not result.wrong
    result.add(run)
    assert result.wrong


def test_changed_and_deleted_files_are_found(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).write_text(name)
    before = hashes(tmp_path)
    assert not _unchanged(Round("part"), before, tmp_path).changed
    (tmp_path / "a").write_text("x")
    (tmp_path / "b").unlink()
    assert _unchanged(Round("part"), before, tmp_path).changed == 2


def test_the_table_adds_up_the_rounds_of_a_log(tmp_path: Path) -> None:
    append_round(tmp_path / "log", Round("kills", tried=3, records=3, worker=10**8, compared=1, equal=1))
    append_round(tmp_path / "log", Round("kills", tried=1100, records=1100, worker=2 * 10**8, compared=1, equal=1))
    (row,) = table(read_rounds(tmp_path / "log")).splitlines()[2:]
    assert [cell.strip() for cell in row.split("|")[1:8]] == ["kills", "1,103", "1,103", "0", "0", "0", "200"]
    assert "2 of 2" in row


def test_the_runner_tries_a_part_and_exits_with_0(tmp_path: Path) -> None:
    command = ["-m", "benchmarks.attack", "--parts", "pictures=30", "--seed", "7", "-o", str(tmp_path / "table.md")]
    done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "| fuzzed pictures | 30 | 30 |" in (tmp_path / "table.md").read_text()
