"""Isolated worker processes: an item that crashes, hangs or exhausts the memory of its process costs that item only.

A process that dies is replaced. The item it was working on is tried once more, alone in another process; if that one dies,
too, the item gets a CrashedError. All other items get their results.
"""

from __future__ import annotations

import logging
import multiprocessing
import signal
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing.connection import Connection, Pipe, wait
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from typing import Any, TypeVar

from agecli.core.errors import InputError
from agecli.core.futures import result, when_done
from agecli.core.signals import deferred_signals, only_command_line_threads
from agecli.core.worker_process import (
    OUT_OF_MEMORY,
    Limits,
    Outcome,
    RemoteTraceback,
    leaves_room,
    run_worker,
    start_context,
)

In = TypeVar("In")
Out = TypeVar("Out")
log = logging.getLogger("agecli")
FEWER_WORKERS = 'Use fewer workers; a Python script needs `if __name__ == "__main__":` around its calls'
ALONE = 8  # items before a second process is started: for a few photos, starting processes costs more
QUEUED_PER_PROCESS = 4  # items
SMALL = 32_768  # bytes that a pipe takes although its reader is busy, so that sending never blocks
TIMED_OUT = -getattr(signal, "SIGALRM", 0)  # exit code
GRACE = 0.3  # seconds for a process to finish its item when the pool is closed


class CrashedError(Exception):
    """An item ended its process twice, or exceeded a limit. The message is for the user."""


class TimedOutError(CrashedError):
    """An item took longer than its time limit, twice."""


@dataclass
class _Job:
    """An item on its way: pickled with its function, and the future for its result."""

    name: str  # for messages
    message: bytes
    future: Future[Any]
    tried: bool = False  # it ended a process before, and is tried again alone


@dataclass
class _Worker:
    """A process and the jobs that were sent to it, which it does in order."""

    process: BaseProcess
    connection: Connection
    jobs: deque[_Job] = field(default_factory=deque)
    ready: bool = False  # it has started

    def takes(self, job: _Job) -> bool:
        """Whether a job can be sent now: one waits in the pipe while another is done, unless it is large or suspicious."""
        if not self.jobs:
            return True
        return len(self.jobs) < 2 and len(job.message) <= SMALL and not job.tried and not self.jobs[0].tried


