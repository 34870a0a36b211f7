"""The page in a real browser: photos dropped, pasted, chosen and taken; what is drawn are the records of the command line."""

from __future__ import annotations

import base64
import csv
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agecli.core.ages import span
from agecli.serving.page import assemble
from tests.conftest import Cli
from tests.serving.browser import BROWSER, DRIVER, MISSING, Browser, open_browser
from tests.serving.running import Running, running

needs_browser = pytest.mark.skipif(not (BROWSER and DRIVER), reason=MISSING)
FILES = """
const files = arguments[0].map(([name, data]) =>
  new File([Uint8Array.from(atob(data), (c) => c.charCodeAt(0))], name, {type: 'image/png'}));
const transfer = new DataTransfer();
files.forEach((file) => transfer.items.add(file));
"""
DROP = f"{FILES} document.getElementById('drop').dispatchEvent(new DragEvent('drop', {{dataTransfer: transfer, bubbles: true, cancelable: true}}));"
PASTE = f"{FILES} document.dispatchEvent(new ClipboardEvent('paste', {{clipboardData: transfer}}));"
CHOOSE = f"{FILES} const input = document.getElementById('files'); input.files = transfer.files; input.dispatchEvent(new Event('change'));"
DONE = "return /in \\d+ photo/.test(document.getElementById('status').textContent) && document.getElementById('status').textContent"
DRAWN = """
return [...document.querySelectorAll('#photos .face')].map((face) => {
  const frame = face.closest('.frame').getBoundingClientRect(), image = face.closest('.frame').querySelector('img');
  const box = face.getBoundingClientRect(), scale = image.naturalWidth / frame.width;
  return {box: [(box.x - frame.x) * scale, (box.y - frame.y) * scale, box.width * scale, box.height * scale],
    text: face.querySelector('.plate').textContent, label: face.getAttribute('aria-label'), bars: face.querySelector('.mass').getAttribute('d')};
});
"""
CAPTURE = """
window.saved = [];
const create = URL.createObjectURL;
URL.createObjectURL = (blob) => { if (!blob.type.startsWith('image/')) blob.text().then((text) => window.saved.push(text)); return create(blob); };
"""


def files(photos: dict[str, bytes]) -> list[tuple[str, str]]:
    """Photos as an argument of a script; a list, because the driver sorts the keys of objects."""
    return [(name, base64.b64encode(data).decode()) for name, data in photos.items()]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory, portrait: bytes) -> Iterator[Browser]:
    """A browser whose camera looks at the portrait."""
    film = tmp_path_factory.mktemp("film") / "film.mjpeg"
    film.write_bytes(portrait * 3)
    with open_browser(film) as opened:
        yield opened


@pytest.fixture
def page(browser: Browser, server: Running) -> Iterator[Browser]:
    """The page, newly opened. At the end: no message in the console, and no request to another origin."""
    browser.resize(1280, 900)
    browser.log("browser"), browser.requests()
    browser.open(f"http://localhost:{server.port}/")
    yield browser
    assert browser.log("browser") == []
    requests = browser.requests()
    assert f"http://localhost:{server.port}/" in requests
    assert not [url for url in requests if not re.match(rf"http://localhost:{server.port}/|blob:|data:", url)]


