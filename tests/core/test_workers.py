"""Isolated workers: results in order, without running ahead, and whatever an item does to its process."""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from agecli.core.errors import InputError
from agecli.core.worker_process import Limits, leaves_room
from agecli.core.workers import ALONE, Workers, open_workers, stream
from tests.conftest import two_seconds

LIMITS = Limits(memory=500_000_000, seconds=2.0)


def square(number: int) -> int:
    return number**2


def where(number: int) -> int:
    return os.getpid()


def large(number: int) -> bytes:
    return bytes(number * 100_000)


def shout(number: int) -> int:
    os.write(2, b"libtiff: noise\n")
    return number


def fail(number: int) -> int:
    if number == 5:
        raise ValueError("five")
    return number


def poison(name: str) -> str:
    """Do what the name of a poisonous photo says, as native code would."""
    match name.rstrip("0123456789"):
        case "segfault":
            ctypes.string_at(0)
        case "abort":
            os.abort()
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "exit":
            os._exit(7)
        case "hang":
            while True:
                ctypes.CDLL(None).sleep(1000)
        case "memory":
            return str(len(bytearray(10**9)))
    return name


def told(name: str, reason: str) -> str:
    return f"{name}: {reason}"


@pytest.mark.parametrize("limits", [None, LIMITS])
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("items", [0, 1, ALONE, 100])
def test_results_come_in_order(count: int, items: int, limits: Limits | None) -> None:
    with open_workers(count, limits) as workers:
        results = list(stream(square, range(items), workers, lambda item, reason: -1))
    assert results == [number**2 for number in range(items)]


def test_items_are_not_read_far_ahead() -> None:
    read = 0

    def names() -> Iterator[int]:
        nonlocal read
        for number in range(10_000):
            read += 1
            yield number

    with Workers(2) as workers:
        results = stream(square, names(), workers, lambda item, reason: -1, ahead=20)
        for _ in range(50):
            next(results)
        assert read <= 50 + 20 + 2


def test_one_process_answers_before_the_next_item_is_read() -> None:
    answered: list[int] = []

    def names() -> Iterator[int]:
        for number in range(5):
            assert len(answered) == number
            yield number

    with Workers(1, LIMITS) as workers:
        answered.extend(stream(square, names(), workers, lambda item, reason: -1))
    assert answered == [0, 1, 4, 9, 16]


class Unheard(Future[int]):
    """A future with its result, whose first callback the thread that sets the result has not called yet."""

    unheard: Callable[..., object] | None = None

    def add_done_callback(self, fn: Callable[[Future[int]], object]) -> None:
        if self.unheard:
            super().add_done_callback(fn)
        else:
            self.unheard = fn


def test_a_result_may_come_before_its_callback(monkeypatch: pytest.MonkeyPatch) -> None:
    def submit(function: Callable[[int], int], item: int) -> Future[int]:
        future = Unheard()
        future.set_result(function(item))
        return future

    with Workers(1, LIMITS) as workers:
        monkeypatch.setattr(workers, "submit", submit)
        assert list(stream(square, range(3), workers, lambda item, reason: -1)) == [0, 1, 4]


def test_without_limits_a_few_photos_need_no_other_process() -> None:
    with Workers(2) as workers:
        found = list(stream(where, range(40), workers, lambda item, reason: -1))
    assert set(found[:ALONE]) == {os.getpid()}
    assert os.getpid() not in found[ALONE:]


def test_what_kills_its_process_is_named_and_everything_else_has_its_result() -> None:
    names = [f"good{number}" for number in range(40)]
    reasons = {"segfault": "SIGSEGV", "abort": "SIGABRT", "kill": "SIGKILL", "exit": "code 7"}
    reasons |= {"hang": "--timeout 2 s", "memory": "--max-memory 0.5 GB"}
    for position, kind in enumerate(reasons):
        names.insert(3 + 7 * position, f"{kind}{position}")
    with Workers(2, LIMITS) as workers:
        results = list(stream(poison, names, workers, told))
    for name, result in zip(names, results, strict=True):
        reason = reasons.get(name.rstrip("0123456789"))
        assert (result == name) if reason is None else (result.startswith(f"{name}: ") and reason in result)


