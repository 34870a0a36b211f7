"""Parts: whole or not there, made once, and nothing of them is left by errors, full disks and kills."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agecli.core.errors import DiskFullError, InputError
from agecli.scaling.engines import Progress, run_here
from agecli.scaling.parts import Footer, Tally, clean, do_shard, part_path, read_footer, read_part
from agecli.scaling.plan import Plan, Request, make_plan
from agecli.scaling.run_files import INPUTS, NAME
from agecli.scaling.state import check_complete, status


@pytest.fixture(params=["jsonl", "parquet"])
def plan(tmp_path: Path, request: pytest.FixtureRequest) -> Plan:
    options = {} if request.param == "jsonl" else {"format": request.param}
    wanted = Request("predict", options, ["x"], "/", shards=3)
    return make_plan(tmp_path, wanted, lambda: [f"{n}.jpg" for n in range(8)], True)


def part(folder: Path, plan: Plan, number: int) -> Path:
    return folder / part_path(folder, plan, number).name


def lines(number: int, entries: Iterator[Any], tally: Tally) -> Iterator[bytes]:
    for entry in entries:
        tally.failed += entry == "3.jpg"
        yield f'{{"source": "{entry}"}}\n'.encode()


def broken(number: int, entries: Iterator[Any], tally: Tally) -> Iterator[bytes]:
    yield b'{"source": "0.jpg"}\n'
    raise RuntimeError("no such luck")


def never(number: int, entries: Iterator[Any], tally: Tally) -> Iterator[bytes]:
    raise AssertionError


def do(folder: Path, plan: Plan, number: int) -> Footer:
    footer = do_shard(folder, plan, number, lines)
    assert footer is not None
    return footer


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_part_is_made_once_and_read_as_it_was_written(tmp_path: Path, plan: Plan) -> None:
    footer = do(tmp_path, plan, 1)
    assert (footer.inputs, footer.failed, footer.records) == (3, 1, 3)
    assert do_shard(tmp_path, plan, 1, never) == footer
    assert b"".join(read_part(tmp_path, plan, 1)).count(b"\n") == 3
    assert names(tmp_path) == {NAME, INPUTS, part(tmp_path, plan, 1).name}


@pytest.mark.parametrize("keep", [0, 1, 40, -1, -2])
def test_a_truncated_part_is_not_done_and_is_made_again(tmp_path: Path, plan: Plan, keep: int) -> None:
    do(tmp_path, plan, 1)
    path = part(tmp_path, plan, 1)
    whole = path.read_bytes()
    path.write_bytes(whole[:keep])
    assert read_footer(tmp_path, plan, 1) is None
    assert status(tmp_path).failed == ((1, "its part is damaged"),)
    with pytest.raises(InputError, match="3 of 3 shards are missing"):
        check_complete(tmp_path, plan, "predict")
    do(tmp_path, plan, 1)
    assert path.read_bytes() == whole


def test_lines_that_were_lost_or_changed_before_the_footer_are_found(tmp_path: Path, plan: Plan) -> None:
    do(tmp_path, plan, 1)
    path = part(tmp_path, plan, 1)
    whole = path.read_bytes()
    path.write_bytes(whole[10:])
    assert read_footer(tmp_path, plan, 1) is None
    path.write_bytes(whole + b"\n")
    assert read_footer(tmp_path, plan, 1) is None
    path.write_bytes(whole[:20] + bytes([whole[20] ^ 1]) + whole[21:])
    assert read_footer(tmp_path, plan, 1)
    with pytest.raises(InputError, match="is damaged"):
        list(read_part(tmp_path, plan, 1))


def test_the_part_of_another_plan_or_shard_is_not_taken(tmp_path: Path, plan: Plan) -> None:
    do(tmp_path, plan, 1)
    part(tmp_path, plan, 1).rename(part(tmp_path, plan, 2))
    assert read_footer(tmp_path, plan, 2) is None
    other = make_plan(tmp_path / "b", Request("predict", {"a": 1}, ["x"], "/", shards=3), lambda: ["a"] * 8, True)
    assert read_footer(tmp_path, other, 2) is None


def test_an_error_leaves_no_part_and_its_reason_until_the_shard_is_done(tmp_path: Path, plan: Plan) -> None:
    with pytest.raises(RuntimeError):
        do_shard(tmp_path, plan, 0, broken)
    assert names(tmp_path) == {NAME, INPUTS, "part-00000.error"}
    assert status(tmp_path).failed == ((0, "RuntimeError: no such luck"),)
    do(tmp_path, plan, 0)
    assert names(tmp_path) == {NAME, INPUTS, part(tmp_path, plan, 0).name}


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the device of a full disk is Linux's")
def test_a_full_disk_is_one_error_and_leaves_nothing(
    tmp_path: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Path.open

    def full(path: Path, mode: str = "r", **more: Any) -> Any:
        return opened(Path("/dev/full") if mode == "wb" else path, mode, **more)

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(DiskFullError, match=r"part-00000\.(jsonl|parquet) can't be written: no space left"):
        do_shard(tmp_path, plan, 0, lines)
    monkeypatch.undo()
    assert names(tmp_path) - {"part-00000.error"} == {NAME, INPUTS}
    do(tmp_path, plan, 0)


def test_two_processes_on_one_shard_make_it_once(tmp_path: Path, plan: Plan) -> None:
    began, go_on, made = threading.Event(), threading.Event(), []

    def slow(number: int, entries: Iterator[Any], tally: Tally) -> Iterator[bytes]:
        made.append(number)
        began.set()
        go_on.wait(60)
        yield from lines(number, entries, tally)

    first = threading.Thread(target=do_shard, args=(tmp_path, plan, 0, slow))
    first.start()
    assert began.wait(60)
    assert do_shard(tmp_path, plan, 0, never) is None
    assert status(tmp_path).running == (0,)
    results: list[Progress] = []
    second = threading.Thread(
        target=lambda: results.append(run_here(tmp_path, plan, [0, 1], slow, lambda progress: None))
    )
    second.start()
    go_on.set()
    first.join(60)
    second.join(60)
    assert results == [Progress(2, 5, 1)]
    assert sorted(made) == [0, 1]  # shard 0 was waited for
    assert names(tmp_path) == {NAME, INPUTS, part(tmp_path, plan, 0).name, part(tmp_path, plan, 1).name}


KILLED = """
import os, signal, sys
from pathlib import Path
from agecli.scaling.parts import do_shard
from agecli.scaling.plan import read_plan
folder = Path(sys.argv[1])
def work(number, entries, tally):
    yield b'{"source": "0.jpg"}\\n'
    os.kill(os.getpid(), signal.SIGKILL)
