"""A real server in a process of its own, and requests to it."""

from __future__ import annotations

import http.client
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

ROOT = Path(__file__).parents[2]
PORTRAIT = ROOT / "docs/example.jpg"
Value = TypeVar("Value")
PATIENCE = 60  # seconds: against hangs only


@dataclass(frozen=True)
class Answer:
    """What a server has answered."""

    status: int
    headers: dict[str, str]  # with names in lower case
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.body.splitlines()]


@dataclass
class Running:
    """A server that runs."""

    process: subprocess.Popen[bytes]
    port: int
    log: list[str] = field(default_factory=list)

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)

    def request(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Send one request on a connection of its own. `_` in the names of headers is written `-`."""
        connection = self.connect()
        try:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, body, named)
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, found, response.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Answer:
        return self.request("GET", path, **headers)

    def post(self, path: str, body: Any, **headers: str) -> Answer:
        return self.request("POST", path, body, **headers)

    def predict(self, photo: bytes | Path, query: str = "", **headers: str) -> Answer:
        body = photo.read_bytes() if isinstance(photo, Path) else photo
        return self.post(f"/v1/predict{query}", body, **headers)

    def workers(self) -> list[int]:
        """The ids of the worker processes: children of the fork server."""
        return [worker for server in children(self.process.pid) for worker in children(server)]

    def wait_for_workers(self, count: int) -> list[int]:
        return wait_until(lambda: found if len(found := self.workers()) == count else [])

    def stop(self) -> int:
        """Send SIGTERM, and return the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        """Wait for the end of the process, and return the exit code."""
        self.log += self.process.communicate(timeout=PATIENCE)[1].decode().splitlines()
        return self.process.returncode


def children(parent: int) -> list[int]:
    """The ids of the child processes."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(path.read_text().rpartition(")")[2].split()[1]) == parent:
                found.append(int(path.parent.name))
        except (OSError, IndexError):  # it has just ended
            continue
    return found


def wait_until(condition: Callable[[], Value]) -> Value:
    """The first true value of a condition. Raises AssertionError if there is none for a long time."""
    deadline = time.monotonic() + PATIENCE
    while not (value := condition()):
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.02)
    return value


@contextmanager
def running(*options: object, before: Sequence[str] = (), **environment: str) -> Iterator[Running]:
    """`agecli serve` with these options on a free port, ready to answer.   before: words in front of the command"""
    command = [*before, sys.executable, "-m", "agecli", "serve", "--port", "0", "--workers", "1", *map(str, options)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **environment}, bufsize=0
    )
    try:
        yield _started(process)
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def _started(process: subprocess.Popen[bytes]) -> Running:
    """Read the port from the first message, and wait for the model."""
    assert process.stderr
    assert select.select([process.stderr], [], [], PATIENCE)[0]
    first = process.stderr.readline().decode()
    match = re.search(r"http://\S+:(\d+) ", first)
    assert match, first + process.stderr.read().decode()
    server = Running(process, int(match[1]), [first])
    wait_until(lambda: server.get("/readyz").status == 200)
    return server


def samples(server: Running) -> dict[str, float]:
    """The metrics of a server, by name and labels. Checks the text format on the way."""
    answer = server.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    text = answer.body.decode()
    assert text.endswith("\n")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    named = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
    for line in lines:
        name = line.partition(" ")[0].partition("{")[0]
        assert name in named or name.rpartition("_")[0] in named, line
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}
