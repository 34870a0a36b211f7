"""Graceful shutdown: SIGINT and SIGTERM set a flag, which the work checks where it is safe to stop."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

log = logging.getLogger("agecli")


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
    before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield flag
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)
