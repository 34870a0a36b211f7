"""`serve`: an HTTP API and a web page for one model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agecli.serving.server import run_server
from agecli.serving.settings import Settings


def serve(
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    token: str | None = None,
    no_token: bool = False,
    allow_hosts: Sequence[str] = (),
    origins: Sequence[str] = (),
    model: str | Path | None = None,
    device: str = "auto",
    workers: int = 1,
    batch_size: int = 32,
    queue: int = 128,
    max_body: float = 20,
    max_pixels: float = 50,
    max_batch: int = 1000,
    max_memory: float = 1.0,
    timeout: float = 20,
    upload_timeout: float = 60,
) -> None:
    """Serve a model over HTTP until SIGINT or SIGTERM. docs/serve.md describes the API.

    host, port: where it listens; port 0 takes a free one.
    token: what clients send as `Authorization: Bearer TOKEN`. Another host than loopback needs one, or `no_token`.
    allow_hosts: names in the Host header beside the address itself, as behind a reverse proxy.
    origins: web pages of other origins that may use the API (CORS), as "https://example.org".
    model, device: as in `agecli.load`.   workers: processes that decode photos and find faces.
    batch_size: faces per run of the model.   queue: photos that may wait or be processed; more are refused (429).
    max_body: MB of one photo.   max_pixels: megapixels of one photo.   max_batch: photos in one request.
    max_memory: GB of a worker process.   timeout: seconds from the end of an upload to the answer.
    upload_timeout: seconds for the upload of one photo.

    Raises InputError or MissingError for settings that can't be used.

    Example: `agecli.serve(port=8080, workers=4)`
    """
    run_server(
        Settings(
            host=host,
            port=port,
            token=token,
            no_token=no_token,
            allow_hosts=tuple(allow_hosts),
            origins=tuple(origins),
            model=None if model is None else Path(model),
            device=device,
            workers=workers,
            batch_size=batch_size,
            queue=queue,
            max_body=max_body,
            max_pixels=max_pixels,
            max_batch=max_batch,
            max_memory=max_memory,
            timeout=timeout,
            upload_timeout=upload_timeout,
        )
    )
