"""Headless Chromium, driven over WebDriver's HTTP interface (Debian: `apt-get install chromium chromium-driver`)."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.serving.running import PATIENCE, wait_until

DRIVER = shutil.which("chromedriver")
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
MISSING = "this test looks at the page in a browser: apt-get install chromium chromium-driver"


class Browser:
    """A session of a browser.

    browser.open("http://localhost:8000/")
    browser.run("return document.title")
    """

    def __init__(self, session: str) -> None:
        self.session = session

    def command(self, method: str, path: str, values: dict[str, Any] | None = None) -> Any:
        """Send a WebDriver command and return its value. Raises AssertionError with the message of an error."""
        body = None if values is None else json.dumps(values).encode()
        request = urllib.request.Request(
            f"{self.session}{path}", body, {"Content-Type": "application/json"}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE) as response:
                return json.load(response)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(json.load(error)["value"]["message"]) from None

    def open(self, address: str) -> None:
        self.command("POST", "/url", {"url": address})

    def run(self, script: str, *arguments: object) -> Any:
        """The value that a script in the page returns."""
        return self.command("POST", "/execute/sync", {"script": script, "args": arguments})

    def wait(self, script: str, *arguments: object) -> Any:
        """The first true value that a script returns."""
        return wait_until(lambda: self.run(script, *arguments))

    def press(self, *keys: str) -> None:
        """Press keys one after the other."""
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self.command("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})

    def resize(self, width: int, height: int, dark: bool = False, full: bool = False) -> None:
        """Emulate a screen: its size in CSS pixels, and its colour scheme.   full: as high as the page"""
        if full:
            height = self.run("return document.documentElement.scrollHeight")
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.devtools("Emulation.setDeviceMetricsOverride", metrics)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.devtools("Emulation.setEmulatedMedia", {"features": scheme})

    def devtools(self, name: str, values: dict[str, Any]) -> Any:
        return self.command("POST", "/goog/cdp/execute", {"cmd": name, "params": values})

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.command("GET", "/screenshot")))

    def log(self, kind: str) -> list[dict[str, Any]]:
        """What was logged since the last call.   kind: `browser` is the console, `performance` has network events"""
        entries: list[dict[str, Any]] = self.command("POST", "/se/log", {"type": kind})
        return entries

    def requests(self) -> list[str]:
        """The addresses that were requested since the last call."""
        messages = [json.loads(entry["message"])["message"] for entry in self.log("performance")]
        sent = [message["params"] for message in messages if message["method"] == "Network.requestWillBeSent"]
        return [parameters["request"]["url"] for parameters in sent]


@contextmanager
def open_browser(film: Path | None = None) -> Iterator[Browser]:
    """A new browser with a fake camera, which needs no permission.   film: what it sees, as JPEG files in a row (.mjpeg)"""
    assert DRIVER
    assert BROWSER
    process = subprocess.Popen([DRIVER, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout
        line = next(line for line in process.stdout if "started successfully on port" in line)
        (port,) = re.findall(r"on port (\d+)", line)
        root = f"http://localhost:{port}"
        flags = ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--use-fake-ui-for-media-stream")
        camera = ["--use-fake-device-for-media-stream"]
        if film:
            camera.append(f"--use-file-for-fake-video-capture={film}")
        options = {"binary": BROWSER, "args": [*flags, *camera, "--window-size=1280,900"]}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}
        value = Browser(root).command("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        browser = Browser(f"{root}/session/{value['sessionId']}")
        try:
            yield browser
        finally:
            browser.command("DELETE", "")
    finally:
        process.terminate()
        process.wait()
