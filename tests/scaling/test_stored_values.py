"""Damaged and hostile files of a run: one line of error, never a traceback, and nothing that is no record is merged."""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import agecli
from agecli.core.errors import InputError
from agecli.core.records import RECORD_COLUMNS, Record
from agecli.scaling.plan import read_plan
from agecli.scaling.run_files import INPUTS, NAME
from tests.conftest import invoke

ROW = Record("a.jpg", "ok", 0, 30.5, 4.0, 20.0, 40.0, 0.9, (1, 2, 3, 4), 0.9).row()
OPTIONS = {"model": "x", "videos": True}


def write_plan(folder: Path, **changed: Any) -> None:
    """A plan of two inputs in one shard."""
    lines = b'"a.jpg"\n"b.jpg"\n'
    fields = {"schema": 1, "command": "predict", "options": OPTIONS, "arguments": ["x"], "base": "/", "inputs": 2}
    fields |= {"sha256": hashlib.sha256(lines).hexdigest(), "starts": [[0, 0], [2, len(lines)]]}
    folder.mkdir(exist_ok=True)
    (folder / INPUTS).write_bytes(lines)
    (folder / NAME).write_text(json.dumps({**fields, **changed}))


def write_part(folder: Path, *lines: bytes, **changed: Any) -> None:
    """A part with a correct footer but for `changed`."""
    content = b"".join(line + b"\n" for line in lines)
    footer = {"plan": read_plan(folder).key, "shard": 0, "inputs": 2, "failed": 0, "records": len(lines)}
    footer |= {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest(), "seconds": 1.5}
    (folder / "part-00000.jsonl").write_bytes(
        content + json.dumps({"agecli_part": {**footer, **changed}}).encode() + b"\n"
    )


def check_refused(folder: Path, says: str) -> None:
    """`merge` raises an error of one line in any format, and leaves no file; `status` succeeds or raises one likewise."""
    for form in ("jsonl", "csv"):
        with pytest.raises(InputError, match=says) as error:
            agecli.merge(folder, folder.parent / f"all.{form}")
        assert "\n" not in error.value.message
        assert not (folder.parent / f"all.{form}").exists()
    with suppress(InputError):
        assert agecli.status(folder).rows()


def line_of(**changed: Any) -> bytes:
    return json.dumps({**ROW, **changed}).encode()


def test_a_part_that_is_as_it_should_be_is_merged(tmp_path: Path) -> None:
    write_plan(tmp_path / "run")
    write_part(tmp_path / "run", line_of(), line_of(source="b.jpg"))
    agecli.merge(tmp_path / "run", tmp_path / "all.csv")
    assert (tmp_path / "all.csv").read_text().count(".jpg") == 2
    assert invoke("merge", tmp_path / "run", "-o", tmp_path / "all.jsonl").exit_code == 0
    assert (tmp_path / "all.jsonl").read_bytes() == line_of() + b"\n" + line_of(source="b.jpg") + b"\n"


@pytest.mark.parametrize(
    "changed",
    [
        {"options": [1]},
        {"options": {"format": "/../../x"}},
        {"options": {"format": ["jsonl"]}},
        {"command": 3},
        {"arguments": "x"},
        {"arguments": [1]},
        {"base": None},
        {"inputs": -1},
        {"inputs": True},
        {"inputs": 10**400},
        {"schema": True},
        {"starts": [[0, 0], [2, "a"]]},
        {"starts": [[0, 0], [2, 16.5]]},
        {"starts": [[0, 0], [-2, 16]]},
        {"starts": [[0, 0], [1, 16]]},
        {"starts": [[0, 0], [3, 3], [2, 16]]},
        {"starts": {"0": 1, "1": 2}},
        {"starts": [[0, 0], "ab"]},
        {"sha256": float("nan")},
    ],
)
def test_a_plan_with_impossible_values_is_refused(tmp_path: Path, changed: dict[str, Any]) -> None:
    write_plan(tmp_path / "run", **changed)
    check_refused(tmp_path / "run", "is no plan of this version")


@pytest.mark.parametrize("text", ["[" * 100_000, '{"schema": ' + "[" * 100_000, "9" * 5000, "null", "\0", '"x"'])
def test_a_plan_that_is_no_object_is_refused(tmp_path: Path, text: str) -> None:
    write_plan(tmp_path / "run")
    (tmp_path / "run" / NAME).write_text(text)
    check_refused(tmp_path / "run", "is no plan of this version")


@pytest.mark.parametrize(
    "options", [{"colour": 1}, {"over": "x"}, {"every": []}, {"largest": 3}, {"readout": 3}, {"over_confidence": 7}]
)
def test_options_of_no_prediction_are_named(tmp_path: Path, options: dict[str, Any]) -> None:
    write_plan(tmp_path / "run", options=options)
    write_part(tmp_path / "run")
    with pytest.raises(InputError, match=r"plan\.json is damaged"):
        agecli.merge(tmp_path / "run", tmp_path / "all.csv")