do_shard(folder, read_plan(folder), 0, work)
"""


def test_what_a_killed_process_left_blocks_nobody_and_is_removed(tmp_path: Path, plan: Plan) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], timeout=60)
    assert done.returncode == -signal.SIGKILL
    left = names(tmp_path) - {NAME, INPUTS}
    assert len(left) == 2  # a lock and a temporary file
    assert status(tmp_path).running == ()
    do(tmp_path, plan, 0)
    clean(tmp_path)
    assert names(tmp_path) == {NAME, INPUTS, part(tmp_path, plan, 0).name}


def test_cleaning_leaves_what_others_hold_and_what_is_not_ours(tmp_path: Path, plan: Plan) -> None:
    ours = [".part-00007.jsonl.agecli-abcdefgh.part", ".plan.json.agecli-abcdefgh.part"]
    others = [".x.agecli-abcdefgh.part", ".part-7.jsonl.agecli-abcdefgh.part", "notes.txt"]
    for name in ours + others:
        (tmp_path / name).touch()

    def cleaning(number: int, entries: Iterator[Any], tally: Tally) -> Iterator[bytes]:
        clean(tmp_path)
        assert any(name.startswith(f".{part(tmp_path, plan, 0).name}.agecli-") for name in names(tmp_path))
        yield b'{"source": "0.jpg"}\n'

    assert do_shard(tmp_path, plan, 0, cleaning)
    assert names(tmp_path) == {NAME, INPUTS, part(tmp_path, plan, 0).name, *others}


def test_the_state_counts_shards_and_inputs(tmp_path: Path, plan: Plan) -> None:
    do(tmp_path, plan, 1)
    state = status(tmp_path)
    assert (state.done, state.missing, state.inputs, state.inputs_failed) == (1, (0, 2), 3, 1)
    assert state.rate
    assert state.seconds_left == pytest.approx(5 / state.rate)
    with pytest.raises(InputError) as error:
        check_complete(tmp_path, plan, "predict")
    assert "--array=0,2" in error.value.hint