def test_only_poison_still_comes_to_an_end() -> None:
    with Workers(2, LIMITS) as workers:
        results = list(stream(poison, ["abort"] * 3, workers, told))
    assert results == ["abort: the process that read it was ended by SIGABRT"] * 3


def test_large_items_and_results_do_not_block_each_other() -> None:
    with Workers(2, LIMITS) as workers:
        lengths = [len(result) for result in stream(large, range(60), workers, lambda item, reason: b"")]
        echoed = list(stream(len, [bytes(3_000_000)] * 20, workers, lambda item, reason: -1))
    assert lengths == [number * 100_000 for number in range(60)]
    assert echoed == [3_000_000] * 20


def test_an_exception_is_raised_at_the_turn_of_its_item_with_its_traceback() -> None:
    with Workers(2, LIMITS) as workers:
        results = stream(fail, range(20), workers, lambda item, reason: -1)
        assert [next(results) for _ in range(5)] == list(range(5))
        with pytest.raises(ValueError, match="five") as caught:
            next(results)
    assert "in fail" in str(caught.value.__cause__)


def test_what_libraries_print_is_a_debug_message_with_the_name_of_the_item(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = logging.getLogger("agecli")  # without what a command line in this process has set
    monkeypatch.setattr(log, "handlers", [])
    monkeypatch.setattr(log, "propagate", True)
    with caplog.at_level("DEBUG", logger="agecli"), Workers(1, LIMITS) as workers:
        assert list(stream(shout, [7], workers, lambda item, reason: -1)) == [7]
    assert "7: libtiff: noise" in caplog.messages
    assert "noise" not in capfd.readouterr().err


def test_a_pool_is_closed_at_once_although_its_processes_are_stuck() -> None:
    with Workers(2, Limits(seconds=600)) as workers:
        futures = [workers.submit(poison, "hang") for _ in range(4)]
        time.sleep(1)
        began = time.monotonic()
    elapsed = time.monotonic() - began
    assert elapsed < two_seconds()
    assert all(future.cancelled() or future.running() for future in futures)


def test_processes_that_can_not_start_are_an_error() -> None:
    code = (
        "from tests.core.test_workers import square, LIMITS; from agecli.core.workers import Workers\n"
        "print(Workers(1, LIMITS).submit(square, 2).result())\n"  # without `if __name__ == "__main__"`
    )
    script = Path(os.environ["AGECLI_CACHE"]) / "unguarded.py"
    script.write_text(code)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "InputError: a worker process could not start" in done.stderr


def test_workers_end_when_their_parent_is_killed() -> None:
    code = (
        "import time; from tests.core.test_workers import where, LIMITS\n"
        "from agecli.core.workers import Workers, stream\n"
        "with Workers(2, LIMITS) as workers:\n"
        "    for pid in stream(where, iter(range(1000)), workers, lambda item, reason: -1, ahead=4):\n"
        "        print(pid, flush=True); time.sleep(0.05)\n"
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


def test_a_pool_that_can_not_start_raises_when_more_is_submitted() -> None:
    with Workers(1, LIMITS) as workers:
        workers.failure = InputError("broken")
        with pytest.raises(InputError, match="broken"):
            workers.submit(square, 1)


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are those of Linux")
def test_a_process_with_much_memory_is_not_forked_into_a_limit() -> None:
    assert leaves_room(Limits())
    assert leaves_room(Limits(memory=10**12))
    assert not leaves_room(Limits(memory=10**7))


def test_submitting_never_waits_for_the_manager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when there are more items than a pipe has room for messages, about 16,000."""
    done: list[int] = []
    submitted = threading.Event()
    send_jobs = Workers._send_jobs

    def stalled(self: Workers) -> None:
        submitted.wait(60)
        send_jobs(self)

    monkeypatch.setattr(Workers, "_send_jobs", stalled)

    def submit_all() -> None:
        with Workers(1) as workers:
            futures = [workers.submit(square, number) for number in range(40_000)]
            submitted.set()
            done.extend(future.result() for future in futures[:3])

    thread = threading.Thread(target=submit_all, daemon=True)
    thread.start()
    thread.join(30)
    assert done == [0, 1, 4]


def test_a_closed_pool_says_so() -> None:
    workers = Workers(1)
    assert workers.submit(square, 3).result() == 9
    workers.close()
    with pytest.raises(RuntimeError, match="closed"):
        workers.submit(square, 3)
    workers.close()