class Workers:
    """A pool of processes. Close it, or use it as a context manager.

    count: most processes; the second is started after `alone` items.
    limits: memory and time; None for no limits.

    In the command line the first process is a fork of this one, which takes milliseconds; all others come from a fork
    server, since forking a process whose OpenCV or torch has threads can crash. Functions and items must be picklable.

        with Workers(4, Limits(memory=10**9, seconds=60)) as workers:
            result(workers.submit(read, "photo.jpg"))
    """

    def __init__(self, count: int, limits: Limits | None = None, alone: int = ALONE) -> None:
        self.count, self.limits, self.alone = count, limits or Limits(), alone
        self.lock = threading.Lock()
        self.queue: deque[_Job] = deque()
        self.workers: list[_Worker] = []
        self.submitted = 0
        self.closing = False
        self.woken = False  # a message to the manager is in the pipe
        self.failure: BaseException | None = None  # why the pool does not work
        self.receiver, self.waker = Pipe(duplex=False)
        with deferred_signals():
            if sys.platform == "linux" and only_command_line_threads() and leaves_room(self.limits):
                with warnings.catch_warnings():  # native threads of BLAS and onnxruntime are idle, and not used there
                    warnings.simplefilter("ignore", DeprecationWarning)
                    self._start(multiprocessing.get_context("fork"))
            self.manager = threading.Thread(target=self._manage, name="agecli-workers", daemon=True)
            self.manager.start()

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def submit(self, function: Callable[[In], Out], item: In, urgent: bool = False) -> Future[Out]:
        """Queue an item. Its future has the result, the exception that the function raised, or a CrashedError.

        urgent: before those that are queued.
        Raises InputError, or has it in the future, if processes can't be started; RuntimeError after `close`.
        """
        job = _Job(str(getattr(item, "source", item)), bytes(ForkingPickler.dumps((function, item))), Future())
        with self.lock:
            if self.failure is not None:
                raise self.failure
            if self.closing:
                raise RuntimeError("this pool of workers is closed")
            (self.queue.appendleft if urgent else self.queue.append)(job)
            self.submitted += 1
            self._wake()
        return job.future

    def close(self) -> None:
        """End all processes, after GRACE seconds for what they are doing. Futures without a result are cancelled."""
        with deferred_signals():
            with self.lock, suppress(OSError):
                self.closing = True
                self._wake()
            self.manager.join()

    def _wake(self) -> None:
        """Wake the manager; call it with the lock held. The pipe has one message, or two after an interrupt: it never blocks."""
        if not self.woken:
            self.waker.send_bytes(b"")
            self.woken = True  # now, as an interrupt before would leave the manager asleep, and `close` waiting for it

    # The rest runs in the thread of the manager.

    def _manage(self) -> None:
        """Send jobs, receive results and replace processes until the pool is closed."""
        try:
            while not self.closing:
                self._send_jobs()
                for ready in wait([self.receiver, *(worker.connection for worker in self.workers)]):
                    if ready is self.receiver:
                        with self.lock:
                            self.receiver.recv_bytes()
                            self.woken = False
                    else:
                        self._receive(next(worker for worker in self.workers if worker.connection is ready))
        except BaseException as error:
            self._fail(error)
        finally:
            self._end_processes()

    def _send_jobs(self) -> None:
        """Distribute queued jobs to the processes that take them, the least busy first; start processes as needed."""
        while self.queue:
            most = self.count if self.submitted > self.alone else 1
            if len(self.workers) < most and all(worker.jobs for worker in self.workers):
                context = start_context()
                with deferred_signals():
                    self._start(context)
            worker = min(self.workers, key=lambda worker: len(worker.jobs))
            with self.lock:
                job = self.queue[0]
                if not worker.takes(job):
                    return
                self.queue.popleft()
            if not job.future.running() and not job.future.set_running_or_notify_cancel():
                continue
            worker.jobs.append(job)
            try:
                worker.connection.send_bytes(job.message)
            except OSError:  # it has died, which `_receive` will find
                return

    def _receive(self, worker: _Worker) -> None:
        """The next message of a process: that it has started, a result, or its end."""
        try:
            outcome: Outcome | None = worker.connection.recv()
        except (EOFError, OSError):
            self._replace(worker)
            return
        if outcome is None:
            worker.ready = True
            return
        job = worker.jobs.popleft()
        for line in outcome.chatter.splitlines():
            log.debug("%s: %s", job.name, line)
        if outcome.error is None:
            job.future.set_result(outcome.value)
            return
        outcome.error.__cause__ = RemoteTraceback(outcome.traceback)
        job.future.set_exception(outcome.error)

    def _replace(self, worker: _Worker) -> None:
        """Put the jobs of a dead process back into the queue; the one it was doing is given up if it was tried before."""
        self.workers.remove(worker)
        worker.connection.close()
        worker.process.kill()
        worker.process.join()
        if worker.ready and worker.jobs:
            job, reason = worker.jobs[0], self._reason(worker.process.exitcode)
            if job.tried:
                timed_out = worker.process.exitcode == TIMED_OUT
                worker.jobs.popleft().future.set_exception((TimedOutError if timed_out else CrashedError)(reason))
            else:
                job.tried = True
                log.debug("%s: %s; it is tried again", job.name, reason)
        with self.lock:
            self.queue.extendleft(reversed(worker.jobs))
        if not worker.ready:
            raise InputError("a worker process could not start", hint=f"did memory run out? {FEWER_WORKERS}")

    def _reason(self, code: int | None) -> str:
        """Why a process ended, for the user."""
        if code == OUT_OF_MEMORY:
            most = "there is" if self.limits.memory is None else f"--max-memory {self.limits.memory / 1e9:g} GB"
            return f"reading it takes more memory than {most}"
        if code == TIMED_OUT and self.limits.seconds is not None:
            return f"reading it takes longer than --timeout {self.limits.seconds:g} s"
        with suppress(ValueError, TypeError):
            name = signal.Signals(-code).name  # type: ignore[operator]
            return f"the process that read it was ended by {name}" + (": did memory run out?" * (name == "SIGKILL"))
        return f"the process that read it ended with code {code}"

    def _start(self, context: Any) -> None:
        """Start one more process."""
        ours, theirs = context.Pipe()
        forked = context.get_start_method() == "fork"
        process = context.Process(target=run_worker, args=(theirs, self.limits, forked), daemon=True)
        process.start()
        theirs.close()
        self.workers.append(_Worker(process, ours))

    def _fail(self, error: BaseException) -> None:
        """Give all jobs the error that ended the manager."""
        with self.lock:
            self.failure = error
        for job in self._unfinished():
            job.future.set_exception(error)

    def _unfinished(self) -> Iterator[_Job]:
        """Take all jobs without a result."""
        for jobs in (*(worker.jobs for worker in self.workers), self.queue):
            while jobs:
                yield jobs.popleft()

    def _end_processes(self) -> None:
        """End idle processes at once, and those that are still busy after GRACE seconds."""
        deadline = time.monotonic() + GRACE
        for worker in self.workers:
            worker.connection.close()  # at which it ends, after the item that it is doing
            if worker.jobs:
                worker.process.join(max(0.0, deadline - time.monotonic()))
        for worker in self.workers:
            worker.process.kill()
            worker.process.join()
        for job in self._unfinished():
            job.future.cancel()
        self.workers.clear()


