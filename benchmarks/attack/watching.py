"""Watching a command: its exit code and messages, the peak memory of each of its processes, and whether it hangs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

EVERY = 0.05  # seconds between two looks
PATIENCE = 120.0  # seconds without any progress, after which a command hangs; --timeout is 20 in the campaign
OWN = ("agecli/__main__.py", "agecli/cli/")  # parts of paths in a traceback of ours
SOON = 5.0  # seconds in which the workers of a killed process must have ended


@dataclass
class Run:
    """How a command ended."""

    code: int
    stdout: bytes
    stderr: str
    seconds: float
    worker: int = 0  # bytes: the highest peak of a child process
    main: int = 0  # bytes: the peak of the process itself
    hung: bool = False
    stopped: float | None = None  # seconds from the signal to the end; None if it ended before
    orphans: int = 0  # children that were there SOON after the end

    @property
    def errors(self) -> list[str]:
        """The lines that begin with `error:`."""
        return [line for line in self.stderr.splitlines() if line.startswith("error:")]

    @property
    def traceback(self) -> bool:
        """Whether a traceback was printed; one of Python's own start, before a line of agecli runs, does not count."""
        found = "Traceback (most recent call last)" in self.stderr
        return found and (self.stopped is None or any(place in self.stderr for place in OWN))


def watch(
    arguments: Sequence[object],
    folder: Path,
    *,
    stdin: bytes | Path = b"",
    grows: Path | None = None,
    stop: tuple[float, signal.Signals] | None = None,
) -> Run:
    """Run `agecli` with these arguments in a folder, and watch it.

    stdin: bytes, or a file.   grows: a file whose size is progress; without one, only the end is.
    stop: seconds after which a signal is sent to the process, as by `kill`; its children get none.
    """
    out, err, given = (folder / f".watch-{os.getpid()}-{name}" for name in ("out", "err", "in"))
    if isinstance(stdin, bytes):
        given.write_bytes(stdin)
    command = [sys.executable, "-m", "agecli", *(str(argument) for argument in arguments)]
    with (
        out.open("wb") as stdout,
        err.open("wb") as stderr,
        (stdin if isinstance(stdin, Path) else given).open() as file,
    ):
        process = subprocess.Popen(
            command, cwd=folder, stdin=file, stdout=stdout, stderr=stderr, start_new_session=True, preexec_fn=_default
        )
    try:
        run = _follow(process, grows, stop)
    finally:
        if process.poll() is None:  # the campaign itself was interrupted
            os.killpg(process.pid, signal.SIGKILL)
    run.stdout, run.stderr = out.read_bytes(), err.read_text(errors="replace")
    for path in (out, err, given):
        path.unlink(missing_ok=True)
    return run


def _default() -> None:
    """SIGINT as in a terminal: a background job ignores it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _follow(process: subprocess.Popen[bytes], grows: Path | None, stop: tuple[float, signal.Signals] | None) -> Run:
    """Watch a process until it ends."""
    run = Run(0, b"", "", 0.0)
    began = moved = time.monotonic()
    size, sent, children = -1, 0.0, set[int]()
    while process.poll() is None:
        now = time.monotonic()
        children |= _look(process.pid, run)
        with suppress(OSError):
            if grows is not None and grows.stat().st_size != size:
                size, moved = grows.stat().st_size, now
        if stop and not sent and now - began >= stop[0]:
            process.send_signal(stop[1])
            sent = now
        if now - moved > PATIENCE:
            run.hung = True
            os.killpg(process.pid, signal.SIGKILL)
        time.sleep(EVERY if not stop else 0.01)
    run.code, run.seconds = process.returncode, time.monotonic() - began
    run.stopped = time.monotonic() - sent if sent else None
    end = time.monotonic() + SOON
    while (left := [child for child in children if _alive(child)]) and time.monotonic() < end:
        time.sleep(EVERY)
    run.orphans = len(left)
    for child in left:
        with suppress(OSError):
            os.kill(child, signal.SIGKILL)
    return run


def _look(pid: int, run: Run) -> set[int]:
    """Note the peaks of a process and of all below it. Returns those below it; none where there is no /proc."""
    run.main = max(run.main, _peak(pid))
    found: set[int] = set()
    new = [pid]
    while new:
        parent = new.pop()
        for name in _read(f"/proc/{parent}/task/{parent}/children").split():
            child = int(name)
            if child not in found:
                found.add(child)
                new.append(child)
                run.worker = max(run.worker, _peak(child))
    return found


def _peak(pid: int) -> int:
    """The highest resident memory of a process so far, in bytes."""
    for line in _read(f"/proc/{pid}/status").splitlines():
        if line.startswith("VmHWM"):
            return 1024 * int(line.split()[1])
    return 0


def _alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits for its parent does not."""
    status = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return bool(status) and status[0] not in "ZX"


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""