@needs_browser
def test_photos_that_are_dropped_get_the_boxes_and_ages_of_the_command_line(
    page: Browser, cli: Cli, tmp_path: Path, couple: bytes, portrait: bytes, noise: bytes
) -> None:
    photos = {"couple.png": couple, "=portrait.jpg": portrait, "noise.png": noise}
    for name, data in photos.items():
        (tmp_path / name).write_bytes(data)
    lines = cli("predict", *photos, "--distribution").stdout.splitlines()
    records = [json.loads(line) for line in lines]
    page.run(CAPTURE)
    page.run(DROP, files(photos))
    assert page.wait(DONE) == "3 face(s) in 3 photo(s)."
    drawn = page.run(DRAWN)
    good = [record for record in records if record["status"] == "ok"]
    assert len(drawn) == len(good) == 3
    for face, record in zip(drawn, good, strict=True):
        assert face["box"] == pytest.approx(record["box"], abs=1.5)
        assert face["text"] == f"{record['age']:.1f}{span(record['low'], record['high'])}"
        assert f"{record['age']:.1f} years" in face["label"]
        assert len(re.findall("M", face["bars"])) > 10  # years with a bar
    page.run("document.getElementById('json').click(); document.getElementById('csv').click();")
    saved = page.wait("return window.saved.length === 2 && window.saved")
    assert json.loads(next(text for text in saved if text.startswith("["))) == records
    check_csv(next(text for text in saved if text.startswith("schema")), records)
    rows = page.run("return [...document.querySelectorAll('#rows tr')].map((row) => row.innerText)")
    assert len(rows) == 4
    assert "no face was found" in rows[3]


def check_csv(text: str, records: list[dict[str, Any]]) -> None:
    """The table of the page has the records, and no cell that a spreadsheet would run."""
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["source"].removeprefix("'") for row in rows] == [record["source"] for record in records]
    assert rows[2]["source"] == "'=portrait.jpg"
    for row, record in zip(rows, records, strict=True):
        assert row["age"] == ("" if record["age"] is None else f"{record['age']:g}")
        box = [row[name] for name in ("box_x", "box_y", "box_w", "box_h")]
        assert box == ["" if record["box"] is None else str(value) for value in record["box"] or [None] * 4]


@needs_browser
def test_photos_can_be_pasted_and_chosen_and_removed(page: Browser, portrait: bytes) -> None:
    page.run(PASTE, files({"pasted.png": portrait}))
    assert page.wait(DONE) == "1 face(s) in 1 photo(s)."
    page.run(CHOOSE, files({"chosen.png": portrait, "text.png": b"text"}))
    page.wait("return document.querySelectorAll('#rows tr').length === 3")
    captions = page.run("return [...document.querySelectorAll('figcaption')].map((c) => c.textContent)")
    assert "not a picture" in captions[2]
    assert ["415" in entry["message"] for entry in page.log("browser")] == [True]  # the browser reports each refusal
    page.run("document.getElementById('clear').click()")
    assert page.run("return document.querySelectorAll('figure').length") == 0
    assert page.run("return document.getElementById('results').hidden")


@needs_browser
def test_the_camera_shows_live_estimates_and_takes_photos(page: Browser, server: Running, portrait: bytes) -> None:
    expected = server.predict(portrait).json["records"][0]["age"]
    page.run("document.getElementById('camera-start').click()")
    live = page.wait("return document.querySelector('#live .plate')?.textContent")
    assert float(live[:4]) == pytest.approx(expected, abs=4)  # the browser has scaled and encoded it again
    page.run("document.getElementById('shoot').click()")
    assert page.wait(DONE) == "1 face(s) in 1 photo(s)."
    assert float(page.run(DRAWN)[0]["text"][:4]) == pytest.approx(expected, abs=4)
    page.run("document.getElementById('camera-stop').click()")
    off = "return document.getElementById('video').srcObject === null && document.getElementById('camera').hidden"
    assert page.run(off)


@needs_browser
def test_the_page_works_with_the_keyboard_alone(page: Browser, portrait: bytes) -> None:
    page.run(DROP, files({"a.png": portrait}))
    page.wait(DONE)
    page.run("document.body.focus()")
    reached = []
    for _ in range(9):
        page.press("\ue004")  # Tab
        reached.append(page.run("return document.activeElement.id || document.activeElement.className"))
    assert reached[:6] == ["choose", "camera-start", "largest", "face chosen", "csv", "json"]


