"""Waiting for futures: wherever an interrupt strikes in the main thread, no other thread waits for a lock forever."""

from __future__ import annotations

import dis
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

import pytest

from agecli.core.futures import result, results, when_done
from agecli.core.worker_process import Limits
from agecli.core.workers import Workers, stream

FILES = ("threading.py", "_base.py", "thread.py", "futures.py", "workers.py", "connection.py")
CHECKED = ("CALL", "RESUME", "JUMP_BACKWARD")  # instructions after which Python calls signal handlers, as of 3.11
DEADLINE = 30.0  # seconds

needs_instructions = pytest.mark.skipif(sys.version_info < (3, 11), reason="these are the instructions of Python 3.11")


def square(number: int) -> int:
    return number**2


def handler_offsets(code: CodeType) -> set[int]:
    """Offsets of the instructions of a function before which a signal handler can be called."""
    found, previous = set(), ""
    for instruction in dis.get_instructions(code):
        if previous.startswith(CHECKED):
            found.add(instruction.offset)
        previous = instruction.opname
    return found


@contextmanager
def interrupted_at(number: int) -> Iterator[None]:
    """SIGINT before an instruction: number 0 is the first one where Python calls handlers in the `with` block."""
    left, offsets = [number], dict[CodeType, set[int]]()

    def local(frame: FrameType, event: str, argument: object) -> Any:
        if event == "opcode" and frame.f_lasti in offsets[frame.f_code]:
            left[0] -= 1
            if left[0] == -1:
                sys.settrace(None)
                signal.raise_signal(signal.SIGINT)
        return local

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        if not frame.f_code.co_filename.endswith(FILES):
            return None
        if frame.f_code not in offsets:
            offsets[frame.f_code] = handler_offsets(frame.f_code)
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return local

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    tracing = sys.gettrace()
    try:
        sys._getframe().f_trace_opcodes = True  # Python 3.12 reports instructions if it finds this when tracing starts
        sys.settrace(trace)
        yield
    finally:
        sys.settrace(tracing)
        signal.signal(signal.SIGINT, before)


def interrupts(work: Callable[[], object]) -> Iterator[int]:
    """Do some work again and again, interrupted at each instruction in turn, until it is complete. Numbers of instructions."""
    number = 0
    while True:
        try:
            with interrupted_at(number):
                work()
        except KeyboardInterrupt:
            yield number
            number += 1
        else:
            return


def ends(work: Callable[[], object]) -> bool:
    """Whether some work comes to its end, in another thread."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(DEADLINE)
    return not thread.is_alive()


@needs_instructions
@pytest.mark.parametrize("wait", [result, lambda future: when_done(future, print)], ids=["result", "when_done"])
def test_an_interrupted_wait_leaves_the_lock_of_the_future_open(wait: Callable[[Future[int]], object]) -> None:
    future = Future[int]()
    future.set_result(1)
    numbers = []
    for number in interrupts(lambda: wait(future)):
        assert ends(future.done), number
        numbers.append(number)
    assert numbers


@needs_instructions
def test_a_pool_of_threads_ends_after_an_interrupt_anywhere() -> None:
    pools = [ThreadPoolExecutor(2)]
    for number in interrupts(lambda: results(pools[-1], square, range(2))):
        assert ends(pools[-1].shutdown), number
        pools.append(ThreadPoolExecutor(2))
    assert len(pools) > 1
    assert ends(pools[-1].shutdown)


@needs_instructions
def test_a_pool_of_processes_works_after_an_interrupt_anywhere() -> None:
    workers, numbers = Workers(1, Limits(seconds=DEADLINE)), []
    for number in interrupts(lambda: list(stream(square, range(3), workers, lambda item, reason: -1))):
        assert ends(lambda: workers.submit(square, 2).result()), number
        numbers.append(number)
    assert numbers
    assert ends(workers.close)


def test_an_error_is_raised_and_cancels_what_has_not_begun() -> None:
    begun, stop = [], threading.Event()

    def fail(number: int) -> None:
        begun.append(number)
        if number == 0:
            raise ValueError("zero")
        stop.wait(DEADLINE)

    with ThreadPoolExecutor(1) as pool:
        with pytest.raises(ValueError, match="zero"):
            results(pool, fail, range(100))
        stop.set()
    assert len(begun) < 100


def test_what_was_submitted_before_an_error_is_cancelled() -> None:
    begun, stop = [], threading.Event()

    def wait(number: int) -> None:
        begun.append(number)
        stop.wait(DEADLINE)

    def numbers() -> Iterator[int]:
        yield from range(3)
        raise ValueError("three")

    with ThreadPoolExecutor(1) as pool:
        with pytest.raises(ValueError, match="three"):
            results(pool, wait, numbers())
        stop.set()
    assert len(begun) < 2
