"""A prediction into a file can be killed at any byte, and goes on as if it had not been."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agecli.core.errors import InputError
from agecli.prediction.journal import Journal, left_out

ABOUT = {"model": "abc", "largest": False}


def records(name: str, faces: int) -> Iterator[dict[str, Any]]:
    for face in range(faces) if faces else (None,):
        yield {"source": name, "status": "ok", "face": face, "time": None}


def film(name: str, frames: int) -> Iterator[dict[str, Any]]:
    for frame in range(frames):
        yield {"source": name, "status": "ok", "face": 0, "time": float(frame)}
        yield {"source": name, "status": "ok", "face": 1, "time": float(frame)}


def answers(names: Iterator[str], faces: list[int]) -> Iterator[dict[str, Any]]:
    """Of each input as many records as its number says; those of videos in another way."""
    for name in names:
        count = faces[int(name[1:])]
        yield from film(name, count + 1) if name.startswith("v") else records(name, count)


def run(output: Path, names: list[str], faces: list[int], resume: bool) -> list[dict[str, Any]]:
    with Journal(output, ABOUT, resume) as journal:
        for row in answers(left_out(iter(names), journal.done()), faces):
            journal.add(row)
        return [dict(row) for row in journal.rows()]


@given(
    inputs=st.lists(st.tuples(st.sampled_from("pv"), st.integers(0, 3)), min_size=1, max_size=8),
    cut=st.floats(0, 1),
    repeat=st.booleans(),
)
def test_a_run_cut_off_at_any_byte_goes_on_with_each_input_once(
    tmp_path_factory: pytest.TempPathFactory, inputs: list[tuple[str, int]], cut: float, repeat: bool
) -> None:
    output = tmp_path_factory.mktemp("journal") / "ages.jsonl"
    faces = [count for _, count in inputs]
    names = [f"{kind}{number}" for number, (kind, _) in enumerate(inputs)]
    names += names[:1] * repeat  # a name may be given twice, also in a row
    whole = run(output, names, faces, resume=False)
    path = Journal.beside(output)
    content = path.read_bytes()
    path.write_bytes(content[: round(cut * len(content))])
    assert run(output, names, faces, resume=True) == whole
    assert path.read_bytes() == content


def test_a_stopped_run_is_not_thrown_away_by_mistake(tmp_path: Path) -> None:
    run(tmp_path / "a.csv", ["p0", "p1"], [1, 1], resume=False)
    with pytest.raises(InputError, match="has the results of an interrupted run"):
        Journal(tmp_path / "a.csv", ABOUT, resume=False)
    with pytest.raises(InputError, match="begun with other options: --largest"):
        Journal(tmp_path / "a.csv", {**ABOUT, "largest": True}, resume=True)


def test_other_inputs_are_refused(tmp_path: Path) -> None:
    run(tmp_path / "a.csv", ["p0", "p1", "p2"], [1, 1, 1], resume=False)
    with pytest.raises(InputError, match="p0 was next, and now it is p1"):
        run(tmp_path / "a.csv", ["p1", "p0", "p2"], [1, 1, 1], resume=True)
    with pytest.raises(InputError, match="there are no more inputs"):
        run(tmp_path / "a.csv", [], [1, 1, 1], resume=True)


def test_a_run_that_fails_at_once_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="bad"), Journal(tmp_path / "a.csv", ABOUT, resume=False):
        raise ValueError("bad")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("resume", [False, True])
def test_what_is_no_journal_is_left_alone(tmp_path: Path, resume: bool) -> None:
    (tmp_path / "a.csv.unfinished").write_text("my notes\nof last week\n")
    with pytest.raises(InputError, match="is not a journal of agecli"):
        Journal(tmp_path / "a.csv", ABOUT, resume)
    assert (tmp_path / "a.csv.unfinished").read_text() == "my notes\nof last week\n"
