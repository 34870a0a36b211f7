"""The server as a process: it starts, says what is wrong, keeps nothing, and stops gracefully."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from agecli.core.errors import AgecliError, MissingError
from agecli.serving import engine, server
from agecli.serving.app import make_app
from agecli.serving.settings import Settings
from tests.conftest import Cli, invoke
from tests.serving.running import ROOT, Running, running, samples, wait_until
from tests.serving.test_api import FORM, form, tar

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LARGE = 30_000_000  # bytes: more than what sockets keep
SECRET = "holiday-of-anna"


def test_sigterm_answers_what_is_in_progress_and_ends_all_processes(portrait: bytes) -> None:
    with running() as started:
        (worker,) = started.wait_for_workers(1)
        os.kill(worker, signal.SIGSTOP)
        with ThreadPoolExecutor(1) as threads:
            answer = threads.submit(started.predict, portrait)
            wait_until(lambda: samples(started)["agecli_queue_photos"] == 1)
            started.process.send_signal(signal.SIGTERM)
            wait_until(lambda: not listens(started.port))
            os.kill(worker, signal.SIGCONT)
            assert answer.result().status == 200
        assert started.wait() == 0
        wait_until(lambda: not Path(f"/proc/{worker}").exists())
    assert started.log[1].endswith("ready")
    assert "stopping when all requests are answered" in started.log[2]


def test_a_second_signal_stops_at_once_without_a_traceback(portrait: bytes) -> None:
    with running() as started, ThreadPoolExecutor(1) as threads:
        os.kill(started.wait_for_workers(1)[0], signal.SIGSTOP)
        answer = threads.submit(started.predict, portrait)
        wait_until(lambda: samples(started)["agecli_queue_photos"] == 1)
        started.process.send_signal(signal.SIGINT)
        wait_until(lambda: not listens(started.port))
        assert started.stop() == 130
        assert started.log[-1] == "error: interrupted"
        assert not [line for line in started.log if "Traceback" in line]
        assert answer.exception() or answer.result().status == 500


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def test_nothing_is_written_to_the_disk_and_no_name_or_photo_to_the_log(tmp_path: Path, portrait: bytes) -> None:
    large = portrait + bytes(3_000_000)  # more than what form parsers keep in memory
    no_files = ("prlimit", "--fsize=4096", "env", f"--chdir={tmp_path}")  # no file can hold a photo
    with running("-v", before=no_files, TMPDIR=str(tmp_path), HOME=str(tmp_path)) as started:
        photos = {f"{SECRET}.jpg": large, f"../{SECRET}": b"text"}
        for kind, body in ((FORM, form(photos)), ("application/x-tar", tar(photos))):
            answer = started.post("/v1/predict/batch", body, Content_Type=kind)
            assert [line["status"] for line in answer.lines] == ["ok", "unreadable"]
        started.predict(portrait, f"?{SECRET}=1", Referer=f"http://localhost/{SECRET}")
        started.predict(portrait[:5000], Content_Disposition=f"filename={SECRET}")
        started.request(SECRET.upper(), f"/{SECRET}")
        started.get(f"/{SECRET}.jpg")
        assert started.stop() == 0
    assert not list(tmp_path.iterdir())
    assert [line for line in started.log if "POST /v1/predict 400" in line]  # it does log requests
    assert not [line for line in started.log if SECRET in line.lower() or "JFIF" in line]


def test_a_model_that_is_not_there_ends_the_server_with_its_error(cli: Cli) -> None:
    done = cli("serve", "--port", 0, "--model", "missing.onnx")
    assert done.returncode == 3
    assert "error: there is no model missing.onnx" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("module", ["starlette", "uvicorn", "python_multipart"])
def test_without_its_extra_the_command_says_what_to_install(module: str) -> None:
    code = f"import sys; sys.modules[{module!r}] = None; sys.argv[1:] = ['serve']; from agecli.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    expected = f"error: `agecli serve` needs {module}, which is not installed\n hint: pip install 'agecli[serve]'\n"
    assert (done.returncode, done.stderr) == (3, expected)


def test_a_time_limit_that_is_too_short_to_load_the_detectors_does_not_end_the_server(portrait: bytes) -> None:
    with running("--timeout", 0.2) as started:  # a tenth of a second for the first photo of a process
        assert started.predict(portrait).status in (200, 504)


def test_a_port_that_is_taken_is_an_error_with_a_hint(server: Running) -> None:
    done = invoke("serve", "--port", server.port)
    assert done.exit_code == 2
    assert f"can't listen on 127.0.0.1, port {server.port}: Address already in use" in done.stderr


@pytest.mark.parametrize(
    "option", ["--workers=0", "--batch-size=0", "--queue=0", "--max-body=0", "--max-pixels=-1", "--max-memory=0.1",
               "--timeout=0", "--upload-timeout=0", "--max-batch=0", "--port=65536", "--allow-host=a/b", "--origin=x"],
)  # fmt: skip
def test_a_setting_that_can_not_be_used_is_an_error(option: str) -> None:
    done = invoke("serve", option)
    assert done.exit_code == 2
    assert option.partition("=")[0] in done.stderr


def test_photos_are_503_while_the_model_is_loading(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded, errors = threading.Event(), list[BaseException]()

    def slow_load(*arguments: object) -> None:
        loaded.wait(60)
        raise MissingError("no model")

    monkeypatch.setattr(engine, "load", slow_load)
    app = make_app(Settings(), errors.append)

    async def use() -> list[tuple[int, dict[str, str]]]:
        async with app.app.router.lifespan_context(app.app):  # type: ignore[attr-defined]
            answers = [await ask(app, *request) for request in (("POST", "/v1/predict"), ("GET", "/readyz"))]
            answers.append(await ask(app, "GET", "/healthz"))
            loaded.set()
        return answers

    answers = asyncio.run(use())
    assert [status for status, _ in answers] == [503, 503, 200]
    assert answers[0][1]["retry-after"] == "1"
    assert isinstance(errors[0], AgecliError)  # so that the server ends with it


async def ask(app: Any, method: str, path: str) -> tuple[int, dict[str, str]]:
    """The status and the headers of an answer of an ASGI app."""
    scope = {"type": "http", "method": method, "path": path, "query_string": b"", "headers": [(b"host", b"localhost")]}
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"photo", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return sent[0]["status"], {name.decode(): value.decode() for name, value in sent[0]["headers"]}


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The port of an empty server that waits for the head of a request for half a second only."""
    monkeypatch.setattr(server, "HEAD_SECONDS", 0.5)
    monkeypatch.setattr(server, "READ_SECONDS", 0.5)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/large":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            for _ in range(LARGE // 100_000):
                await send({"type": "http.response.body", "body": bytes(100_000), "more_body": True})
            await send({"type": "http.response.body", "body": b""})
            return
        await asyncio.sleep(1)  # longer than the limit, which is for heads only
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    listener, stop = server.listen_on("127.0.0.1", 0), threading.Event()
    config = uvicorn.Config(app, **{**server._options(Settings()), "lifespan": "off"})
    thread = threading.Thread(target=lambda: server.Server(config, stop).run(sockets=[listener]))
    thread.start()
    yield listener.getsockname()[1]
    stop.set()
    thread.join()


