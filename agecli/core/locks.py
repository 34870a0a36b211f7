"""Locks: one process at a time writes to an output. A lock ends with its process, however that ends."""

from __future__ import annotations

import errno
import json
import os
import socket
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from agecli.core.errors import InputError

NAME = "agecli-lock"
UNSUPPORTED = {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}  # file systems without locks
FAR = 1 << 30  # Windows: the locked byte can't be read by others, so it is not one of the text


PATIENCE = 2.0  # seconds in which the workers of a killed process end, too
held: set[int] = set()  # the handles of the locks of this process


class LockedError(InputError):
    """Another process holds a lock."""


@contextmanager
def locked(output: Path, folder: bool = False, patience: float = PATIENCE) -> Iterator[None]:
    """Hold the lock of an output during the `with` block.

    output: a file, whose lock file is beside it (.NAME.agecli-lock); or, with `folder`, a folder, whose lock file is in
        it. The folder is created, and removed if it is empty at the end. The lock is the operating system's (flock), not
        the file: one that a killed process left does not block anybody.

    patience: seconds to wait for it.

    Raises LockedError, which says who holds it, if another process does; InputError if the lock file is not one of agecli.

        with locked(Path("ages.csv")):
            ...
    """
    real = Path(os.path.realpath(output))
    path = real / f".{NAME}" if folder else real.with_name(f".{real.name}.{NAME}")
    created = [place for place in (path.parent, *path.parent.parents) if not place.exists()]
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = _acquire(path, output, patience)
    held.add(handle)
    try:
        yield
    finally:
        held.discard(handle)
        with suppress(OSError):
            path.unlink()  # while it is still locked: who opened it before finds out in `_acquire`
        os.close(handle)
        with suppress(OSError):
            for place in created:
                place.rmdir()  # fails if it is not empty


def is_locked(output: Path) -> bool:
    """Whether a process holds the lock of a file now; never waits, and leaves no lock."""
    path = output.with_name(f".{output.name}.{NAME}")
    try:
        handle = os.open(path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return False
    try:
        return not _lock(handle)
    finally:
        os.close(handle)


def is_lock(path: Path) -> bool:
    """Whether a name is that of a lock file."""
    return path.name.endswith(f".{NAME}")


def _close_in_child() -> None:
    """Close the handles in a forked process, which would keep the locks after its parent was killed."""
    while held:
        os.close(held.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)


def _acquire(path: Path, output: Path, patience: float) -> int:
    """The handle of the locked file, in which this process has written who it is."""
    end = time.monotonic() + patience
    while True:
        handle = _open(path)
        try:
            if not _lock(handle):
                if time.monotonic() >= end:
                    raise LockedError(
                        f"{output} is being written by another agecli{_holder(handle)}",
                        hint="wait until it has finished, or write to another place",
                    )
            elif _is_at(handle, path):  # not removed by its last owner in the meantime
                about = {"pid": os.getpid(), "host": socket.gethostname(), "since": f"{datetime.now():%F %T}"}
                os.ftruncate(handle, 0)
                os.write(handle, json.dumps({NAME: about}).encode())
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)
        time.sleep(0.1)


def _open(path: Path) -> int:
    """Open or create a lock file. Raises InputError if it is a link, no regular file, or has other content."""
    try:
        handle = os.open(
            path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0), 0o666
        )
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise
        raise _foreign(path) from error
    ours = stat.S_ISREG(os.fstat(handle).st_mode)
    if ours:
        start = f'{{"{NAME}"'.encode()
        ours = os.pread(handle, len(start), 0) in (b"", start) if hasattr(os, "pread") else True
    if not ours:
        os.close(handle)
        raise _foreign(path)
    return handle


def _foreign(path: Path) -> InputError:
    return InputError(f"{path} is no lock of agecli", hint="rename it, or write to another place")


def _lock(handle: int) -> bool:
    """Lock without waiting; False if another process has the lock. File systems without locks give no protection."""
    try:
        if sys.platform == "win32":
            import msvcrt

            os.lseek(handle, FAR, os.SEEK_SET)
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
            os.lseek(handle, 0, os.SEEK_SET)
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in UNSUPPORTED
    return True


def _is_at(handle: int, path: Path) -> bool:
    """Whether a path still leads to the open file."""
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False


def _holder(handle: int) -> str:
    """Who has written into a lock file, for the message; empty if it does not say."""
    try:
        os.lseek(handle, 0, os.SEEK_SET)
        about = json.loads(os.read(handle, 4096))[NAME]
        return f": process {int(about['pid'])} on {about['host']!s:.80}, since {about['since']!s:.80}"
    except (OSError, ValueError, KeyError, TypeError):
        return ""
