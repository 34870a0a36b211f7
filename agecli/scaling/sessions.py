"""Sessions: what a process keeps open while it does many shards of one run, as a model and its worker processes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, Protocol

from agecli.scaling.parts import Footer, Tally

PER_THREAD = 0  # worker processes: one for each task that a process of a cluster runs at a time


class Session(Protocol):
    """The work of one process on the shards of a run."""

    def __enter__(self) -> Session: ...
    def __exit__(self, *error: object) -> None: ...

    def work(self, number: int, entries: Iterator[Any], tally: Tally) -> Iterator[bytes]:
        """The lines of a shard."""

    def do(self, number: int) -> Footer | None:
        """Make the part of a shard; None if another process is making it."""

    def close(self) -> None:
        """End what was opened."""


class Job(Protocol):
    """How one process does shards: plain data that can be pickled and compared."""

    def __hash__(self) -> int: ...

    def session(self, tasks: int = 1) -> Session:
        """Open what the work needs.   tasks: shards that are done at a time, in threads"""


_sessions: dict[Job, Session] = {}
_lock = threading.Lock()


def do_one(job: Job, number: int) -> Footer | None:
    """Do a shard as a task of a cluster; what it opens is kept for the next shard of the same job."""
    from agecli.scaling.clusters import worker_threads

    with _lock:
        if job not in _sessions:
            _close_sessions()
            _sessions[job] = job.session(worker_threads())
        session = _sessions[job]
    return session.do(number)


def close_sessions() -> None:
    """End what `do_one` has kept."""
    with _lock:
        _close_sessions()


def _close_sessions() -> None:
    while _sessions:
        _sessions.popitem()[1].close()
