"""Worker processes: a `map` over several of them, with errors in plain words."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice
from typing import Any, TypeVar

import cv2

from agecli.core.errors import InputError

Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]


@contextmanager
def workers(count: int, chunk: int, advice: str) -> Iterator[Map]:
    """A `map` over that many processes, results in order; `advice` is what to do when one of them is killed."""
    if count == 1:
        yield map
        return
    pool = _pool(count)
    try:
        yield partial(pool.map, chunksize=chunk)
    except BrokenProcessPool as error:
        raise InputError("a worker was killed", hint=f"did memory run out? {advice}") from error
    finally:
        pool.shutdown(cancel_futures=True)


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _pool(count: int) -> ProcessPoolExecutor:
    """Processes that are no copies of this one: a copy of a process whose OpenCV or torch has threads can hang for ever."""
    if "forkserver" not in multiprocessing.get_all_start_methods():  # Windows
        return ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), _calm)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["agecli.images.crops"])  # the detectors are loaded once, for all workers
    return ProcessPoolExecutor(count, context, _calm)


def _calm() -> None:
    """A worker uses one thread, leaves Ctrl-C to its parent, and ends when that was killed."""
    cv2.setNumThreads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(1)


In = TypeVar("In")
Out = TypeVar("Out")
FEWER = 'did memory run out? Use fewer workers; a Python script needs `if __name__ == "__main__":` around its calls'
LOOK_EVERY = 3.0  # seconds
EACH = 4  # items that wait for each process
ALONE = 8  # items that are done here before other processes are started: for one photo they would only cost time


def as_done(
    function: Callable[[In], Out], items: Iterable[In], count: int, advice: str, look: Callable[[], None] = lambda: None
) -> Iterator[tuple[In, Out]]:
    """Each item with its result, as soon as it is there. No more than `count` are begun: a stop need not wait for others.

    Every few seconds there is a `look`: at what the processes have written so far.
    """
    left, begun = iter(items), dict[Future[Out], In]()
    pool = _pool(count)
    try:
        while True:
            begun |= {pool.submit(function, item): item for item in islice(left, count - len(begun))}
            if not begun:
                return
            for future in wait(begun, LOOK_EVERY, return_when=FIRST_COMPLETED).done:
                yield begun.pop(future), future.result()
            look()
    except BrokenProcessPool as error:
        raise InputError("a worker was killed", hint=f"did memory run out? {advice}") from error
    except BaseException:
        for child in multiprocessing.active_children():
            child.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def stream(function: Callable[[In], Out], items: Iterable[In], count: int, ahead: int = 32) -> Iterator[Out]:
    """The results in order, while `count` processes work ahead: memory does not grow with the number of items.

    At most `ahead` results wait, and a few items, which may be large, for each process.
    """
    left = iter(items)
    yield from map(function, left if count == 1 else islice(left, ALONE))
    first = list(islice(left, 1))
    if not first:
        return
    pool = _pool(count)
    waiting: deque[Future[Out]] = deque()
    try:
        for item in chain(first, left):
            waiting.append(pool.submit(function, item))
            while len(waiting) > ahead or sum(not result.done() for result in waiting) > EACH * count:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool as error:
        raise InputError("a worker was killed", hint=FEWER) from error
    finally:
        pool.shutdown(cancel_futures=True)
