"""Limits: what is too large, too slow, too much or hostile costs its own request and nothing else."""

from __future__ import annotations

import os
import signal
import socket
import struct
import time
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image

from tests.serving.conftest import encoded
from tests.serving.running import Answer, Running, running, samples, wait_until
from tests.serving.test_api import FORM, form


@pytest.fixture(scope="module")
def strict() -> Iterator[Running]:
    """A server with small limits."""
    limits = ("--max-body", 1, "--max-pixels", 2, "--max-batch", 3, "--queue", 2, "--upload-timeout", 2, "--timeout", 6)
    with running(*limits, "--max-memory", 0.4, "-v") as server:
        yield server


def test_a_body_is_refused_by_its_length_before_it_is_sent(strict: Running) -> None:
    with socket.create_connection(("127.0.0.1", strict.port), timeout=20) as connection:
        head = (
            b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000001\r\nExpect: 100-continue\r\n\r\n"
        )
        connection.sendall(head)
        assert connection.recv(100).split()[1] == b"413"  # and not 100


def test_a_body_without_a_length_is_counted_while_it_arrives(strict: Running) -> None:
    sent = 0

    def endless() -> Iterator[bytes]:
        nonlocal sent
        while sent < 50_000_000:
            sent += 100_000
            yield bytes(100_000)

    try:
        assert strict.post("/v1/predict", endless()).status == 413
    except ConnectionError:  # the server has closed it
        assert sent < 50_000_000
    assert samples(strict)["agecli_upload_bytes"] == 0
    answer = strict.post("/v1/predict", (bytes(200_000) for _ in range(6)))
    assert (answer.status, answer.json["error"]) == (413, "too_large")


def test_too_many_pixels_are_refused_by_the_header(strict: Running) -> None:
    huge = bytearray(encoded(Image.new("RGB", (8, 8)), "PNG"))
    huge[16:24] = struct.pack(">II", 60_000, 60_000)  # 3.6 gigapixels, says the header
    huge[29:33] = struct.pack(">I", zlib.crc32(huge[12:29]))
    truncated = encoded(Image.new("RGB", (2000, 1001)), "PNG")[:200]  # whose pixels could not be decoded
    for body in (bytes(huge), truncated):
        answer = strict.predict(body)
        assert (answer.status, answer.json["error"]) == (413, "too_large")
    assert strict.predict(encoded(Image.new("RGB", (2000, 1000)), "PNG")).status == 200


def test_a_photo_that_exhausts_the_memory_of_its_process_costs_its_own_request(portrait: bytes) -> None:
    with running("--max-memory", 0.3, "--max-pixels", 120) as server:
        bomb = encoded(Image.new("RGBA", (8_000, 8_000)), "PNG", compress_level=1)
        answer = server.predict(bomb)
        assert (answer.status, answer.json["error"]) == (400, "crashed")
        assert "more memory" in answer.json["reason"]
        assert server.predict(portrait).status == 200


def test_a_killed_worker_costs_no_other_request(server: Running, portrait: bytes) -> None:
    (worker,) = server.wait_for_workers(1)
    os.kill(worker, signal.SIGSTOP)  # so that the kill is in mid-request
    with ThreadPoolExecutor(3) as threads:
        answers = [threads.submit(server.predict, portrait) for _ in range(3)]
        wait_until(lambda: samples(server)["agecli_queue_photos"] == 3)
        os.kill(worker, signal.SIGKILL)
        assert [answer.result().status for answer in answers] == [200] * 3
    assert server.wait_for_workers(1) != [worker]


def test_a_photo_whose_worker_is_killed_twice_is_refused_and_the_next_is_answered(
    server: Running, portrait: bytes
) -> None:
    with ThreadPoolExecutor(1) as threads:
        killed: list[int] = []
        os.kill(server.wait_for_workers(1)[0], signal.SIGSTOP)
        answer = threads.submit(server.predict, portrait)
        wait_until(lambda: samples(server)["agecli_queue_photos"] == 1)
        while not answer.done() and len(killed) < 20:
            for worker in server.workers():
                os.kill(worker, signal.SIGKILL)
                killed.append(worker)
        result: Answer = answer.result()
        assert result.status in (200, 400, 503)
    wait_until(lambda: server.predict(portrait).status == 200)


