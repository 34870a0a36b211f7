"""Requests with many photos: read, processed and answered at the same time, in bounded memory and in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from agecli.core.records import Record
from agecli.prediction.standard_input import NAME
from agecli.serving.bodies import read_chunks
from agecli.serving.engine import Engine, PhotoOptions
from agecli.serving.parts import Part, Reader, read_parts
from agecli.serving.queue import Hold
from agecli.serving.refusals import Refusal

AHEAD = 16  # photos of one request in progress


async def stream_batch(
    request: Request, engine: Engine, reader: Reader, options: PhotoOptions
) -> AsyncIterator[list[Record]]:
    """The records of each photo, in the order of the body.

    The body is read while records are produced, whether or not the client reads them: what is kept are records, not
    photos. Raises Refusal if the body is malformed from the start on; later, the last record says so.
    """
    answers: asyncio.Queue[asyncio.Future[list[Record]] | BaseException | None] = asyncio.Queue()
    producer = asyncio.ensure_future(_produce(request, engine, reader, options, answers))
    count = 0
    try:
        while (answer := await answers.get()) is not None:
            if isinstance(answer, Refusal) and count:
                yield [Record(NAME, status="unreadable", error=f"{answer.reason}, after {count} photos")]
                return
            if isinstance(answer, BaseException):
                raise answer
            yield await answer
            count += 1
    finally:
        producer.cancel()
        while not answers.empty():
            if isinstance(left := answers.get_nowait(), asyncio.Future):
                left.cancel()


async def _produce(
    request: Request,
    engine: Engine,
    reader: Reader,
    options: PhotoOptions,
    answers: asyncio.Queue[asyncio.Future[list[Record]] | BaseException | None],
) -> None:
    """Read the body, and put the future records of each photo into a queue; then None, or the error that ended it."""
    settings, places, count = engine.settings, asyncio.Semaphore(AHEAD), 0
    chunks = read_chunks(request, settings.batch_bytes, settings.upload_timeout)
    try:
        async for part in read_parts(chunks, reader):
            if count == settings.max_batch:
                raise Refusal("too_large", f"there are more than {count} photos", hint="send several requests")
            count += 1
            await places.acquire()
            size = len(part.data or b"")
            await engine.uploads.until_free(size)
            hold = Hold(engine.uploads)
            hold.add(size)
            answer = asyncio.ensure_future(_answer(engine, part, options, hold))
            answer.add_done_callback(lambda _: places.release())
            answers.put_nowait(answer)
        answers.put_nowait(None)
    except (Refusal, ClientDisconnect) as error:
        answers.put_nowait(error)
    except Exception as error:
        answers.put_nowait(error)
        raise


async def _answer(engine: Engine, part: Part, options: PhotoOptions, hold: Hold) -> list[Record]:
    """The records of one photo; it waits for a place in the queue, and is never refused."""
    try:
        if part.data is None:
            reason = f"it is too large, over {engine.settings.max_body:g} MB: shrink it first"
            return [Record(part.name, status="unreadable", error=reason)]
        await engine.queue.until_free()
        with engine.queue.place():
            records = await engine.records(part.data, options)
        return [replace(record, source=part.name) for record in records]
    except Refusal as refusal:
        status = "crashed" if refusal.code in ("crashed", "deadline", "loading") else "unreadable"
        return [Record(part.name, status=status, error=refusal.reason)]
    finally:
        hold.release()


class LinesResponse(Response):
    """Newline-delimited JSON (NDJSON), a line for each record as soon as it is known.

    Unlike Starlette's StreamingResponse it does not call `receive`, because the body is still being read.
    """

    def __init__(
        self,
        first: list[Record],
        rest: AsyncIterator[list[Record]],
        line: Callable[[list[Record]], bytes],
        headers: dict[str, str],
    ) -> None:
        super().__init__(headers=headers, media_type="application/x-ndjson")
        del self.headers["content-length"]
        self.first, self.rest, self.line = first, rest, line

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the lines. A client that is gone ends the work."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": self.line(self.first), "more_body": True})
        try:
            async for group in self.rest:
                await send({"type": "http.response.body", "body": self.line(group), "more_body": True})
        except ClientDisconnect:
            pass
        await send({"type": "http.response.body", "body": b"", "more_body": False})
