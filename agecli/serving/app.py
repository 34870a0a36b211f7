"""The ASGI app: routes, errors as JSON, and loading of the model in the background."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agecli.serving import api
from agecli.serving.access import Access
from agecli.serving.engine import Engine
from agecli.serving.metrics import Metrics
from agecli.serving.page import page
from agecli.serving.refusals import Refusal
from agecli.serving.settings import Settings

log = logging.getLogger("agecli")
ROUTES = [
    Route("/", page),
    Route("/v1/predict", api.predict, methods=["POST"]),
    Route("/v1/predict/batch", api.predict_batch, methods=["POST"]),
    Route("/healthz", api.healthz),
    Route("/readyz", api.readyz),
    Route("/metrics", api.metrics),
    Route("/openapi.json", api.openapi),
]
CODES = {
    404: ("not_found", "there is no such path", "see /openapi.json"),
    405: ("method_not_allowed", "this path has no such method", "see /openapi.json"),
}


def make_app(settings: Settings, failed: Callable[[BaseException], None]) -> Access:
    """The app of a server.   failed: called with the error if the model can't be loaded"""
    metrics = Metrics()

    def loaded(loading: asyncio.Future[None]) -> None:
        if error := loading.exception():
            failed(error)
        else:
            log.info("ready")

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        """Load the model while the server starts; end all processes with it."""
        engine = app.state.engine = Engine(settings, metrics)
        loading = asyncio.ensure_future(asyncio.to_thread(engine.load))
        loading.add_done_callback(loaded)
        try:
            yield
        finally:
            await asyncio.wait((loading,))
            await asyncio.to_thread(engine.close)

    app = Starlette(
        routes=ROUTES,
        lifespan=lifespan,
        exception_handlers={Refusal: _refuse, HTTPException: _refuse_route, Exception: _apologise},
    )
    app.router.redirect_slashes = False
    return Access(app, settings, metrics)  # outermost, so that errors of the server itself have its headers, too


async def _refuse(request: Request, error: Exception) -> Response:
    """A Refusal as its answer."""
    assert isinstance(error, Refusal)
    return error.response()


async def _refuse_route(request: Request, error: Exception) -> Response:
    """An unknown path or method."""
    assert isinstance(error, HTTPException)
    code, reason, hint = CODES.get(error.status_code, ("bad_request", "the request can't be read", ""))
    return Refusal(code, reason, hint, error.headers).response()


async def _apologise(request: Request, error: Exception) -> Response:
    """A bug: the traceback goes to the log, not to the client."""
    return Refusal("internal", "an error of the server itself; its log has more").response()