def test_a_full_queue_is_429_with_retry_after_and_no_answer_is_lost(strict: Running, portrait: bytes) -> None:
    (worker,) = strict.wait_for_workers(1)
    os.kill(worker, signal.SIGSTOP)
    try:
        with ThreadPoolExecutor(2) as threads:
            answers = [threads.submit(strict.predict, portrait) for _ in range(2)]
            wait_until(lambda: samples(strict)["agecli_queue_photos"] == 2)
            refused = strict.predict(portrait)
            os.kill(worker, signal.SIGCONT)
            assert [answer.result().status for answer in answers] == [200, 200]
    finally:
        os.kill(worker, signal.SIGCONT)
    assert (refused.status, refused.json["error"]) == (429, "queue_full")
    assert int(refused.headers["retry-after"]) >= 1
    assert strict.predict(portrait).status == 200


def test_a_photo_past_the_deadline_is_504(strict: Running, portrait: bytes) -> None:
    (worker,) = strict.wait_for_workers(1)
    os.kill(worker, signal.SIGSTOP)
    try:
        answer = strict.predict(portrait)
    finally:
        os.kill(worker, signal.SIGCONT)
    assert (answer.status, answer.json["error"]) == (504, "deadline")
    assert strict.predict(portrait).status == 200


def test_a_slow_upload_is_ended_and_blocks_nobody(strict: Running, portrait: bytes) -> None:
    head = b"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nhalf"
    slow = [socket.create_connection(("127.0.0.1", strict.port), timeout=20) for _ in range(64)]
    try:
        for connection in slow:
            connection.sendall(head)
        assert strict.predict(portrait).status == 200
        for connection in slow:
            assert connection.recv(100).split()[1] == b"408"
    finally:
        for connection in slow:
            connection.close()


def test_a_client_that_goes_away_leaves_nothing_behind(strict: Running, portrait: bytes) -> None:
    (worker,) = strict.wait_for_workers(1)
    os.kill(worker, signal.SIGSTOP)
    try:
        for body in (portrait, portrait[:100]):
            with socket.create_connection(("127.0.0.1", strict.port)) as connection:
                head = f"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(portrait)}\r\n\r\n"
                connection.sendall(head.encode() + body)
                time.sleep(0.2)
        gone = 'agecli_requests_total{path="/v1/predict",status="499"}'  # and not 504, which is the deadline
        wait_until(lambda: samples(strict).get(gone) == 2)
        assert samples(strict)["agecli_queue_photos"] == samples(strict)["agecli_upload_bytes"] == 0
    finally:
        os.kill(worker, signal.SIGCONT)


def test_a_batch_has_limits_on_each_photo_and_on_their_number(strict: Running, portrait: bytes) -> None:
    photos = {"a": portrait, "large": bytes(1_000_001), "c": portrait, "d": portrait}
    answer = strict.post("/v1/predict/batch", form(photos), Content_Type=FORM)
    assert [line["status"] for line in answer.lines] == ["ok", "unreadable", "ok", "unreadable"]
    assert [line["source"] for line in answer.lines] == ["a", "large", "c", "-"]
    assert "too large" in answer.lines[1]["error"]
    assert "more than 3 photos" in answer.lines[3]["error"]


def test_a_batch_waits_for_places_in_the_queue_instead_of_being_refused(strict: Running, portrait: bytes) -> None:
    with ThreadPoolExecutor(3) as threads:
        bodies = [form(dict.fromkeys("abc", portrait))] * 3
        answers = threads.map(lambda body: strict.post("/v1/predict/batch", body, Content_Type=FORM), bodies)
        assert [[line["status"] for line in answer.lines] for answer in answers] == [["ok"] * 3] * 3


def test_fuzzed_bodies_are_answered_and_never_an_error_of_the_server(server: Running, portrait: bytes) -> None:
    """A quick sample; benchmarks/serving.py sends 2,000."""
    random = np.random.default_rng(0)
    seeds = [portrait, form({"a": portrait})]
    for number in range(60):
        body = fuzzed(seeds[number % len(seeds)], random)
        path = "/v1/predict" if number % 3 else "/v1/predict/batch"
        kind = ("image/jpeg", FORM, "application/x-tar")[number % 3]
        assert server.post(path, body, Content_Type=kind).status in (200, 400, 413, 415)


def fuzzed(data: bytes, random: np.random.Generator) -> bytes:
    """Some bytes of a file changed, or the file cut."""
    damaged = bytearray(data)
    for place in random.integers(0, len(damaged), 20):
        damaged[place] = random.integers(256)
    return bytes(damaged[: random.integers(1, len(damaged))] if random.random() < 0.3 else damaged)
