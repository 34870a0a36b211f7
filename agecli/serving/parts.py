"""Parts: one photo after the other out of a multipart body or a tar archive, while it arrives."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from email.message import Message
from typing import Protocol

from agecli.serving.multipart import MultipartReader
from agecli.serving.refusals import Refusal
from agecli.serving.tars import TarReader

KINDS = "multipart/form-data or application/x-tar"


@dataclass(frozen=True)
class Part:
    """A photo out of a body: its name there, and its bytes; None if there are too many."""

    name: str
    data: bytes | None


class Reader(Protocol):
    """An incremental parser: `MultipartReader` or `TarReader`."""

    def feed(self, chunk: bytes) -> list[tuple[str, bytes | None]]:
        """The names and bytes of the parts that this chunk completes. Raises ValueError if the body is malformed."""

    def close(self) -> None:
        """The body has ended. Raises ValueError if it is not complete."""


def reader_of(content_type: str, most: int) -> Reader:
    """The parser for a Content-Type header. Raises Refusal if there is none.   most: bytes of one photo"""
    message = Message()
    message["content-type"] = content_type
    kind = message.get_content_type()
    if kind == "multipart/form-data":
        boundary = message.get_param("boundary")
        if not isinstance(boundary, str) or not boundary.isascii() or not 0 < len(boundary) <= 70:
            raise Refusal("bad_request", "the Content-Type has no valid boundary")
        return MultipartReader(boundary.encode(), most)
    if kind in ("application/x-tar", "application/tar"):
        return TarReader(most)
    raise Refusal("not_a_picture", f"the Content-Type is {kind[:80]!r}", hint=f"send {KINDS}, not compressed")


async def read_parts(chunks: AsyncIterator[bytes], reader: Reader) -> AsyncIterator[Part]:
    """The parts of a body, in order. Raises Refusal if it is malformed, after the parts before that."""
    try:
        async for chunk in chunks:
            for name, data in reader.feed(chunk):
                yield Part(name, data)
        reader.close()
    except ValueError as error:
        raise Refusal("unreadable", f"the body is malformed: {error}", hint=f"send {KINDS}") from None
