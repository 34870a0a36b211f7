"""Settings of the server: where it listens, who may use it, and its limits."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from urllib.parse import urlsplit

from agecli.core.errors import InputError
from agecli.core.parallel import check_workers
from agecli.core.worker_process import Limits
from agecli.prediction.options import check_batch_size

LEAST_TOKEN = 16  # characters
NEW_TOKEN = "python -c 'import secrets; print(secrets.token_urlsafe())'"
HOST_NAME = re.compile(r"[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?", re.ASCII)


@dataclass(frozen=True)
class Settings:
    """All settings of the server. Raises InputError for values that can't be used, or that would expose it by accident.

    host, port: where it listens; port 0 takes a free one.
    token: clients send it as `Authorization: Bearer TOKEN`; None accepts anyone who can connect.
    no_token: allows another host than loopback without a token.
    allow_hosts: names in the Host header beside the address itself, as behind a reverse proxy.
    origins: web pages of other origins that may use the API (CORS), as `https://example.org`.

        Settings(host="0.0.0.0", token=secrets.token_urlsafe(), allow_hosts=("age.example.org",))
    """

    host: str = "127.0.0.1"
    port: int = 8000
    token: str | None = None
    no_token: bool = False
    allow_hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    model: Path | None = None  # None is the bundled model
    device: str = "auto"
    workers: int = 1  # processes that decode photos and find faces
    batch_size: int = 32  # faces per run of the model
    queue: int = 128  # photos that wait or are processed; more get 429
    max_body: float = 20  # MB (10^6 bytes) of one photo
    max_pixels: float = 50  # megapixels of one photo, as its header says
    max_batch: int = 1000  # photos in one request
    max_memory: float = 1.0  # GB of a worker process
    timeout: float = 20  # seconds from the end of the upload to the answer
    upload_timeout: float = 60  # seconds for the upload of one photo

    def __post_init__(self) -> None:
        check_workers(self.workers)
        check_batch_size(self.batch_size)
        Limits.of(self.max_memory, self.timeout)
        for name, least in (("queue", 1), ("max_body", 0.001), ("max_pixels", 0.01), ("max_batch", 1)):
            if not least <= getattr(self, name) < 1e6:
                option = f"--{name.replace('_', '-')}"
                raise InputError(f"{option} {getattr(self, name):g} is out of range", hint=f"use {least} or more")
        if not 0.1 <= self.upload_timeout < 1e6:
            raise InputError(f"--upload-timeout {self.upload_timeout:g} is out of range", hint="use 0.1 or more")
        self._check_access()

    def _check_access(self) -> None:
        """Check who may use the server."""
        if self.token is not None and (len(self.token) < LEAST_TOKEN or not self.token.isascii()):
            raise InputError(
                f"the token has fewer than {LEAST_TOKEN} characters, or others than ASCII",
                hint=f"make one: {NEW_TOKEN}",
            )
        if self.token is None and not self.no_token and not is_loopback(self.host):
            raise InputError(
                f"--host {self.host} lets other machines use this server without a token",
                hint=f"put one into a file ({NEW_TOKEN}) and name it with --token-file; or accept it with --no-token",
            )
        for name in self.allow_hosts:
            if not HOST_NAME.fullmatch(name.lower()):
                raise InputError(f"--allow-host {name} is no host name", hint="write it without scheme and port")
        for origin in self.origins:
            parts = urlsplit(origin)
            if (
                parts.scheme not in ("http", "https")
                or not parts.netloc
                or origin != f"{parts.scheme}://{parts.netloc}"
            ):
                raise InputError(
                    f"--origin {origin} is no origin", hint="write scheme and host, as in --origin https://example.org"
                )

    @cached_property
    def body_bytes(self) -> int:
        """Most bytes of one photo."""
        return int(self.max_body * 1e6)

    @cached_property
    def upload_bytes(self) -> int:
        """Most bytes of all photos in memory together."""
        return max(8 * self.body_bytes, 256_000_000)

    @cached_property
    def batch_bytes(self) -> int:
        """Most bytes of one request with several photos, which is not held in memory."""
        return 50 * self.body_bytes

    def accepts_host(self, host: str) -> bool:
        """Whether a Host header is ours: a web page whose name leads to our address (DNS rebinding) sends its own name.

        >>> Settings().accepts_host("localhost:8000"), Settings().accepts_host("evil.example")
        (True, False)
        """
        name = host_name(host)
        if name is None:
            return False
        if name in (other.lower() for other in self.allow_hosts):
            return True
        if is_loopback(self.host):
            return is_loopback(name)
        if self.host in ("0.0.0.0", "::"):  # an address is never the name of somebody else's page
            return is_loopback(name) or _address(name) is not None
        return name == self.host.lower()

    def accepts_origin(self, origin: str, host: str) -> bool:
        """Whether the page that sends a request is ours, or one of `origins`.   host: the request's Host header"""
        return origin in self.origins or (origin.partition("://")[2].lower() == host.lower() != "")


def host_name(host: str) -> str | None:
    """The name or address in a Host header, in lower case and without its port; None if it is malformed.

    >>> host_name("[::1]:8000"), host_name("Example.org"), host_name("a b")
    ('::1', 'example.org', None)
    """
    match = re.fullmatch(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9_.-]+))(?::\d{1,5})?", host.lower(), re.ASCII)
    return (match[1] or match[2]) if match else None


def is_loopback(host: str) -> bool:
    """Whether a host can be reached from this machine only."""
    address = _address(host)
    return host.lower() == "localhost" or (address is not None and address.is_loopback)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
