"""Long jobs in several processes: results as they complete, with a clear error when a process is killed."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from queue import Empty, SimpleQueue
from typing import ParamSpec, TypeVar

from agecli.core.errors import InputError
from agecli.core.futures import result, when_done
from agecli.core.signals import deadline_paused, deferred_signals
from agecli.core.worker_process import start_context, start_worker

In = TypeVar("In")
Out = TypeVar("Out")
Arguments = ParamSpec("Arguments")
POLL_EVERY = 3.0  # seconds


def cores() -> int:
    """The number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check_workers(count: int) -> None:
    """Raises InputError for a number of processes below 1."""
    if count < 1:
        raise InputError(f"--workers {count} is too small", hint="--workers must be at least 1")


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
    done: SimpleQueue[Future[Out]] = SimpleQueue()
    pool = _Pool(count, start_context(), start_worker)
    try:
        while True:
            for item in islice(remaining, count - len(running)):
                future = pool.submit(function, item)
                running[future] = item
                when_done(future, done.put)
            if not running:
                return
            try:
                future = done.get(timeout=POLL_EVERY)
            except Empty:
                pass
            else:
                yield running.pop(future), result(future)
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
        """As in the base class; SIGINT and SIGTERM are handled afterwards. Terminated workers take the time to save."""
        with deferred_signals(), deadline_paused():
            super().shutdown(wait, cancel_futures=cancel_futures)
