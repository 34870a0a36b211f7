"""A polite stop: SIGINT and SIGTERM set a flag, and whoever works looks at it when it is safe to stop."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

log = logging.getLogger("agecli")


@contextmanager
def stop_flag() -> Iterator[threading.Event]:
    """A flag that the first signal sets; a second one stops at once. Python allows this in the main thread only."""
    flag = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield flag
        return

    def ask(number: int, frame: FrameType | None) -> None:
        if flag.is_set():
            raise KeyboardInterrupt
        flag.set()
        log.warning("stopping as soon as all is saved; once more to stop at once")

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield flag
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
