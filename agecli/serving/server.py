"""The HTTP server: a socket, uvicorn with time limits on connections, and a graceful stop."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from agecli.core.errors import InputError
from agecli.core.signals import stop_flag
from agecli.serving.access import SECURITY_HEADERS
from agecli.serving.app import make_app
from agecli.serving.refusals import Refusal
from agecli.serving.settings import Settings, is_loopback

log = logging.getLogger("agecli")
MOST_CONNECTIONS = 500  # more get 503; a process may usually have 1024 open files
HEAD_SECONDS = 10  # for the head of a request on an open connection
READ_SECONDS = 60  # for a client to read what is ready for it, beyond 64 KB
KEEP_ALIVE = 5  # seconds that an idle connection stays open
POLL_EVERY = 0.1  # seconds


class Connection(H11Protocol):
    """A connection that is closed if the head of its next request does not arrive within HEAD_SECONDS.

    So is one whose client does not read an answer for READ_SECONDS. uvicorn has no such limits: connections that send or
    read nothing would take all places.
    """

    head_timer: asyncio.TimerHandle | None = None
    read_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client has connected."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """A client has sent something."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """An answer was sent."""
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has ended."""
        super().connection_lost(exc)
        self._stop_watching()
        self._stop_waiting()

    def pause_writing(self) -> None:
        """The client does not read as quickly as answers are written."""
        super().pause_writing()
        self.read_timer = self.loop.call_later(READ_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """The client has read."""
        super().resume_writing()
        self._stop_waiting()

    def _stop_waiting(self) -> None:
        if self.read_timer:
            self.read_timer.cancel()
            self.read_timer = None

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are no HTTP request, in the form of all errors."""
        body = Refusal("bad_request", "the request is not valid HTTP").response()
        headers = [*body.raw_headers, *((k.lower().encode(), v.encode()) for k, v in SECURITY_HEADERS.items())]
        headers.append((b"connection", b"close"))
        for event in (
            h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
            h11.Data(data=bytes(body.body)),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _watch(self) -> None:
        """Start the timer if no request is in progress, else stop it."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_watching()
        elif self.head_timer is None:
            self.head_timer = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def _stop_watching(self) -> None:
        if self.head_timer:
            self.head_timer.cancel()
            self.head_timer = None


class Server(uvicorn.Server):
    """uvicorn's server, which stops when a flag is set; signals are handled by `core.signals`."""

    def __init__(self, config: uvicorn.Config, stop: threading.Event) -> None:
        super().__init__(config)
        self.stop = stop

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signal handlers as they are."""
        yield

    async def on_tick(self, counter: int) -> bool:
        """Called every 0.1 seconds: whether to stop."""
        return await super().on_tick(counter) or self.stop.is_set()


def log_uvicorn() -> None:
    """Warnings of uvicorn go where ours go. A cancelled request is none: that is what a second signal does."""
    messages = logging.getLogger("uvicorn.error")
    messages.handlers, messages.propagate = log.handlers, False
    messages.setLevel(logging.WARNING)
    messages.addFilter(lambda record: not (record.exc_info and record.exc_info[0] is asyncio.CancelledError))
    messages.addFilter(lambda record: not isinstance(record.msg, str) or "CancelledError" not in record.msg)


def run_server(settings: Settings) -> None:
    """Serve until SIGINT or SIGTERM: then requests in progress are answered, and all processes end.

    Raises InputError if the address can't be used, and what loading the model raises.
    """
    failures: list[BaseException] = []
    with (
        listen_on(settings.host, settings.port) as listener,
        stop_flag("stopping when all requests are answered") as stop,
    ):

        def failed(error: BaseException) -> None:
            failures.append(error)
            stop.set()

        config = uvicorn.Config(make_app(settings, failed), **_options(settings))
        say_where(settings, listener)
        log_uvicorn()
        Server(config, stop).run(sockets=[listener])
    if failures:
        raise failures[0]


def _options(settings: Settings) -> dict[str, Any]:
    """The settings of uvicorn: no access log, since paths can hold names; no proxy headers, since nothing uses them."""
    return {
        "http": Connection,
        "ws": "none",
        "loop": "asyncio",
        "lifespan": "on",
        "log_config": None,
        "access_log": False,
        "proxy_headers": False,
        "server_header": False,
        "limit_concurrency": MOST_CONNECTIONS,
        "timeout_keep_alive": KEEP_ALIVE,
        "timeout_graceful_shutdown": int(settings.timeout) + 1,
    }


def listen_on(host: str, port: int) -> socket.socket:
    """A listening socket. Raises InputError if the address can't be used."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=1024)
    except (OSError, OverflowError, UnicodeError) as error:
        raise InputError(
            f"can't listen on {host}, port {port}: {getattr(error, 'strerror', None) or error}",
            hint="is another server running there? Choose another --port; 0 takes a free one",
        ) from None


def say_where(settings: Settings, listener: socket.socket) -> None:
    """Log the address, and a warning if anyone can use it."""
    host, port = listener.getsockname()[:2]
    log.info("serving on http://%s:%d (Ctrl-C stops it)", f"[{host}]" if ":" in host else host, port)
    if settings.token is None and not is_loopback(settings.host):
        log.warning("anyone who can reach this address can use it: there is no token")
