"""Load, memory and robustness of `agecli serve`, from a second process on loopback.

    python -m benchmarks.serving FOLDER [--photos 1000] [--requests 10000] [--only load memory slow full fuzz kill]

FOLDER holds photos. The rate is compared with `agecli predict` on the same photos in the same run: its whole time, and
without its start-up, which is the time for one photo.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from agecli.prediction.paths import expand
from benchmarks.http_load import PATH, Load, load
from benchmarks.prediction import PREDICT, memory_of, seconds
from tests.serving.running import Running, running, samples, wait_until

CONNECTIONS = (1, 8, 64)
KINDS = ("image/jpeg", "multipart/form-data; boundary=cut", "application/x-tar")


def say(name: str, result: Load) -> None:
    """Print the rate, the times and the statuses of some requests."""
    times = f"p50 {result.quantile(0.5):.0f} ms, p99 {result.quantile(0.99):.0f} ms"
    print(f"{name}: {result.rate:.1f} requests/s, {times}, {dict(result.statuses)}", flush=True)


def compare(photos: list[Path], names: Path) -> None:
    """Requests per second by the number of connections, before and after `agecli predict` on the same photos."""
    bodies = [path.read_bytes() for path in photos]
    with serving() as server:
        load(server.port, bodies[:50], 8)
        results = {connections: load(server.port, bodies, connections) for connections in CONNECTIONS}
    start = min(seconds(*PREDICT, str(photos[0]), "-o", os.devnull) for _ in range(3))
    whole = min(seconds(*PREDICT, f"@{names}", "-o", os.devnull) for _ in range(2))
    with serving() as server:
        load(server.port, bodies[:50], 8)
        again = {connections: load(server.port, bodies, connections) for connections in CONNECTIONS}
    rates = len(photos) / whole, (len(photos) - 1) / (whole - start)
    print(
        f"agecli predict, {len(photos)} photos: {rates[0]:.1f} photos/s, {rates[1]:.1f} without its start ({start:.2f} s)"
    )
    for connections in CONNECTIONS:
        best = max(results[connections], again[connections], key=lambda result: result.rate)
        say(f"{connections} connections", best)
        print(f"  ratio to predict {best.rate / rates[0]:.2f}, without its start {best.rate / rates[1]:.2f}")


def measure_memory(photos: list[Path], requests: int) -> None:
    """Memory of all processes after a tenth of the requests, and after all of them."""
    bodies = [path.read_bytes() for path in photos]
    with serving() as server:
        few = memory_after(server, bodies, requests // 10)
        more = memory_after(server, bodies, requests - requests // 10)
        ratio = more / few
        print(f"memory after {requests // 10} requests {few:.0f} MB, after {requests} {more:.0f} MB: {ratio:.3f}")


def memory_after(server: Running, bodies: list[bytes], requests: int) -> float:
    """Send requests over 8 connections, and return the memory of the server's processes in MB."""
    result = load(server.port, (bodies * (requests // len(bodies) + 1))[:requests], 8)
    say(f"{requests} requests", result)
    return memory_of(server.process.pid) / 1e6


def slow_uploads(photos: list[Path]) -> None:
    """The rate over 8 connections while 64 others send a byte in a tenth of a second."""
    bodies = [path.read_bytes() for path in photos]
    with serving() as server:
        load(server.port, bodies[:50], 8)
        alone = load(server.port, bodies, 8)
        slow = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(64)]
        for connection in slow:
            connection.sendall(f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999\r\n\r\n".encode())
        stop = threading.Event()

        def drip() -> None:
            while not stop.wait(0.1):
                for connection in slow:
                    connection.sendall(b"x")

        thread = threading.Thread(target=drip)
        thread.start()
        beside = load(server.port, bodies, 8)
        stop.set()
        thread.join()
        say("8 connections alone", alone)
        say("8 connections beside 64 slow uploads", beside)
        print(f"  ratio {beside.rate / alone.rate:.2f}")


def full_queue(photos: list[Path]) -> None:
    """Many more requests at a time than the queue takes: each is answered, with 200 or 429."""
    bodies = [path.read_bytes() for path in photos]
    with serving("--queue", "8") as server:
        result = load(server.port, bodies, 64)
        say("64 connections, a queue of 8", result)
        assert set(result.statuses) <= {200, 429}, result.statuses
        assert result.statuses.total() == len(bodies)


def fuzz(photos: list[Path], count: int = 2000) -> None:
    """Damaged photos, forms and archives: an answer to each, none of them an error of the server."""
    random = np.random.default_rng(0)
    bodies = [damaged(photos[number % len(photos)], number % 3, random) for number in range(count)]
    paths = (PATH, f"{PATH}/batch", f"{PATH}/batch")
    with serving() as server:
        workers = server.workers()
        result = load(server.port, bodies, 8, lambda number: paths[number % 3], lambda number: KINDS[number % 3])
        say(f"{count} fuzzed bodies", result)
        assert not {0, 500} & set(result.statuses), result.statuses
        assert result.statuses.total() == count
        replaced = len(set(workers) - set(server.workers()))
        print(
            f"  the server lives: {load(server.port, [photos[0].read_bytes()], 1).statuses}; {replaced} workers replaced"
        )


def damaged(photo: Path, kind: int, random: np.random.Generator) -> bytes:
    """A photo, form or archive with some bytes changed, cut, repeated or moved."""
    data = photo.read_bytes()
    if kind == 1:
        data = b'--cut\r\nContent-Disposition: form-data; name="a"\r\n\r\n' + data + b"\r\n--cut--\r\n"
    elif kind == 2:
        data = subprocess.run(
            ["tar", "cf", "-", "-C", photo.parent, photo.name], check=True, capture_output=True
        ).stdout
    changed = bytearray(data)
    head = 700 if random.random() < 0.5 else len(changed)  # headers matter most
    for place in random.integers(0, min(head, len(changed)), random.integers(1, 30)):
        changed[place] = (0, 255, int(random.integers(256)))[random.integers(3)]
    begin, end = sorted(random.integers(0, len(changed), 2))
    match random.integers(5):
        case 0:
            del changed[begin:end]
        case 1:
            changed[begin:begin] = changed[begin:end]
        case 2:
            del changed[end:]
    return bytes(changed)


def kill_workers(photos: list[Path]) -> None:
    """A worker is killed every half second under load: requests in it are tried again, all others are not affected."""
    bodies = [path.read_bytes() for path in photos]
    with serving() as server:
        load(server.port, bodies[:50], 8)
        stop, killed = threading.Event(), list[int]()

        def kill() -> None:
            while not stop.wait(0.5):
                if workers := server.workers():
                    os.kill(workers[0], signal.SIGKILL)
                    killed.append(workers[0])

        thread = threading.Thread(target=kill)
        thread.start()
        result = load(server.port, bodies, 8)
        stop.set()
        thread.join()
        say(f"{len(killed)} workers killed during {len(bodies)} requests", result)
        print(f"  afterwards: {load(server.port, bodies[:50], 8).statuses}")


@contextmanager
def serving(*options: str) -> Iterator[Running]:
    """A server with as many workers as there are cores, in a session of its own."""
    with running("--workers", len(os.sched_getaffinity(0)), *options, before=("setsid",)) as server:
        wait_until(lambda: samples(server)["agecli_ready"])
        yield server


PARTS: dict[str, Callable[[list[Path], int], None]] = {
    "memory": measure_memory,
    "slow": lambda photos, requests: slow_uploads(photos),
    "full": lambda photos, requests: full_queue(photos),
    "fuzz": lambda photos, requests: fuzz(photos),
    "kill": lambda photos, requests: kill_workers(photos),
}


def main() -> None:
    """Run all measurements, or some of them, on the photos of a folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--photos", type=int, default=1000)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--only", nargs="+", choices=("load", *PARTS), default=("load", *PARTS))
    options = parser.parse_args()
    every = [Path(str(name)).absolute() for name in expand([str(options.folder)])]
    photos = every[:: max(1, len(every) // options.photos)][: options.photos]
    names = Path(f"/tmp/agecli-photos-{os.getpid()}.txt")
    names.write_text("".join(f"{photo}\n" for photo in photos))
    try:
        if "load" in options.only:
            compare(photos, names)
    finally:
        names.unlink()
    for name, part in PARTS.items():
        if name in options.only:
            part(photos, options.requests)


if __name__ == "__main__":
    main()
