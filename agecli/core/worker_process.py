"""The inside of a worker process: it receives functions with an item each, and sends back what they return or raise."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import pickle
import signal
import stat
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from typing import Any

import cv2

from agecli.core.errors import InputError
from agecli.core.signals import unblock_signals

OUT_OF_MEMORY = 71  # exit code
PR_SET_PDEATHSIG = 1  # of prctl(2)
_seconds: float | None = None  # for the current item of this process
LEAST_MEMORY = 0.3  # GB; the libraries take a part of it


@dataclass(frozen=True)
class Limits:
    """What one process may use.

    memory: bytes of resident memory, on Linux; exceeding it is a MemoryError inside.
    seconds: for one item, or for a part of it (`keep_alive`); not on Windows.

        Limits(memory=10**9, seconds=60)
    """

    memory: int | None = None
    seconds: float | None = None

    @classmethod
    def of(cls, gigabytes: float | None, seconds: float | None) -> Limits | None:
        """The limits of `--max-memory` and `--timeout`; None if there are none. Raises InputError for unusable values."""
        if gigabytes is not None and not LEAST_MEMORY <= gigabytes < 1e6:
            raise InputError(f"--max-memory {gigabytes:g} is out of range", hint=f"use {LEAST_MEMORY} or more, in GB")
        if seconds is not None and not 0.1 <= seconds < 1e6:
            raise InputError(f"--timeout {seconds:g} is out of range", hint="use 0.1 or more, in seconds")
        if gigabytes is None and seconds is None:
            return None
        return cls(None if gigabytes is None else int(gigabytes * 1e9), seconds)


@dataclass
class Outcome:
    """What became of an item: a value, or an error with its traceback as text."""

    value: Any = None
    error: Exception | None = None
    traceback: str = ""
    chatter: str = ""  # what native libraries wrote to stderr meanwhile


class RemoteTraceback(Exception):
    """The cause of an exception that was raised in a worker: its traceback there."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def start_context() -> Any:
    """How processes are started: not as forks of this one, whose OpenCV or torch may have threads."""
    if "forkserver" not in multiprocessing.get_all_start_methods():  # Windows
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    resource_tracker.ensure_running()  # started later, it would unblock the signals that are blocked for the fork server
    # the detectors are loaded once, for all workers
    context.set_forkserver_preload(["agecli.images.crops", "agecli.core.forkserver"])
    return context


def start_worker() -> None:
    """A worker uses one thread, leaves Ctrl-C to its parent, and exits when the parent was killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    unblock_signals()
    cv2.setNumThreads(1)
    end_with_parent()
    threading.Thread(target=_exit_with_parent, daemon=True).start()


def end_with_parent() -> None:
    """In a new process on Linux: be killed when the parent ends, also while native code keeps Python from running."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _exit_with_parent() -> None:
    """Wait for the end of the parent process, and end this one."""
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(1)


def run_worker(connection: Connection, limits: Limits, forked: bool) -> None:
    """Answer every message (function, item) with an Outcome, after a first None; return when the connection is closed.

    forked: this process has the open files of its parent, and should not keep them open.
    """
    if forked:
        _close_files()
    start_worker()
    if limits.memory is not None:
        _limit_memory(limits.memory)
    with suppress(EOFError, OSError), _captured_stderr() as chatter:
        connection.send(None)
        while True:
            outcome = _outcome(connection.recv_bytes(), limits.seconds)
            outcome.chatter = chatter()
            _send(connection, outcome)


def keep_alive() -> None:
    """Start the time of the current item anew: called for each part of an item that has many, such as a video's frames."""
    if _seconds is not None and hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, _seconds)


def _outcome(message: bytes, seconds: float | None) -> Outcome:
    """Run a pickled function with its item, within its time: SIGALRM ends the process, whatever native code is doing."""
    global _seconds
    if seconds is not None and hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        _seconds = seconds
        keep_alive()
    try:
        function, item = pickle.loads(message)
        return Outcome(function(item))
    except MemoryError:  # a process that has not used much before may succeed
        os._exit(OUT_OF_MEMORY)
    except Exception as error:
        return Outcome(error=error, traceback=traceback.format_exc())
    finally:
        if seconds is not None and hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, 0)
            _seconds = None


def _send(connection: Connection, outcome: Outcome) -> None:
    """Send an outcome; one that can't be pickled is replaced by an error."""
    try:
        connection.send(outcome)
    except MemoryError:
        os._exit(OUT_OF_MEMORY)
    except OSError:
        raise
    except Exception as error:
        connection.send(Outcome(error=RuntimeError(f"can't be sent: {error}"), traceback=outcome.traceback))


def _limit_memory(most: int) -> None:
    """Let allocations fail beyond a resident size: private memory is limited to what shared libraries leave of it."""
    if sys.platform != "linux":
        return
    import resource

    with open("/proc/self/statm") as file:
        shared = int(file.read().split()[2]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_DATA, (most - shared, most - shared))


def leaves_room(limits: Limits) -> bool:
    """Whether a fork of this process could use at least half of its memory limit. Linux only.

    A fork has the private memory of its parent, of which libraries as pyarrow reserve a gigabyte.
    """
    if limits.memory is None:
        return True
    import resource

    with open("/proc/self/statm") as file:
        private = int(file.read().split()[5]) * resource.getpagesize()
    return private < limits.memory / 2


def _close_files() -> None:
    """Close the regular files of the parent, whose locks this process would hold after the parent was killed."""
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            if int(name) > 2 and stat.S_ISREG(os.fstat(int(name)).st_mode):
                os.close(int(name))


@contextmanager
def _captured_stderr() -> Iterator[Callable[[], str]]:
    """Redirect file descriptor 2 to memory; the function that is given returns what was written since the last call."""
    if not hasattr(os, "memfd_create"):
        yield lambda: ""
        return
    file = os.memfd_create("stderr")
    os.set_blocking(file, True)
    sys.stderr.flush()
    os.dup2(file, 2)

    def chatter() -> str:
        if not (size := os.lseek(2, 0, os.SEEK_CUR)):
            return ""
        text = os.pread(file, min(size, 10_000), 0).decode(errors="replace")
        os.ftruncate(file, 0)
        os.lseek(2, 0, os.SEEK_SET)
        return text

    yield chatter