@contextmanager
def open_workers(count: int, limits: Limits | None = None) -> Iterator[Workers | None]:
    """A pool for the length of a `with` block; None, which is this process, for one process without limits."""
    if count == 1 and limits is None:
        yield None
        return
    with Workers(count, limits) as workers:
        yield workers


def stream(
    function: Callable[[In], Out],
    items: Iterable[In],
    workers: Workers | None,
    crashed: Callable[[In, str], Out],
    ahead: int = 32,
) -> Iterator[Out]:
    """The results in the order of the items, while processes work ahead; memory does not grow with the items.

    workers: the pool; None runs in this process, as do the first ALONE items of a pool without limits.
    crashed: the result of an item that ended its process or exceeded a limit, from the item and the reason.
    ahead: most results that are kept; of items, which may be large, a few per process are kept. One process does not
        work ahead, so that each item of a slow source has its result at once.

        with open_workers(4) as workers:
            for faces in stream(find, names, workers, crashed=lambda name, reason: []): ...
    """
    remaining = iter(items)
    here = remaining if workers is None else islice(remaining, 0 if workers.limits != Limits() else ALONE)
    for item in here:
        try:
            yield function(item)
        except MemoryError:
            yield crashed(item, "reading it takes more memory than there is")
    if workers is None:
        return
    queue: deque[tuple[In, Future[Out]]] = deque()
    unfinished: set[Future[Out]] = set()
    most = QUEUED_PER_PROCESS * workers.count if workers.count > 1 else 0
    for item in remaining:
        future = workers.submit(function, item)
        unfinished.add(future)
        when_done(future, unfinished.discard)
        queue.append((item, future))
        while queue and (len(queue) > ahead or len(unfinished) > most):  # a result can be there before `discard`
            yield _result(*queue.popleft(), crashed)
    while queue:
        yield _result(*queue.popleft(), crashed)


def call(function: Callable[[In], Out], item: In, workers: Workers | None) -> Out:
    """The result of one item, by a worker process before all items that are queued; None calls it in this process.

    Raises what the function raises, and CrashedError.
    """
    return function(item) if workers is None else result(workers.submit(function, item, urgent=True))


def _result(item: In, future: Future[Out], crashed: Callable[[In, str], Out]) -> Out:
    """Wait for the result of an item."""
    try:
        return result(future)
    except CrashedError as error:
        return crashed(item, str(error))
