"""Graceful shutdown: SIGINT and SIGTERM set a flag, which the work checks where it is safe to stop, or are deferred."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

log = logging.getLogger("agecli")
NUMBERS = (signal.SIGINT, signal.SIGTERM)


class _FlagSetter:
    """A signal handler: the first signal sets the flag, the second raises KeyboardInterrupt."""

    def __init__(self, flag: threading.Event) -> None:
        self.flag = flag

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.flag.is_set():
            raise KeyboardInterrupt
        self.flag.set()
        log.warning("stopping after the next save; interrupt again to stop at once")


@contextmanager
def stop_flag() -> Iterator[threading.Event]:
    """A flag that SIGINT or SIGTERM sets during the `with` block; a second signal raises KeyboardInterrupt.

    Outside the main thread, where Python does not allow signal handlers, the flag is never set.

        with stop_flag() as stop:
            while not stop.is_set():
                step()
    """
    flag = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield flag
        return
    handler = _FlagSetter(flag)
    before = {number: signal.signal(number, handler) for number in NUMBERS}
    try:
        yield flag
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)


@contextmanager
def deferred_signals() -> Iterator[None]:
    """SIGINT and SIGTERM during the `with` block are handled after it. Processes started in it have them blocked.

    The signal mask is for these processes, which inherit it. It is not enough for this one: a signal can arrive in
    another thread, and Python then calls the handler in the main thread.

        with deferred_signals():
            process.start()
    """
    received: list[int] = []
    in_main = threading.current_thread() is threading.main_thread()  # only there are handlers called, and can be set
    before = {number: signal.getsignal(number) for number in NUMBERS} if in_main else {}
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ()) if hasattr(signal, "pthread_sigmask") else None
    try:
        for number in before:
            signal.signal(number, lambda number, frame: received.append(number))
        if blocked is not None:
            signal.pthread_sigmask(signal.SIG_BLOCK, NUMBERS)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if blocked is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        for deferred in received:
            signal.raise_signal(deferred)


def unblock_signals() -> None:
    """Receive SIGINT and SIGTERM again, in a process that was started with `deferred_signals`."""
    if hasattr(signal, "pthread_sigmask"):  # not on Windows
        signal.pthread_sigmask(signal.SIG_UNBLOCK, NUMBERS)
