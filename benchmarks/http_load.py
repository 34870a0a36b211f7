"""A bounded HTTP client for load tests: a number of keep-alive connections, each with one request at a time."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

PATH = "/v1/predict"


@dataclass
class Load:
    """What became of some requests."""

    seconds: float = 0.0  # from the first to the last
    times: list[float] = field(default_factory=list)  # of each answer, in seconds
    statuses: Counter[int] = field(default_factory=Counter)  # 0 is a connection that was closed without an answer

    @property
    def rate(self) -> float:
        """Answers per second."""
        return len(self.times) / self.seconds

    def quantile(self, share: float) -> float:
        """The time that a share of the answers did not exceed, in milliseconds."""
        ordered = sorted(self.times)
        return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def load(
    port: int,
    bodies: Sequence[bytes],
    connections: int,
    path: Callable[[int], str] = lambda number: PATH,
    kind: Callable[[int], str] = lambda number: "image/jpeg",
) -> Load:
    """Send each body once, over so many connections.   path, kind: of the request with this number"""
    return asyncio.run(_load(port, bodies, connections, path, kind))


async def _load(
    port: int, bodies: Sequence[bytes], connections: int, path: Callable[[int], str], kind: Callable[[int], str]
) -> Load:
    result, numbers = Load(), iter(range(len(bodies)))
    began = time.perf_counter()
    users = (_use(port, bodies, numbers, result, path, kind) for _ in range(connections))
    await asyncio.gather(*users)
    result.seconds = time.perf_counter() - began
    return result


async def _use(
    port: int,
    bodies: Sequence[bytes],
    numbers: Iterator[int],
    result: Load,
    path: Callable[[int], str],
    kind: Callable[[int], str],
) -> None:
    """One connection, which is opened again where the server closes it."""
    streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
    for number in numbers:
        if streams is None:
            streams = await asyncio.open_connection("127.0.0.1", port)
        reader, writer = streams
        head = f"POST {path(number)} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind(number)}\r\n"
        began = time.perf_counter()
        try:
            writer.write(f"{head}Content-Length: {len(bodies[number])}\r\n\r\n".encode() + bodies[number])
            await writer.drain()
            status = await _read_answer(reader)
        except (ConnectionError, asyncio.IncompleteReadError):
            status = 0
        result.times.append(time.perf_counter() - began)
        result.statuses[status] += 1
        if status == 0:
            writer.close()
            streams = None
    if streams:
        streams[1].close()


async def _read_answer(reader: asyncio.StreamReader) -> int:
    """The status of an answer whose body is read to its end."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    status = int(head.split()[1])
    if "transfer-encoding: chunked" in head:
        while size := int(await reader.readuntil(b"\r\n"), 16):
            await reader.readexactly(size + 2)
        await reader.readexactly(2)
    elif status != 204:
        await reader.readexactly(int(head.partition("content-length: ")[2].split("\r\n")[0]))
    return status
