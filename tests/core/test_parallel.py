"""Work in several processes: in order, without running ahead, and with plain words when one of them dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agecli.core.errors import InputError
from agecli.core.parallel import ALONE, process_map, stream


def square(number: int) -> int:
    return number**2


def where(number: int) -> int:
    return os.getpid()


def die(number: int) -> int:
    if number > ALONE:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("items", [0, 1, ALONE, 100])
def test_results_come_in_order(count: int, items: int) -> None:
    assert list(stream(square, range(items), count)) == [number**2 for number in range(items)]


def test_items_are_not_read_far_ahead() -> None:
    read = 0

    def names() -> Iterator[int]:
        nonlocal read
        for number in range(10_000):
            read += 1
            yield number

    results = stream(square, names(), 2, ahead=20)
    for _ in range(50):
        next(results)
    assert read <= 50 + 20 + 2
    results.close()  # type: ignore[attr-defined]


def test_a_few_photos_need_no_other_process() -> None:
    assert set(stream(where, range(ALONE), 2)) == {os.getpid()}
    assert os.getpid() not in set(list(stream(where, range(40), 2))[ALONE:])


def test_workers_end_when_their_parent_is_killed() -> None:
    code = (
        "import sys, time; from tests.core.test_parallel import where; from agecli.core.parallel import stream\n"
        "for pid in stream(where, iter(range(1000)), 2, ahead=4):\n"
        "    print(pid, flush=True); time.sleep(0.05)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    seen = {int(parent.stdout.readline()) for _ in range(ALONE + 20)} - {parent.pid}
    assert seen
    parent.kill()
    parent.wait(timeout=30)
    parent.stdout.close()
    deadline = time.monotonic() + 30
    while any(Path(f"/proc/{pid}").exists() for pid in seen) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not [pid for pid in seen if Path(f"/proc/{pid}").exists()]


def test_a_worker_that_is_killed_is_said() -> None:
    with pytest.raises(InputError, match="a worker was killed"):
        list(stream(die, range(40), 2))
    with pytest.raises(InputError, match="a worker was killed"), process_map(2, 1, "Go on.") as run:
        list(run(die, range(40)))