@needs_browser
@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_wider_than_the_screen(page: Browser, couple: bytes, width: int) -> None:
    page.resize(width, 800)
    page.run(DROP, files({"a photo with a long name that does not fit.png": couple}))
    page.wait(DONE)
    assert page.run("return document.documentElement.scrollWidth") <= width


@needs_browser
def test_the_colours_follow_the_system_and_can_be_read(page: Browser) -> None:
    colours = []
    for dark in (False, True):
        page.resize(800, 600, dark)
        style = "const s = getComputedStyle(arguments[0] ? document.querySelector(arguments[0]) : document.body);"
        pairs = []
        for selector in ("", "#privacy", "button.main", "#camera-start"):
            script = f"{style} const b = getComputedStyle(document.body); return [s.color, s.backgroundColor, b.backgroundColor]"
            text, back, body = page.run(script, selector)
            pairs.append((text, body if back.startswith("rgba(0, 0, 0, 0") else back))
        assert all(contrast(*pair) >= 4.5 for pair in pairs), pairs
        colours.append(pairs[0][1])
    assert colours[0] != colours[1]


def contrast(one: str, two: str) -> float:
    """The contrast ratio of two CSS colours (WCAG 2)."""

    def luminance(colour: str) -> float:
        shares = [int(value) / 255 for value in re.findall(r"\d+", colour)[:3]]
        linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted((luminance(one), luminance(two)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@needs_browser
def test_the_page_asks_for_the_token_and_keeps_it_in_memory_only(browser: Browser, portrait: bytes) -> None:
    token = "a-token-for-the-page"
    with running(AGECLI_TOKEN=token) as server:
        browser.open(f"http://localhost:{server.port}/")
        browser.run(DROP, files({"a.png": portrait}))
        browser.wait("return !document.getElementById('token-form').hidden")
        use = "document.getElementById('token').value = arguments[0]; document.getElementById('token-form').requestSubmit();"
        browser.run(use, "wrong-token-of-some-length")
        browser.wait(
            "return !document.getElementById('token-form').hidden && document.getElementById('token').value === ''"
        )
        browser.run(use, token)
        assert browser.wait(DONE) == "1 face(s) in 1 photo(s)."
        assert browser.run("return localStorage.length + sessionStorage.length + document.cookie.length") == 0
    browser.log("browser")  # the two answers 401


@needs_browser
def test_the_policy_stops_code_and_requests_that_are_not_ours(browser: Browser, server: Running) -> None:
    browser.open(f"http://localhost:{server.port}/")
    browser.run(
        "const s = document.createElement('script'); s.textContent = 'window.evil = 1'; document.body.append(s);"
    )
    browser.run(
        "const i = new Image(); i.src = 'http://127.0.0.1:1/x.png'; fetch('http://127.0.0.1:1/').catch(() => {});"
    )
    assert browser.run("return window.evil === undefined")
    messages = " ".join(entry["message"] for entry in browser.log("browser"))
    assert messages.count("Content Security Policy") >= 3, messages


def test_the_page_is_one_file_without_addresses_of_others() -> None:
    text, policy = assemble()
    assert not re.findall(r"(?:src|href)=\"(?!data:,)[^\"]+\"", text)
    assert [url for url in re.findall(r"https?://[^\s'\"<]+", text) if "www.w3.org" not in url] == []
    assert not re.search(r"\son\w+=|style=|javascript:|innerHTML|eval\(", text)
    assert "unsafe" not in policy
    assert "*" not in policy
    assert policy.startswith("default-src 'none'; script-src 'sha256-")


def test_the_page_says_what_an_estimate_is_and_where_photos_go(server: Running) -> None:
    answer = server.get("/")
    text = " ".join(answer.body.decode().split())
    assert "estimate with a spread" in text
    assert "It does not store them, nor pass them on." in text
    assert answer.headers["content-security-policy"] == assemble()[1]
    assert "camera=(self)" in answer.headers["permissions-policy"]
