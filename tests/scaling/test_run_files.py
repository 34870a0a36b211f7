"""No output of a command replaces the plan, the list or a part of a sharded run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import agecli
from agecli.core.errors import InputError
from agecli.core.records import Record
from agecli.scaling.parts import Tally, do_shard
from agecli.scaling.plan import Request, make_plan
from agecli.scaling.run_files import INPUTS, NAME, check_not_of_run
from tests.conftest import invoke

EXAMPLE = Path(__file__).parent.parent.parent / "docs/example.jpg"


def records(number: int, entries: Iterator[Any], tally: Tally) -> Iterator[bytes]:
    return (json.dumps(Record(entry, "unreadable").row()).encode() + b"\n" for entry in entries)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a finished run."""
    wanted = Request("predict", {"model": "x", "videos": True}, ["x"], "/", shards=2)
    plan = make_plan(tmp_path / "run", wanted, lambda: ["a.jpg", "b.jpg", "c.jpg"], True)
    for number in range(2):
        do_shard(tmp_path / "run", plan, number, records)
    return tmp_path / "run"


@pytest.mark.parametrize("name", [NAME, INPUTS, "part-00001.jsonl"])
@pytest.mark.parametrize("force", [(), ("--force",)])
def test_files_of_the_run_are_never_replaced(folder: Path, name: str, force: tuple[str, ...]) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    (folder.parent / "link.jsonl").symlink_to(folder / name)
    for output in (folder / name, folder.parent / "link.jsonl"):
        for command in (
            ("merge", folder),
            ("status", folder, "-f", "csv"),
            ("predict", EXAMPLE, "--no-detect"),
        ):
            done = invoke(*command, "-o", output, *force)
            assert done.exit_code == 2, command
            assert "is not replaced" in done.stderr or "exists" in done.stderr
        with pytest.raises(InputError, match="is a file of the run"):
            agecli.merge(folder, output, force=True)
        with pytest.raises(InputError, match="is a file of the run"):
            agecli.predict(EXAMPLE, no_detect=True).save(output, force=True)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_other_files_in_the_folder_and_the_same_names_elsewhere_are_written(folder: Path) -> None:
    for output in (folder / "all.jsonl", folder.parent / "part-00001.jsonl"):
        agecli.merge(folder, output)
        agecli.merge(folder, output)
        assert output.read_text().count("unreadable") == 3
    (folder.parent / NAME).write_text("mine")
    check_not_of_run(folder.parent / NAME)
