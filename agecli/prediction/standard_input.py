"""Standard input: one picture, recognised by its first bytes, or a list of file names."""

from __future__ import annotations

import io
import mmap
import os
import tempfile
import weakref
from contextlib import suppress
from typing import BinaryIO

from agecli.core.errors import InputError
from agecli.images.crops import PhotoFaces

NAME = "-"  # the source of a picture on stdin
MOST_BYTES = 1 << 29  # of a picture on stdin, which is held in a temporary file
BLOCK = 1 << 20  # bytes that are read at a time
SIGNATURES: dict[str, list[bytes]] = {  # by the ending of such files; `?` stands for any byte
    ".jpg": [b"\xff\xd8\xff"],
    ".png": [b"\x89PNG\r\n\x1a\n"],
    ".gif": [b"GIF87a??????\0", b"GIF89a??????\0"],  # the pixel aspect ratio is 0; a file name has no null byte
    ".webp": [b"RIFF????WEBP"],
    ".bmp": [b"BM????\0\0\0\0"],
    ".tif": [b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"],
    ".avif": [b"\0\0\0?ftypavif", b"\0\0\0?ftypavis"],
    ".heic": [b"\0\0\0?ftyp" + brand for brand in (b"heic", b"heix", b"heim", b"heis", b"hevc", b"mif1", b"msf1")],
    "video": [b"\0\0\0?ftyp????", b"RIFF????AVI ", b"\x1aE\xdf\xa3"],
}
ONE_PICTURE = "name the files, or pipe their names: ls *.jpg | agecli predict -"


def kind_of(head: bytes) -> str | None:
    """What the first bytes of a stream belong to: an ending in SIGNATURES, "video", or None for anything else."""
    for kind, signatures in SIGNATURES.items():
        if any(len(head) >= len(signature) and _fits(head, signature) for signature in signatures):
            return kind
    return None


def _fits(head: bytes, signature: bytes) -> bool:
    """Whether bytes and signature agree, as far as both go."""
    return all(wanted in (b"?"[0], byte) for wanted, byte in zip(signature, head, strict=False))


def picture_or_names(stream: BinaryIO) -> StoredPicture | PhotoFaces | BinaryIO:
    """The picture on a stream, not yet decoded; or else the stream itself, from its first byte on.

    Only as many bytes are read as are needed to tell them apart, so that a slow list of names is not waited for. A
    picture that is too large is a PhotoFaces that says so. Raises InputError for a video, and for several pictures.
    """
    head = b""
    every = [signature for signatures in SIGNATURES.values() for signature in signatures]
    while any(len(head) < len(signature) and _fits(head, signature) for signature in every):
        if not (byte := stream.read(1)):
            break
        head += byte
    kind = kind_of(head)
    if kind is None:
        return io.BufferedReader(_Rejoined(head, stream))
    if kind == "video":
        raise InputError("standard input is a video", hint="save it to a file and name that: agecli predict film.mp4")
    picture = StoredPicture(NAME, head, stream, kind)
    if os.path.getsize(picture.path) > MOST_BYTES:
        return PhotoFaces(
            NAME, status="unreadable", error=f"it is too large, over {MOST_BYTES >> 20} MB: shrink it first"
        )
    with open(picture.path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if kind_of(after_picture(data, kind)) is not None:
            raise InputError("standard input holds more than one picture", hint=ONE_PICTURE)
    return picture


class StoredPicture:
    """The picture on a stream, in a temporary file, for a worker process to decode. The file is deleted with this object.

    source: its name in the records;   head: the bytes that were read before;   kind: the ending of the file.
    """

    def __init__(self, source: str, head: bytes, rest: BinaryIO, kind: str) -> None:
        handle, self.path = tempfile.mkstemp(prefix="agecli-stdin-", suffix=kind)
        self.source = source
        self._delete = weakref.finalize(self, _unlink, self.path)  # also when the process exits
        with os.fdopen(handle, "wb") as file:
            file.write(head)
            left = MOST_BYTES
            while left > 0 and (block := rest.read(min(left, BLOCK))):
                file.write(block)
                left -= len(block)

    def __getstate__(self) -> dict[str, str]:
        """A copy in another process does not delete the file."""
        return {"source": self.source, "path": self.path}


def _unlink(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)


def after_picture(data: bytes | mmap.mmap, kind: str) -> bytes:
    """The first bytes that follow a JPEG, PNG, WebP or BMP file; none where the end is not known.

    A JPEG that says that it holds several pictures itself (MPO) counts as one.
    """
    if kind == ".jpg":
        end = len(data) if b"MPF\0" in data[:65536] else _end_of_jpeg(data)
    elif kind == ".png":
        end = data.find(b"IEND") + 8 if data.find(b"IEND") >= 0 else len(data)
    elif kind == ".webp":
        end = 8 + int.from_bytes(data[4:8], "little")
    elif kind == ".bmp":
        end = int.from_bytes(data[2:6], "little")
    else:
        end = len(data)
    return data[end : end + 16]


def _end_of_jpeg(data: bytes | mmap.mmap) -> int:
    """The position after the end marker, found from segment to segment: thumbnails inside segments have their own."""
    position = 2
    while (position := data.find(b"\xff", position)) >= 0 and position + 4 <= len(data):
        marker = data[position + 1]
        if marker == 0xD9:
            return position + 2
        if marker in (0x00, 0x01, 0xFF) or 0xD0 <= marker <= 0xD8:  # within the compressed data, or without a length
            position += 1 if marker == 0xFF else 2
        else:
            position += 2 + int.from_bytes(data[position + 2 : position + 4], "big")
    return len(data)


class _Rejoined(io.RawIOBase):
    """A stream from which some bytes were read already, with these bytes in front again."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        self.head, self.rest = head, rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Hand over what is there, without waiting for more."""
        if not self.head:
            read = getattr(self.rest, "read1", self.rest.read)
            self.head = read(len(buffer))
        count = min(len(buffer), len(self.head))
        buffer[:count], self.head = self.head[:count], self.head[count:]
        return count
