"""Worker processes: a `map` over several of them, with errors in plain words."""

from __future__ import annotations

import multiprocessing
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from typing import Any

import cv2

from agecli.errors import InputError

Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]


@contextmanager
def workers(count: int, chunk: int, advice: str) -> Iterator[Map]:
    """A `map` over that many processes, results in order; `advice` is what to do when one of them is killed."""
    if count == 1:
        yield map
        return
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    pool = ProcessPoolExecutor(count, context, _calm)
    try:
        yield partial(pool.map, chunksize=chunk)
    except BrokenProcessPool as error:
        raise InputError("a worker was killed", hint=f"did memory run out? {advice}") from error
    finally:
        pool.shutdown(cancel_futures=True)


def _calm() -> None:
    """A worker uses one thread, and leaves Ctrl-C to its parent."""
    cv2.setNumThreads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
