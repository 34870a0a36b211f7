"""Containers: members of tar and zip archives, and rows of Parquet files, listed and read without unpacking anything.

Nothing is written and no name of a member is used as a path. Tar and zip archives on a disk are read by worker processes,
member by member; compressed tars, Parquet and remote files are read in order by this process, which passes on the bytes.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby
from typing import BinaryIO

from agecli.core.extras import require
from agecli.images.members import Blob, Member, kind_of_container
from agecli.images.opening import UnreadableError, open_regular
from agecli.images.remote import is_url, open_url


def list_members(container: str) -> Iterator[Member | str]:
    """The pictures in a container, in its order; of a Parquet file with a column of paths, these.

    container: a path or an address. Members that are not named like photos are left out. What can't be read is a Member
    with an error: links, members too large for a picture, and damaged containers, whose members up to the damage are
    listed. Raises MissingError without the extra `parquet`.
    """
    kind = kind_of_container(container) or ""
    if kind == "parquet":
        require("pyarrow", needed_by=f"reading {container}")
    count = 0
    try:
        with _open(container) as file, damage_named():
            for found in _list(file, container, kind):
                count += 1
                yield found
    except UnreadableError as error:
        yield Member(container, container, "stream", -1, error=str(error))
        return
    if not count:
        yield Member(container, container, "stream", -1, error="it has no pictures")


def _list(file: BinaryIO, container: str, kind: str) -> Iterator[Member | str]:
    """The members of an open container."""
    if kind == "parquet":
        from agecli.images.parquet_rows import list_rows

        return list_rows(file, container)
    from agecli.images.archives import list_tar, list_zip

    return list_zip(file, container) if kind == "zip" else list_tar(file, container, kind)


def _open(container: str) -> BinaryIO:
    """An open container. Raises UnreadableError if there is none."""
    if is_url(container):
        return open_url(container, seekable=kind_of_container(container) in ("zip", "parquet"))
    try:
        return open_regular(container)
    except IsADirectoryError:
        raise UnreadableError("it is a folder") from None
    except OSError as error:
        raise UnreadableError(f"it can't be opened: {error.strerror}") from None


@contextmanager
def damage_named() -> Iterator[None]:
    """Raise an UnreadableError with one line for any error that reading a damaged container can raise."""
    try:
        yield
    except (UnreadableError, MemoryError):
        raise
    except Exception as error:  # tarfile, zipfile, zlib, lzma and pyarrow have classes of their own
        line = (str(error).splitlines() or [type(error).__name__])[0][:120]
        raise UnreadableError(f"it is damaged, or of another kind than its name says: {line}") from error


def load(members: Iterable[Member]) -> Iterator[Member | Blob]:
    """What a worker process can read: members of tar and zip archives as they are, and the bytes of all others.

    Consecutive members of one container are read in one pass.
    """
    for (container, kind), group in groupby(members, key=lambda member: (member.container, member.kind)):
        if kind in ("tar", "zip"):
            yield from group
        else:
            yield from _read_in_order(container, group)


def _read_in_order(container: str, members: Iterable[Member]) -> Iterator[Blob]:
    """The bytes of members whose numbers increase. After damage, no more of the container is read."""
    pictures: Iterator[tuple[int, bytes | UnreadableError]] | None = None
    broken: UnreadableError | None = None
    for member in members:
        data: bytes | UnreadableError | None = UnreadableError(member.error) if member.error else broken
        if data is None:
            try:
                with damage_named():
                    pictures = pictures or _pictures(container, member.place)
                    data = next((found for number, found in pictures if number == member.place), None)
            except UnreadableError as error:
                data = broken = error
        if data is None:
            data = UnreadableError("it is no longer in the archive")
        failed = isinstance(data, UnreadableError)
        yield Blob(member.source, b"", str(data)) if failed else Blob(member.source, data)  # type: ignore[arg-type]


def _pictures(container: str, first: int) -> Iterator[tuple[int, bytes | UnreadableError]]:
    """The pictures of a container from a number on, as bytes."""
    with _open(container) as file:
        if kind_of_container(container) == "parquet":
            from agecli.images.parquet_rows import read_rows

            yield from read_rows(file, first)
        else:
            from agecli.images.archives import read_archive

            yield from read_archive(file, kind_of_container(container) == "zip", first)


def open_member(member: Member) -> BinaryIO:
    """The bytes of a member of a tar or zip archive on a disk, in memory. Raises UnreadableError."""
    if member.error:
        raise UnreadableError(member.error)
    with damage_named():
        if member.kind == "zip":
            from agecli.images.archives import read_zip_member

            return io.BytesIO(read_zip_member(member.container, member.place))
        with open_regular(member.container) as file:
            file.seek(member.place)
            data = file.read(member.size)
    if len(data) < member.size:
        raise UnreadableError("it is damaged: its archive ends before it does")
    return io.BytesIO(data)
