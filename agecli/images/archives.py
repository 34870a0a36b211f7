"""Tar and zip archives: which of their members are pictures, and the bytes of these."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import tarfile
import zipfile
from collections.abc import Iterator
from functools import lru_cache
from typing import IO, BinaryIO, cast

from agecli.images.folders import is_photo
from agecli.images.members import MOST_BYTES, Member, too_large
from agecli.images.opening import UnreadableError
from agecli.images.remote import is_url

MOST_SKIPPED = 1 << 30  # bytes of a compressed tar that are no pictures, after which the rest of it is not read
BLOCK = 1 << 18  # bytes that are read at a time
STEP = 1 << 13  # bytes that are decompressed at a time
LINK = "it is a link or a device in an archive"
SYMLINK = 0o120000  # of the file types in a Unix mode, which are FILE_TYPE
FILE_TYPE = 0o170000


def list_tar(file: BinaryIO, container: str, kind: str) -> Iterator[Member]:
    """The pictures in a tar; their offsets in a plain one on a disk, their numbers in any other.

    kind: "tar", or "stream" for a compressed one. Of that, at most MOST_SKIPPED bytes of other members are decompressed:
    small archives can hold any number of zeros.
    """
    plain = kind == "tar" and not is_url(container)
    skipped = 0
    with tarfile.open(fileobj=file, mode="r:") if plain else _open_stream(file) as archive:
        for number, info in enumerate(archive):
            archive.members = []  # type: ignore[attr-defined] # of which tarfile would keep all
            error = ""
            if not info.isreg() or info.issparse():
                error = LINK
            elif info.size > MOST_BYTES:
                error = too_large(info.size)
            if is_photo(info.name):
                place = info.offset_data if plain else number
                kind = "tar" if plain else "stream"
                yield Member(f"{container}/{info.name}", container, kind, place, info.size, error)
            skipped += info.size if not plain and (error or not is_photo(info.name)) else 0
            if skipped > MOST_SKIPPED:
                raise UnreadableError(
                    f"it has over {MOST_SKIPPED >> 30} GB that are no pictures: the rest of it is not read"
                )


def _open_stream(file: BinaryIO) -> tarfile.TarFile:
    """A tar that is read in order, compressed or not. tarfile's own decompression is quadratic in runs of zeros."""
    buffered = io.BufferedReader(cast(io.RawIOBase, file))
    for magic, opened in ((b"\x1f\x8b", gzip.open), (b"BZh", bz2.open), (b"\xfd7zXZ", lzma.open)):
        if buffered.peek(len(magic)).startswith(magic):
            stream = _UpToDamage(cast(io.BufferedIOBase, opened(buffered, "rb")))
            return tarfile.open(fileobj=cast(BinaryIO, stream), mode="r|", bufsize=BLOCK)
    return tarfile.open(fileobj=buffered, mode="r|", bufsize=BLOCK)


class _UpToDamage:
    """A decompressed stream that gives all bytes before a cut or damage; the next `read` raises the error.

    A file of gzip, bz2 or lzma raises it at once, and what was decompressed for the same `read` is lost.
    """

    def __init__(self, stream: io.BufferedIOBase) -> None:
        self.stream = stream
        self.error: Exception | None = None

    def read(self, size: int) -> bytes:
        """Up to `size` bytes; fewer at the end and before damage. Raises what the stream raised there."""
        if self.error:
            raise self.error
        found = bytearray()
        try:
            while len(found) < size and (more := self.stream.read1(min(STEP, size - len(found)))):
                found += more
        except Exception as error:  # EOFError, OSError, zlib.error, lzma.LZMAError
            if not found:
                raise
            self.error = error
        return bytes(found)


def list_zip(file: BinaryIO, container: str) -> Iterator[Member]:
    """The pictures in a zip archive."""
    with zipfile.ZipFile(file) as archive:
        for number, info in enumerate(archive.infolist()):
            if info.is_dir() or not is_photo(info.filename):
                continue
            error = too_large(info.file_size) if info.file_size > MOST_BYTES else ""
            if (info.external_attr >> 16) & FILE_TYPE == SYMLINK:
                error = LINK
            kind = "stream" if is_url(container) else "zip"
            yield Member(f"{container}/{info.filename}", container, kind, number, info.file_size, error)


def read_archive(file: BinaryIO, zipped: bool, first: int) -> Iterator[tuple[int, bytes | UnreadableError]]:
    """The pictures of an archive from a number on, each with its number; errors of single ones in place of bytes."""
    if zipped:
        with zipfile.ZipFile(file) as archive:
            for number, info in enumerate(archive.infolist()):
                if number >= first and is_photo(info.filename):
                    yield number, _bounded(archive.open(info), info.file_size)
        return
    with _open_stream(file) as tar:
        for number, item in enumerate(tar):
            tar.members = []  # type: ignore[attr-defined]
            if number >= first and is_photo(item.name):
                yield number, _bounded(tar.extractfile(item) if item.isreg() else None, item.size)


def _bounded(stream: IO[bytes] | None, size: int) -> bytes | UnreadableError:
    """The bytes of a member, at most MOST_BYTES."""
    if stream is None:
        return UnreadableError(LINK)
    if size > MOST_BYTES:
        return UnreadableError(too_large(size))
    with stream:
        return stream.read(MOST_BYTES)


def read_zip_member(container: str, number: int) -> bytes:
    """The bytes of a member of a zip archive on a disk. Raises UnreadableError, and what zipfile raises."""
    archive = _open_zip(container, os.stat(container).st_mtime_ns)
    info = archive.infolist()[number]
    data = _bounded(archive.open(info), info.file_size)
    if isinstance(data, UnreadableError):
        raise data
    return data


@lru_cache(maxsize=2)
def _open_zip(container: str, changed: int) -> zipfile.ZipFile:
    """An open zip archive, kept for its next member.   changed: the time of its last change: another one is opened anew"""
    return zipfile.ZipFile(container)
