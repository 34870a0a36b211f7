"""Graceful shutdown: SIGINT and SIGTERM raise KeyboardInterrupt, set a flag that the work checks, or are deferred."""

from __future__ import annotations

import logging
import math
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any

log = logging.getLogger("agecli")
NUMBERS = (signal.SIGINT, signal.SIGTERM)
OBEYED_WITHIN = 1.5  # seconds for Python to handle a signal; it can't while the main thread is in native code
ENDED_WITHIN = 20.0  # seconds for the command to end after KeyboardInterrupt; closing a cluster may take 12
PAUSE_STEP = 0.1  # seconds between two looks at `deadline_paused`
EXIT_CODE = 130  # of errors.Interrupted
_handled: SimpleQueue[int] = SimpleQueue()  # signals that raised KeyboardInterrupt; handlers may interrupt its `put`
_watchdog: threading.Thread | None = None
_paused = False  # in `deadline_paused`


def obey_signals() -> None:
    """In the process of the command line: SIGTERM is handled as SIGINT, and both end it whatever native code is doing.

    Both raise KeyboardInterrupt, so that temporary files are removed. If the main thread does not get to it within
    OBEYED_WITHIN seconds, or has not ended ENDED_WITHIN seconds later (it waits for a thread that never ends, or a library
    has caught KeyboardInterrupt), the process exits with 130. Worker processes end with it, and journals are always resumable.
    """
    global _watchdog
    for number in NUMBERS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as in a background job
            signal.signal(number, _interrupt)
    if sys.platform == "win32":
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)  # gets the number of each signal at once
    _watchdog = threading.Thread(target=_watch, args=(reader,), name="agecli-signals", daemon=True)
    _watchdog.start()


def only_command_line_threads() -> bool:
    """Whether this is the process of the command line, and Python has started no thread in it but that for signals."""
    return _watchdog is not None and set(threading.enumerate()) == {threading.main_thread(), _watchdog}


def _interrupt(number: int, frame: FrameType | None) -> None:
    """The signal handler of the command line."""
    _handled.put(number)
    raise KeyboardInterrupt


def _watch(reader: int) -> None:
    """Exit if a signal was received and the main thread does not handle it, or end after it. A `stop_flag` may take its time."""
    number = _received(reader)
    while number is not None:
        if isinstance(_handler(number), _FlagSetter):
            number = _received(reader)
            continue
        try:
            _handled.get(timeout=OBEYED_WITHIN)
        except Empty:
            break
        number = _received(reader, ENDED_WITHIN)
    os.write(2, b"error: interrupted\n hint: continue with --resume, if there is an --output\n")
    os._exit(EXIT_CODE)


def _received(reader: int, left: float = math.inf) -> int | None:
    """Wait for one of NUMBERS; None after `left` seconds, in which `deadline_paused` is not counted."""
    while left > 0:
        began = time.monotonic()
        if select.select([reader], [], [], None if math.isinf(left) else min(left, PAUSE_STEP))[0]:
            number = os.read(reader, 1)[0]
            if number in NUMBERS:
                return number
        if not _paused:
            left -= time.monotonic() - began
    return None


@contextmanager
def deadline_paused() -> Iterator[None]:
    """Time in the `with` block does not count as ENDED_WITHIN: processes that save before they end are waited for.

    They would be killed with this process. A second signal still ends it, within OBEYED_WITHIN if signals are deferred.

        with deadline_paused():
            pool.shutdown()
    """
    global _paused
    _paused = True
    try:
        yield
    finally:
        _paused = False


def _handler(number: int) -> Any:
    """The handler of a signal; while the signal is deferred, the one that it is deferred for."""
    handler = signal.getsignal(number)
    while isinstance(handler, _Deferrer):
        handler = handler.before[number]
    return handler


class _Deferrer:
    """A signal handler: keeps the signals for the handlers `before`, by their numbers."""

    def __init__(self, before: dict[int, Any]) -> None:
        self.before, self.received = before, list[int]()

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.received.append(number)


class _FlagSetter:
    """A signal handler: the first signal sets the flag, the second raises KeyboardInterrupt."""

    def __init__(self, flag: threading.Event, message: str) -> None:
        self.flag, self.message = flag, message

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.flag.is_set():
            raise KeyboardInterrupt
        self.flag.set()
        log.warning("%s; interrupt again to stop at once", self.message)


@contextmanager
def stop_flag(message: str = "stopping after the next save") -> Iterator[threading.Event]:
    """A flag that SIGINT or SIGTERM sets during the `with` block; a second signal raises KeyboardInterrupt.

    message: what the first signal prints.
    Outside the main thread, where Python does not allow signal handlers, the flag is never set.

        with stop_flag() as stop:
            while not stop.is_set():
                step()
    """
    flag = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield flag
        return
    handler = _FlagSetter(flag, message)
    before: dict[int, Any] = {number: signal.signal(number, handler) for number in NUMBERS}
    try:
        yield flag
    finally:
        _restore(before)


def _restore(handlers: dict[int, Any]) -> None:
    """Set signal handlers again. If the first one raises KeyboardInterrupt at once, the others are set all the same."""
    try:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


@contextmanager
def deferred_signals() -> Iterator[None]:
    """SIGINT and SIGTERM during the `with` block are handled after it. Processes started in it have them blocked.

    The signal mask is for these processes, which inherit it. It is not enough for this one: a signal can arrive in
    another thread, and Python then calls the handler in the main thread.

        with deferred_signals():
            process.start()
    """
    in_main = threading.current_thread() is threading.main_thread()  # only there are handlers called, and can be set
    before: dict[int, Any] = {number: signal.getsignal(number) for number in NUMBERS} if in_main else {}
    deferrer = _Deferrer(before)
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ()) if hasattr(signal, "pthread_sigmask") else None
    try:
        for number in before:
            signal.signal(number, deferrer)
        if blocked is not None:
            signal.pthread_sigmask(signal.SIG_BLOCK, NUMBERS)
        yield
    finally:
        if blocked is not None:  # before the handlers, one of which may raise KeyboardInterrupt here
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        _restore(before)
        for deferred in deferrer.received:
            handler = before[deferred]
            if callable(handler):
                handler(deferred, None)  # not raised again: to `_watch`, that would be a second signal
            else:
                signal.raise_signal(deferred)


def unblock_signals() -> None:
    """Receive SIGINT and SIGTERM again, in a process that was started with `deferred_signals`."""
    if hasattr(signal, "pthread_sigmask"):  # not on Windows
        signal.pthread_sigmask(signal.SIG_UNBLOCK, NUMBERS)
