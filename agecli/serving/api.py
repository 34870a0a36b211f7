"""The API: handlers of `/v1/predict`, `/v1/predict/batch` and the state of the server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Iterable
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from agecli.core.records import Record
from agecli.prediction.options import Options
from agecli.serving.batch_requests import LinesResponse, stream_batch
from agecli.serving.bodies import check_length, read_photo
from agecli.serving.engine import Engine, Loaded, PhotoOptions
from agecli.serving.metrics import MEDIA_TYPE, resident_memory
from agecli.serving.openapi import description
from agecli.serving.parts import reader_of
from agecli.serving.queries import photo_options
from agecli.serving.refusals import Refusal

GONE = Response(status_code=499)  # to a client that has closed its connection: nobody receives it


async def predict(request: Request) -> Response:
    """`POST /v1/predict`: the records of the photo in the body."""
    engine = engine_of(request)
    options = photo_options(request.query_params)
    if request.headers.get("content-type", "").startswith("multipart/"):
        raise Refusal("not_a_picture", "the body is a form", hint="send the photo itself, or use /v1/predict/batch")
    loaded, settings = engine.check_ready(), engine.settings
    try:
        with engine.uploads.hold() as hold:
            data = await read_photo(request, settings.body_bytes, settings.upload_timeout, hold)
            with engine.queue.place():
                records = await unless_gone(request, engine.records(data, options))
    except ClientDisconnect:
        return GONE
    body = {"model": model_of(loaded), "records": list(rows(records, loaded, options))}
    return Response(json.dumps(body), media_type="application/json")


async def predict_batch(request: Request) -> Response:
    """`POST /v1/predict/batch`: the records of all photos in a form or a tar archive, as JSON lines in their order."""
    engine = engine_of(request)
    options = photo_options(request.query_params)
    reader = reader_of(request.headers.get("content-type", ""), engine.settings.body_bytes)
    loaded = engine.check_ready()
    check_length(request, engine.settings.batch_bytes, "send fewer photos in a request")
    records = stream_batch(request, engine, reader, options)
    try:
        first = await records.__anext__()
    except StopAsyncIteration:
        raise Refusal("unreadable", "the body has no photos") from None
    except ClientDisconnect:
        return GONE

    def line(group: list[Record]) -> bytes:
        return "".join(json.dumps(row) + "\n" for row in rows(group, loaded, options)).encode()

    return LinesResponse(first, records, line, {"Agecli-Model": loaded.name, "Agecli-Model-SHA256": loaded.sha256})


async def healthz(request: Request) -> Response:
    """`GET /healthz`: the process answers."""
    return Response('{"status": "ok"}', media_type="application/json")


async def readyz(request: Request) -> Response:
    """`GET /readyz`: the model is loaded."""
    engine_of(request).check_ready()
    return Response('{"status": "ready"}', media_type="application/json")


async def metrics(request: Request) -> Response:
    """`GET /metrics`: for Prometheus."""
    engine = engine_of(request)
    gauges = {
        "agecli_ready": ("Whether the model is loaded.", float(engine.loaded is not None)),
        "agecli_queue_photos": ("Photos that wait or are processed.", engine.queue.count),
        "agecli_queue_limit": ("Photos that may wait or be processed.", engine.queue.size),
        "agecli_upload_bytes": ("Bytes of uploads in memory.", engine.uploads.used),
        "process_resident_memory_bytes": ("Resident memory of the server without its workers.", resident_memory()),
    }
    return Response(engine.metrics.text(gauges, model_of(engine.loaded)), media_type=MEDIA_TYPE)


async def openapi(request: Request) -> Response:
    """`GET /openapi.json`: the description of this API."""
    return Response(json.dumps(description(engine_of(request).settings)), media_type="application/json")


def engine_of(request: Request) -> Engine:
    """The engine of the app."""
    engine: Engine = request.app.state.engine
    return engine


def model_of(loaded: Loaded | None) -> dict[str, str]:
    """The name and the hash of the model's file; empty while it is loading."""
    return {"name": loaded.name, "sha256": loaded.sha256} if loaded else {}


def rows(records: Iterable[Record], loaded: Loaded, options: PhotoOptions) -> Iterable[dict[str, Any]]:
    """Records as `agecli predict --format jsonl` writes them."""
    shift = loaded.estimator.card.shift is not None
    columns = Options(distribution=options.distribution).columns(shift)
    for record in records:
        row = record.row()
        yield {name: row.get(name) for name in columns}


async def unless_gone(request: Request, work: Coroutine[Any, Any, list[Record]]) -> list[Record]:
    """The result of some work, which is cancelled if the client closes the connection: then raises ClientDisconnect."""
    task, gone = asyncio.ensure_future(work), asyncio.ensure_future(request.receive())
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnect
        return task.result()
    finally:
        task.cancel()
        gone.cancel()
