"""Access: this machine only by default, our own names and pages only, and a token for all others."""

from __future__ import annotations

import hmac
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from agecli.core.errors import InputError
from agecli.serving.access import SECURITY_HEADERS
from agecli.serving.settings import Settings
from tests.conftest import invoke
from tests.serving.running import Running, running

TOKEN = "correct-horse-battery-staple"
OTHER = "https://app.example"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server on all addresses, with a token, a name and an allowed origin."""
    file = tmp_path_factory.mktemp("token") / "token"
    file.write_text(f"{TOKEN}\n")
    options = ("--token-file", file, "--allow-host", "age.example", "--origin", OTHER, "-v")
    with running("--host", "0.0.0.0", *options) as server:
        yield server


def test_the_server_listens_on_loopback_only_by_default(server: Running) -> None:
    sockets = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    listening = [local for _, local, _, state, *_ in sockets if state == "0A" and local.endswith(f":{server.port:04X}")]
    assert listening == [f"0100007F:{server.port:04X}"]  # 127.0.0.1
    assert Settings().host == "127.0.0.1"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "age.example"])
def test_another_address_needs_a_token_or_an_explicit_flag(host: str) -> None:
    with pytest.raises(InputError, match="lets other machines use this server without a token") as caught:
        Settings(host=host)
    assert "--no-token" in caught.value.hint
    assert Settings(host=host, token=TOKEN).token == TOKEN
    assert Settings(host=host, no_token=True).token is None


def test_the_command_refuses_an_open_address_and_says_what_to_do() -> None:
    done = invoke("serve", "--host", "0.0.0.0")
    assert done.exit_code == 2
    assert "--token-file" in done.stderr


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_loopback_addresses_need_no_token(host: str) -> None:
    assert Settings(host=host).token is None


@pytest.mark.parametrize("token", ["", "short", "ünicode-tokens-are-not-allowed"])
def test_a_token_that_can_be_guessed_is_refused(token: str) -> None:
    with pytest.raises(InputError, match="token"):
        Settings(token=token)


@pytest.mark.parametrize("path", ["/v1/predict", "/v1/predict/batch"])
@pytest.mark.parametrize("sent", [None, "Bearer", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x", TOKEN])
def test_requests_without_the_token_are_refused(guarded: Running, path: str, sent: str | None, portrait: bytes) -> None:
    answer = guarded.post(path, portrait, **({"Authorization": sent} if sent else {}))
    assert (answer.status, answer.json["error"]) == (401, "unauthorized")
    assert answer.headers["www-authenticate"] == "Bearer"


def test_requests_with_the_token_are_answered(guarded: Running, portrait: bytes) -> None:
    assert guarded.predict(portrait, Authorization=f"Bearer {TOKEN}").status == 200
    assert guarded.get("/metrics", Authorization=f"Bearer {TOKEN}").status == 200
    assert guarded.get("/metrics").status == 401
    assert guarded.get("/healthz").status == 200  # of the container, which has no token


def test_the_token_is_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    from agecli.serving.access import Access
    from agecli.serving.metrics import Metrics

    async def app(scope: object, receive: object, send: object) -> None: ...

    compared: list[tuple[int, int]] = []

    def compare(one: bytes, two: bytes) -> bool:
        compared.append((len(one), len(two)))
        return real(one, two)

    real = hmac.compare_digest
    monkeypatch.setattr(hmac, "compare_digest", compare)
    access = Access(app, Settings(token=TOKEN), Metrics())
    assert [access._knows_token(f"Bearer {token}") for token in (TOKEN, "x", TOKEN[:-1])] == [True, False, False]
    assert compared == [(32, 32)] * 3  # hashes: neither their content nor their length tells anything


def test_the_token_in_the_environment_is_not_passed_on_to_the_workers(portrait: bytes) -> None:
    with running(AGECLI_TOKEN=TOKEN) as server:
        assert server.predict(portrait).status == 401
        assert server.predict(portrait, Authorization=f"Bearer {TOKEN}").status == 200
        for worker in server.wait_for_workers(1):
            assert TOKEN.encode() not in Path(f"/proc/{worker}/environ").read_bytes()


def test_a_token_file_that_holds_none_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n")
    assert "holds no token" in invoke("serve", "--token-file", tmp_path / "empty").stderr
    assert invoke("serve", "--token-file", tmp_path / "missing").exit_code == 2


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "192.0.2.1", "a b", ""])
def test_a_name_that_was_rebound_to_our_address_is_refused(server: Running, host: str, portrait: bytes) -> None:
    for answer in (server.get("/", Host=host), server.predict(portrait, Host=host)):
        assert (answer.status, answer.json["error"]) == (421, "misdirected")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:8000", "[::1]:8000"])
def test_our_own_names_are_accepted(server: Running, host: str) -> None:
    assert server.get("/healthz", Host=host).status == 200


def test_names_behind_a_proxy_are_accepted_if_they_are_allowed(guarded: Running) -> None:
    assert guarded.get("/healthz", Host="age.example").status == 200
    assert guarded.get("/healthz", Host="192.0.2.1:8000").status == 200  # no page has an address for its name
    assert guarded.get("/healthz", Host="evil.example").status == 421


def test_two_hosts_in_one_request_are_refused(server: Running) -> None:
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n")
        assert connection.recv(100).split()[1] in (b"400", b"421")


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://localhost.evil.example", "http://127.0.0.1:1"]
)
def test_pages_of_other_sites_may_not_post(server: Running, origin: str, portrait: bytes) -> None:
    answer = server.predict(portrait, Origin=origin, Content_Type="text/plain")
    assert (answer.status, answer.json["error"]) == (403, "forbidden")
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_a_cross_site_post_without_an_origin_is_refused_too(server: Running, portrait: bytes) -> None:
    assert server.predict(portrait, Sec_Fetch_Site="cross-site").status == 403
    assert server.get("/healthz", Sec_Fetch_Site="cross-site").status == 200  # a link


def test_our_own_page_may_post(server: Running, portrait: bytes) -> None:
    host = f"127.0.0.1:{server.port}"
    assert server.predict(portrait, Origin=f"http://{host}", Host=host).status == 200


def test_there_is_no_cors_by_default(server: Running) -> None:
    preflight = {"Origin": OTHER, "Access_Control_Request_Method": "POST"}
    answer = server.request("OPTIONS", "/v1/predict", **preflight)
    assert answer.status == 403
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_an_allowed_origin_gets_cors_and_still_needs_the_token(guarded: Running, portrait: bytes) -> None:
    preflight = {"Origin": OTHER, "Access_Control_Request_Method": "POST"}
    answer = guarded.request("OPTIONS", "/v1/predict", **preflight)
    assert (answer.status, answer.headers["access-control-allow-origin"]) == (204, OTHER)
    assert "Authorization" in answer.headers["access-control-allow-headers"]
    assert guarded.predict(portrait, Origin=OTHER).status == 401
    answer = guarded.predict(portrait, Origin=OTHER, Authorization=f"Bearer {TOKEN}")
    assert (answer.status, answer.headers["access-control-allow-origin"]) == (200, OTHER)
    assert "Origin" in answer.headers["vary"]
    assert guarded.predict(portrait, Origin="https://evil.example", Authorization=f"Bearer {TOKEN}").status == 403


@pytest.mark.parametrize("origin", ["app.example", "https://app.example/", "https://app.example/path", "*", "ftp://x"])
def test_an_origin_that_is_none_is_refused_at_the_start(origin: str) -> None:
    with pytest.raises(InputError, match="is no origin"):
        Settings(origins=(origin,))


def test_every_answer_has_the_security_headers_and_may_not_be_stored(server: Running, portrait: bytes) -> None:
    answers = [
        server.predict(portrait),
        server.predict(b"text"),
        server.get("/metrics"),
        server.get("/missing"),
        server.get("/healthz", Host="evil.example"),
    ]
    with socket.create_connection(("127.0.0.1", server.port)) as connection:  # no HTTP at all
        connection.sendall(b"\x16\x03\x01 hello\r\n\r\n")
        assert b"cache-control: no-store" in connection.recv(2000).lower()
    for answer in answers:
        assert {name: answer.headers.get(name.lower()) for name in SECURITY_HEADERS} == SECURITY_HEADERS
        assert "server" not in answer.headers
