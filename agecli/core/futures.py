"""Futures in the main thread: an interrupt leaves none of their locks locked.

KeyboardInterrupt is raised between any two instructions of the main thread. In `threading.Condition`, on which `Future` and
`Thread.start` of the standard library are built, that can be after its lock was acquired and before the `with` block that
releases it: then the thread that sets the result waits forever, and so does the process that joins this thread at its end.
These functions call them with signals deferred, and wait on a `SimpleQueue`, which is interrupted as a whole or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from typing import Any, TypeVar

from agecli.core.signals import deferred_signals

In = TypeVar("In")
Out = TypeVar("Out")


def when_done(future: Future[Out], callback: Callable[[Future[Out]], Any]) -> None:
    """Call a function with the future when it is done, in the thread that sets the result, or now."""
    with deferred_signals():
        future.add_done_callback(callback)


def result(future: Future[Out]) -> Out:
    """Wait for a result. Raises what the future has as its exception.

    Example: `result(workers.submit(read, "photo.jpg"))`
    """
    done: SimpleQueue[Future[Out]] = SimpleQueue()
    when_done(future, done.put)
    done.get()
    with deferred_signals():
        return future.result()


def results(pool: Executor, function: Callable[[In], Out], items: Iterable[In]) -> list[Out]:
    """The results of a function for all items, in their order. If one raises an exception, items not begun are cancelled.

    Example: `results(ThreadPoolExecutor(2), read, ["a.jpg", "b.jpg"])`
    """
    futures: list[Future[Out]] = []
    try:
        for item in items:
            with deferred_signals():
                futures.append(pool.submit(function, item))
        return [result(future) for future in futures]
    finally:
        with deferred_signals():
            for future in futures:
                future.cancel()
