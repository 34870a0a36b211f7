"""Worker processes: ordered maps, streams and results as they complete, with a clear error when a worker is killed."""

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
from typing import Any, ParamSpec, TypeVar

import cv2

from agecli.core.errors import InputError
from agecli.core.signals import deferred_signals, unblock_signals

Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
In = TypeVar("In")
Out = TypeVar("Out")
Arguments = ParamSpec("Arguments")
FEWER_WORKERS = 'Use fewer workers; a Python script needs `if __name__ == "__main__":` around its calls'
POLL_EVERY = 3.0  # seconds
QUEUED_PER_PROCESS = 4  # items
ALONE = 8  # items done in this process before others are started: for a few photos, starting processes costs more


def cores() -> int:
    """The number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check_workers(count: int) -> None:
    """Raises InputError for a number of processes below 1."""
    if count < 1:
        raise InputError(f"--workers {count} is too small", hint="--workers must be at least 1")


@contextmanager
def process_map(count: int, chunk: int, advice: str) -> Iterator[Map]:
    """A `map` over `count` processes, for the length of a `with` block; the results come in the order of the items.

    count: number of processes; 1 runs in this process.
    chunk: items sent to a process at a time.
    advice: what the user should do if a process is killed, for the error message.

    Raises InputError if a process is killed. Functions and items must be picklable.

        with process_map(4, chunk=16, advice="Use fewer --workers") as run:
            sizes = list(run(os.path.getsize, names))
    """
    if count == 1:
        yield map
        return
    pool = _pool(count)
    try:
        yield partial(pool.map, chunksize=chunk)
    except BrokenProcessPool as error:
        raise _killed(advice) from error
    finally:
        pool.shutdown(cancel_futures=True)


def stream(function: Callable[[In], Out], items: Iterable[In], count: int, ahead: int = 32) -> Iterator[Out]:
    """The results in the order of the items, while `count` processes work ahead; memory does not grow with the items.

    At most `ahead` results are kept, and a few items, which may be large, per process. The first items are done in this
    process. Raises InputError if a process is killed.

        for faces in stream(find, names, count=4): ...
    """
    remaining = iter(items)
    yield from map(function, remaining if count == 1 else islice(remaining, ALONE))
    first = list(islice(remaining, 1))
    if not first:
        return
    pool = _pool(count)
    queue: deque[Future[Out]] = deque()
    try:
        for item in chain(first, remaining):
            queue.append(pool.submit(function, item))
            while len(queue) > ahead or sum(not future.done() for future in queue) > QUEUED_PER_PROCESS * count:
                yield queue.popleft().result()
        while queue:
            yield queue.popleft().result()
    except BrokenProcessPool as error:
        raise _killed(FEWER_WORKERS) from error
    finally:
        pool.shutdown(cancel_futures=True)


def as_done(
    function: Callable[[In], Out],
    items: Iterable[In],
    count: int,
    advice: str,
    poll: Callable[[], None] = lambda: None,
) -> Iterator[tuple[In, Out]]:
    """Each item with its result, in the order of completion.

    At most `count` items are started, so an interrupt does not wait for queued ones; it terminates the processes.
    `poll` is called every few seconds, to show what the processes have written so far. Raises InputError with `advice`
    if a process is killed.
    """
    remaining, running = iter(items), dict[Future[Out], In]()
    pool = _pool(count)
    try:
        while True:
            running |= {pool.submit(function, item): item for item in islice(remaining, count - len(running))}
            if not running:
                return
            for future in wait(running, POLL_EVERY, return_when=FIRST_COMPLETED).done:
                yield running.pop(future), future.result()
            poll()
    except BrokenProcessPool as error:
        raise _killed(advice) from error
    except BaseException:
        for child in multiprocessing.active_children():
            child.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _killed(advice: str) -> InputError:
    """The error for the user when the operating system killed a worker, usually for lack of memory."""
    return InputError("a worker was killed", hint=f"did memory run out? {advice}")


class _Pool(ProcessPoolExecutor):
    """A pool whose `submit`, which starts the processes, and `shutdown`, which waits for them, are not interrupted.

    An interrupted `submit` leaves a process that `shutdown` does not wait for, and its semaphores are removed before it
    opens them. After an interrupted `shutdown`, this process can wait for its workers forever.
    """

    def submit(
        self, function: Callable[Arguments, Out], /, *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Future[Out]:
        """As in the base class; SIGINT and SIGTERM are handled afterwards."""
        with deferred_signals():
            return super().submit(function, *args, **kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """As in the base class; SIGINT and SIGTERM are handled afterwards."""
        with deferred_signals():
            super().shutdown(wait, cancel_futures=cancel_futures)


def _pool(count: int) -> ProcessPoolExecutor:
    """Processes that are not forks of this one: forking a process whose OpenCV or torch has threads can deadlock."""
    if "forkserver" not in multiprocessing.get_all_start_methods():  # Windows
        return _Pool(count, multiprocessing.get_context("spawn"), _start_worker)
    context = multiprocessing.get_context("forkserver")
    # the detectors are loaded once, for all workers
    context.set_forkserver_preload(["agecli.images.crops", "agecli.core.forkserver"])
    return _Pool(count, context, _start_worker)


def _start_worker() -> None:
    """A worker uses one thread, leaves Ctrl-C to its parent, and exits when the parent was killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    unblock_signals()
    cv2.setNumThreads(1)
    threading.Thread(target=_exit_with_parent, daemon=True).start()


def _exit_with_parent() -> None:
    """Wait for the end of the parent process, and end this one."""
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(1)