@pytest.mark.parametrize(
    "changed",
    [
        {"inputs": "x"},
        {"inputs": 3},
        {"seconds": "a"},
        {"seconds": float("nan")},
        {"seconds": 1e308},
        {"seconds": -1},
        {"records": -1},
        {"records": "a"},
        {"records": 1.0},
        {"records": 10**30},
        {"failed": None},
        {"failed": True},
        {"bytes": "a"},
        {"shard": False},
        {"sha256": 3},
        {"sha256": "0" * 64},
        {"more": 1},
    ],
)
def test_a_footer_with_impossible_values_is_none(tmp_path: Path, changed: dict[str, Any]) -> None:
    write_plan(tmp_path / "run")
    write_part(tmp_path / "run", line_of(), line_of(source="b.jpg"), **changed)
    check_refused(tmp_path / "run", "damaged" if "sha256" in changed else "1 of 1 shards")


@pytest.mark.parametrize(
    "line",
    [
        b"hello",
        b"[1]",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"a": 1}',
        b"{}",
        b"null",
        "{}é".encode(),
        '{"a": 1}'.encode("utf-16-le"),
        line_of(schema=2),
        line_of(source=None),
        line_of(status="fine"),
        line_of(status=["ok"]),
        line_of(age="old"),
        line_of(age=float("nan")),
        line_of(age=10**400),
        line_of(low=True),
        line_of(box=[1, 2, 3]),
        line_of(box="abcd"),
        line_of(face=-1),
        line_of(error=3),
        line_of(colour="red"),
        line_of(shift=1.0),  # a field that the first record does not have
        json.dumps({name: ROW[name] for name in RECORD_COLUMNS[:-1]}).encode(),
    ],
)
def test_a_line_that_is_no_record_is_refused(tmp_path: Path, line: bytes) -> None:
    write_plan(tmp_path / "run")
    write_part(tmp_path / "run", line_of(), line)
    check_refused(tmp_path / "run", r"part-00000\.jsonl is damaged")


def test_a_pipe_or_a_folder_in_place_of_a_part_is_not_waited_for(tmp_path: Path) -> None:
    write_plan(tmp_path / "run")
    os.mkfifo(tmp_path / "run/part-00000.jsonl")
    os.mkfifo(tmp_path / "run/part-00000.error")
    check_refused(tmp_path / "run", "1 of 1 shards")
    (tmp_path / "run/part-00000.jsonl").unlink()
    (tmp_path / "run/part-00000.jsonl").mkdir()
    check_refused(tmp_path / "run", "1 of 1 shards")


CROPS = {"dataset": "folder", "detector": "auto", "no_detect": True, "all_faces": False, "pack": True}
CROPS |= {"size": 64, "eye_distance": 0.3, "eye_height": 0.3}
FACE = {"path": "faces/a.jpg", "detector": "", "bytes": 10, "offset": 512}


@pytest.mark.parametrize(
    "options", [{}, {**CROPS, "size": "x"}, {**CROPS, "pack": 1}, {**CROPS, "eye_height": None}, {**CROPS, "size": 0}]
)
def test_options_of_no_preprocessing_are_named(tmp_path: Path, options: dict[str, Any]) -> None:
    write_plan(tmp_path / "run", command="preprocess", options=options)
    with pytest.raises(InputError, match=r"plan\.json is damaged"):
        agecli.merge(tmp_path / "run")


@pytest.mark.parametrize(
    "line",
    [
        "hello",
        "[1]",
        "[" * 100_000,
        "{}",
        json.dumps({"source": "a.jpg", "faces": 3}),
        json.dumps({"source": "a.jpg", "faces": [{**FACE, "path": "../../etc/passwd"}]}),
        json.dumps({"source": "a.jpg", "faces": [{**FACE, "path": "faces/../../x"}]}),
        json.dumps({"source": "a.jpg", "faces": [{**FACE, "offset": -1}]}),
        json.dumps({"source": "a.jpg", "faces": [{**FACE, "bytes": 2**40}]}),
        json.dumps({"source": "a.jpg", "faces": [{**FACE, "bytes": "a"}]}),
    ],
)
def test_a_line_that_is_no_result_of_preprocessing_is_refused(tmp_path: Path, line: str) -> None:
    entries = b'{"source": "a.jpg"}\n' * 2
    starts = [[0, 0], [2, len(entries)]]
    write_plan(tmp_path / "run", command="preprocess", options=CROPS, starts=starts)
    (tmp_path / "run" / INPUTS).write_bytes(entries)
    write_part(tmp_path / "run", json.dumps({"source": "a.jpg", "faces": [FACE]}).encode(), line.encode())
    with pytest.raises(InputError, match=r"part-00000\.jsonl is damaged"):
        agecli.merge(tmp_path / "run")
    (tmp_path / "run" / INPUTS).write_bytes(b'["source", "a.jpg"]'.ljust(len(entries) - 1) + b"\n")
    with pytest.raises(InputError, match=r"plan\.inputs\.jsonl is damaged"):
        agecli.merge(tmp_path / "run")
