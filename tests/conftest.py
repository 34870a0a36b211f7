"""What the tests share: a place of their own for caches, a toy data set, and the real command line in a real process."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings
from typer.testing import CliRunner, Result

from agecli.cli import app
from agecli.datasets.toy import draw_faces

settings.register_profile("busy", deadline=None)  # a loaded machine is no failure
settings.load_profile("busy")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long tests first, so that no worker is left with one when the others are done."""
    items.sort(key=lambda item: "slow" not in item.keywords)


Cli = Callable[..., "subprocess.CompletedProcess[str]"]


def invoke(*arguments: object) -> Result:
    """The same command in this process: for errors, which need no process of their own, nor seconds to load torch."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def two_seconds() -> float:
    """Two seconds, and more on a machine so busy that even an empty program takes a while."""
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    return 2 + 4 * (time.monotonic() - began)


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Features are cached for the tests alone, and shared among them."""
    folder = tmp_path_factory.mktemp("cache")
    os.environ["AGECLI_CACHE"] = str(folder)
    return folder


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """120 cartoon faces of 20 subjects."""
    folder = tmp_path_factory.mktemp("data") / "toy"
    draw_faces(folder, 120)
    return folder


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """`cli("train", ...)` runs agecli as a user does, in a folder of its own."""

    def run(*arguments: object, stdin: bytes | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "agecli", *(str(argument) for argument in arguments)]
        done = subprocess.run(
            command, cwd=tmp_path, input=stdin, capture_output=True, env={**os.environ, **environment}, timeout=300
        )
        return subprocess.CompletedProcess(command, done.returncode, done.stdout.decode(), done.stderr.decode())

    return run