@pytest.mark.parametrize("begin", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: local"])
def test_a_connection_that_sends_no_request_is_closed(impatient: int, begin: bytes) -> None:
    with socket.create_connection(("127.0.0.1", impatient), timeout=20) as connection:
        connection.sendall(begin)
        with suppress(ConnectionResetError):
            assert connection.recv(100) == b""  # the end; a TimeoutError is a failure


@pytest.mark.parametrize("waits", [0.0, 1.5])
def test_a_client_that_does_not_read_its_answer_is_cut_off(impatient: int, waits: float) -> None:
    with socket.create_connection(("127.0.0.1", impatient), timeout=20) as connection:
        connection.sendall(b"GET /large HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        time.sleep(waits)
        count = 0
        with suppress(ConnectionResetError):
            while data := connection.recv(1_000_000):
                count += len(data)
    assert (count > LARGE) == (waits == 0)


def test_a_request_in_progress_is_not_cut_off_by_the_limit_for_heads(impatient: int) -> None:
    with socket.create_connection(("127.0.0.1", impatient), timeout=20) as connection:
        for _ in range(2):  # the second on the same connection
            connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert connection.recv(100).startswith(b"HTTP/1.1 204")


def test_the_linter_finds_nothing_in_the_containerfile() -> None:
    linter = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([linter, ROOT / "Containerfile"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_containerfile_copies_all_that_the_wheel_needs_and_gives_no_rights() -> None:
    text = (ROOT / "Containerfile").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for path in project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]:
        assert path in text
    assert "\nUSER 10001:10001\n" in text
    assert "HEALTHCHECK" in text
    assert "AGECLI_TOKEN" in text
    assert "--no-token" not in text
