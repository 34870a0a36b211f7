"""`agecli serve`: options of the server."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from agecli.cli.options import MAX_MEMORY, Device, MaxMemory, Quiet, Verbose, listen
from agecli.core.extras import require

ACCESS, LIMITS = "Access", "Limits"  # groups of options
TOKEN = "AGECLI_TOKEN"  # environment variable


def serve(
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 8000,
    model: Annotated[
        Path | None,
        typer.Option(
            *("--model", "-m"), help="A checkpoint (.safetensors) or an exported model (.onnx).", show_default="default"
        ),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            help=f"A file with the token that clients must send; or set {TOKEN}.",
            show_default="none",
            rich_help_panel=ACCESS,
        ),
    ] = None,
    no_token: Annotated[
        bool,
        typer.Option("--no-token", help="Let other machines use it without a token.", rich_help_panel=ACCESS),
    ] = False,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="Another name of this server, as behind a proxy. Can be repeated.", rich_help_panel=ACCESS),
    ] = None,
    origin: Annotated[
        list[str] | None,
        typer.Option(help="Web pages of this origin may use the API (CORS). Can be repeated.", rich_help_panel=ACCESS),
    ] = None,
    queue: Annotated[int, typer.Option(help="Photos that may wait; more get 429.", rich_help_panel=LIMITS)] = 128,
    max_body: Annotated[float, typer.Option(metavar="MB", help="Most bytes of a photo.", rich_help_panel=LIMITS)] = 20,
    max_pixels: Annotated[
        float, typer.Option(metavar="MP", help="Most pixels of a photo, in millions.", rich_help_panel=LIMITS)
    ] = 50,
    max_batch: Annotated[int, typer.Option(help="Most photos in a request.", rich_help_panel=LIMITS)] = 1000,
    max_memory: MaxMemory = MAX_MEMORY,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", help="Most time from upload to answer.", rich_help_panel=LIMITS)
    ] = 20,
    upload_timeout: Annotated[
        float, typer.Option(metavar="SECONDS", help="Most time for the upload of a photo.", rich_help_panel=LIMITS)
    ] = 60,
    batch_size: Annotated[int, typer.Option(help="Faces per batch.")] = 32,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes that read photos and find faces.", show_default="all cores")
    ] = None,
    device: Device = "auto",
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Serve a web page and an HTTP API that estimate ages, on this machine only unless you say otherwise.

    Example: agecli serve --port 8080, then open http://127.0.0.1:8080
    """
    listen(quiet, verbose)
    require("starlette", "uvicorn", "python_multipart", needed_by="`agecli serve`")
    from agecli.core.parallel import cores
    from agecli.serving.serve import serve as run

    run(
        host=host,
        port=port,
        token=read_token(token_file),
        no_token=no_token,
        allow_hosts=allow_host or (),
        origins=origin or (),
        model=model,
        device=device,
        workers=workers or cores(),
        batch_size=batch_size,
        queue=queue,
        max_body=max_body,
        max_pixels=max_pixels,
        max_batch=max_batch,
        max_memory=max_memory,
        timeout=timeout,
        upload_timeout=upload_timeout,
    )


def read_token(path: Path | None) -> str | None:
    """The token in a file, else in the environment, from which it is removed: worker processes must not have it.

    Raises InputError if both are given, or the file is no short text.
    """
    from agecli.core.errors import InputError

    given = os.environ.pop(TOKEN, None)
    if path is None:
        return given
    if given is not None:
        raise InputError(f"both --token-file and {TOKEN} are given", hint="use one of them")
    text = path.read_text(encoding="utf-8", errors="replace")[:10_000].strip()
    if not text or len(text.split()) != 1:
        raise InputError(f"{path} holds no token", hint="write the token into it, and nothing else")
    return text
