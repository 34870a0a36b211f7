"""Request bodies: read as they arrive, with limits on their size and time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from starlette.requests import Request

from agecli.serving.queue import Hold
from agecli.serving.refusals import Refusal

MB = 1_000_000


async def read_photo(request: Request, most: int, seconds: float, hold: Hold) -> bytes:
    """The body of a request as one photo of at most `most` bytes.

    hold: counts the bytes while they arrive.
    Raises Refusal if the body is empty, too large or slower than `seconds`, ClientDisconnect if the client is gone.
    """
    check_length(request, most, "shrink the photo")
    try:
        data = await asyncio.wait_for(_collect(request, most, hold), seconds)
    except asyncio.TimeoutError:
        raise Refusal("upload_timeout", f"the upload took longer than {seconds:g} seconds") from None
    if not data:
        raise Refusal("unreadable", "the body is empty", hint="send the bytes of the photo as the body")
    return data


async def _collect(request: Request, most: int, hold: Hold) -> bytes:
    chunks, count = [], 0
    async for chunk in request.stream():
        count += len(chunk)
        if count > most:
            raise too_large(most, "shrink the photo")
        hold.add(len(chunk))
        chunks.append(chunk)
    return b"".join(chunks)


def check_length(request: Request, most: int, hint: str) -> None:
    """Refuse a body by its Content-Length, before any of it is read. Bodies without one are counted as they arrive."""
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > most:
        raise too_large(most, hint)


def too_large(most: int, hint: str) -> Refusal:
    """The refusal of a body with more than `most` bytes."""
    return Refusal("too_large", f"the body has more than {most / MB:g} MB", hint=hint)


async def read_chunks(request: Request, most: int, seconds: float) -> AsyncIterator[bytes]:
    """The body of a request with several photos, chunk by chunk.

    seconds: the longest wait for a chunk.   Raises Refusal, or ClientDisconnect.
    """
    count, chunks = 0, request.stream().__aiter__()
    while True:
        try:
            chunk = await asyncio.wait_for(chunks.__anext__(), seconds)
        except StopAsyncIteration:
            return
        except asyncio.TimeoutError:
            raise Refusal("upload_timeout", f"no data was received for {seconds:g} seconds") from None
        count += len(chunk)
        if count > most:
            raise too_large(most, "send fewer photos in a request")
        if chunk:
            yield chunk
