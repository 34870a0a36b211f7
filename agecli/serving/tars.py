"""Tar archives, parsed in memory as they arrive. Only regular files are used, and nothing is extracted to the disk."""

from __future__ import annotations

import tarfile
from collections.abc import Generator

BLOCK = tarfile.BLOCKSIZE
MOST_NAME = 65_536  # bytes of an extended header (pax, GNU long names)
FILES = (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE)
WITHOUT_DATA = (tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.DIRTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE)


class TarReader:
    """An incremental parser of uncompressed archives (ustar, pax, GNU).   most: bytes of one photo; larger ones are None.

    Folders, links and devices are skipped.

        for chunk in chunks:
            for name, data in reader.feed(chunk): ...
        reader.close()
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.buffer = bytearray()
        self.complete: list[tuple[str, bytes | None]] = []
        self.ended = False
        self.machine = self._read()
        self.wanted, self.kept = next(self.machine)  # bytes of the next piece, and whether they are used

    def feed(self, chunk: bytes) -> list[tuple[str, bytes | None]]:
        """The names and bytes of the files that this chunk completes. Raises ValueError if the archive is malformed."""
        view = memoryview(chunk)
        while len(view) and not self.ended:
            piece = view[: self.wanted]
            view = view[len(piece) :]
            self.wanted -= len(piece)
            if self.kept:
                self.buffer += piece
            self._advance()
        complete, self.complete = self.complete, []
        return complete

    def close(self) -> None:
        """The body has ended. Raises ValueError if the archive is not complete."""
        if not self.ended:
            raise ValueError("the archive ends without its end mark (two empty blocks)")

    def _advance(self) -> None:
        """Hand over every piece that is complete; a piece of 0 bytes always is."""
        while self.wanted == 0 and not self.ended:
            data, self.buffer = bytes(self.buffer), bytearray()
            try:
                self.wanted, self.kept = self.machine.send(data)
            except StopIteration:
                self.ended = True

    def _read(self) -> Generator[tuple[int, bool], bytes, None]:
        """Ask for the pieces of the archive: yields how many bytes are next and whether they are used, gets them back."""
        name: str | None = None
        size: int | None = None  # both of extended headers, for the file that follows
        while True:
            block = yield BLOCK, True
            if not any(block):
                return
            try:
                info = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
            except tarfile.HeaderError as error:
                raise ValueError(f"a header can't be read: {error}") from None
            if info.type in (tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME):
                if info.size > MOST_NAME:
                    raise ValueError(f"an extended header has more than {MOST_NAME} bytes")
                data = yield info.size, True
                yield -info.size % BLOCK, False
                if info.type == tarfile.GNUTYPE_LONGNAME:
                    name = data.rstrip(b"\0").decode("utf-8", "surrogateescape")
                else:
                    name, size = _pax(data, name, size)
                continue
            count = 0 if info.type in WITHOUT_DATA else info.size if size is None else size
            if count < 0:
                raise ValueError("a file has a negative size")
            kept = info.type in FILES and count <= self.most
            data = yield count, kept
            if info.type in FILES:
                self.complete.append((info.name if name is None else name, data if kept else None))
            yield -count % BLOCK, False
            name, size = None, None


def _pax(data: bytes, name: str | None, size: int | None) -> tuple[str | None, int | None]:
    """The name and size in a pax header, whose records are `LENGTH KEY=VALUE\\n`; the given ones where it has none."""
    while data.strip(b"\0"):
        length, _, _ = data.partition(b" ")
        if not length.isdigit() or not 5 <= int(length[:9]) <= len(data):
            raise ValueError("a pax header can't be read")
        key, _, value = data[len(length) + 1 : int(length) - 1].partition(b"=")
        if key == b"path":
            name = value.decode("utf-8", "surrogateescape")
        elif key == b"size":
            if not value.isdigit() or len(value) > 15:
                raise ValueError("a pax header has no valid size")
            size = int(value)
        data = data[int(length) :]
    return name, size
