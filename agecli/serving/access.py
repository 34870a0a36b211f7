"""Access: who may send requests (Host, Origin, token), and the security headers of every answer."""

from __future__ import annotations

import hashlib
import hmac
import logging
import time

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agecli.serving.metrics import Metrics
from agecli.serving.refusals import Refusal
from agecli.serving.settings import Settings

log = logging.getLogger("agecli")
PATHS = ("/", "/v1/predict", "/v1/predict/batch", "/healthz", "/readyz", "/metrics", "/openapi.json")
OPEN = ("/", "/healthz", "/readyz", "/openapi.json")  # without the token: nothing about photos, and no work
SECURITY_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
ALLOWED = {  # the answer to a preflight request of one of `--origin`
    "Access-Control-Allow-Methods": "GET, POST",
    "Access-Control-Allow-Headers": "Authorization, Content-Type",
    "Access-Control-Max-Age": "600",
}


class Access:
    """ASGI middleware around the whole app. Logs method, path, status and time of a request; nothing else of it."""

    def __init__(self, app: ASGIApp, settings: Settings, metrics: Metrics) -> None:
        self.app, self.settings, self.metrics = app, settings, metrics
        self.token = None if settings.token is None else _digest(settings.token.encode())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers, began, status = Headers(scope=scope), time.perf_counter(), 0
        origin = headers.get("origin")
        shared = origin if origin in self.settings.origins else None  # with a page of another origin

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                _add_headers(MutableHeaders(scope=message), shared, bool(self.settings.origins))
            await send(message)

        answer = self._refusal(scope, headers)
        if answer is None and shared and _is_preflight(scope, headers):
            answer = Response(status_code=204, headers=ALLOWED)
        try:
            await (answer or self.app)(scope, receive, send_with_headers)
        finally:
            path, seconds = scope["path"] if scope["path"] in PATHS else "other", time.perf_counter() - began
            self.metrics.add_request(path, status, seconds)
            log.debug("%s %s %d %.0f ms", _method(scope), path, status, 1000 * seconds)

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        """The answer to a request that may not be made; None for all others."""
        try:
            self._check(scope, headers)
        except Refusal as refusal:
            return refusal.response()
        return None

    def _check(self, scope: Scope, headers: Headers) -> None:
        """Raises Refusal for another host name than ours, a page of another site, or a wrong token."""
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self.settings.accepts_host(hosts[0]):
            raise Refusal("misdirected", "the Host header is not a name of this server", hint="see --allow-host")
        origin = headers.get("origin")
        if origin is not None and not self.settings.accepts_origin(origin, hosts[0]):
            raise Refusal("forbidden", "pages of other sites may not use this server", hint="see --origin")
        if origin is None and scope["method"] not in ("GET", "HEAD") and headers.get("sec-fetch-site") in CROSS:
            raise Refusal("forbidden", "pages of other sites may not use this server", hint="see --origin")
        needed = self.token is not None and scope["path"] not in OPEN and not _is_preflight(scope, headers)
        if needed and not self._knows_token(headers.get("authorization", "")):
            raise Refusal(
                "unauthorized",
                "the token is missing or wrong",
                hint="send the header `Authorization: Bearer TOKEN`",
                headers={"WWW-Authenticate": "Bearer"},
            )

    def _knows_token(self, authorization: str) -> bool:
        """Compare the token in constant time: the time tells nothing about how much of it was right."""
        scheme, _, token = authorization.partition(" ")
        given = _digest(token.strip().encode("utf-8", "surrogateescape"))
        return hmac.compare_digest(given, self.token or b"") and scheme.lower() == "bearer"


CROSS = ("cross-site", "same-site")  # values of Sec-Fetch-Site


def _digest(token: bytes) -> bytes:
    """A hash, so that the comparison does not depend on the length either."""
    return hashlib.sha256(token).digest()


def _is_preflight(scope: Scope, headers: Headers) -> bool:
    """Whether a browser asks if a page of another origin may send a request. It sends no token with it."""
    return scope["method"] == "OPTIONS" and "access-control-request-method" in headers and "origin" in headers


def _add_headers(headers: MutableHeaders, origin: str | None, varies: bool) -> None:
    """Security headers; and those of CORS for an allowed origin."""
    for name, value in SECURITY_HEADERS.items():
        headers.setdefault(name, value)
    if varies:
        headers.add_vary_header("Origin")
    if origin:
        headers["Access-Control-Allow-Origin"] = origin
        headers["Cross-Origin-Resource-Policy"] = "cross-origin"


def _method(scope: Scope) -> str:
    """The method of a request, for the log; what a client made up is not shown."""
    return scope["method"] if scope["method"] in ("GET", "HEAD", "POST", "OPTIONS") else "other"
