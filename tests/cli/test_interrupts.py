"""Ctrl-C and SIGTERM while `agecli predict` starts its worker processes, in real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

DEADLINE = 60.0  # seconds
DELAYS = (0.03, 0.1, 0.2, 0.3, 0.45)  # seconds after the start of reading; the workers start in the meantime


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no process groups with signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_while_workers_start_prints_no_traceback(
    toy: Path, tmp_path: Path, number: signal.Signals
) -> None:
    for delay in DELAYS:
        process = _start_predict(toy / "images", tmp_path / f"{delay}.csv")
        time.sleep(delay)
        if number == signal.SIGINT:
            os.killpg(process.pid, number)  # as a terminal does
        else:
            process.send_signal(number)
        errors = process.communicate(timeout=DEADLINE)[1]  # until its workers have ended, too: they share stderr
        assert process.returncode == 130, (delay, errors)
        assert "Traceback" not in errors, (delay, errors)
        assert "interrupted" in errors


def _start_predict(photos: Path, output: Path) -> subprocess.Popen[str]:
    """`agecli predict` in a process group of its own, when it begins to read photos."""
    command = [
        sys.executable,
        "-m",
        "agecli",
        "predict",
        *[str(photos)] * 5,
        "--no-detect",
        "--workers=2",
        "-o",
        str(output),
    ]
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # a background job ignores it
    )
    end = time.monotonic() + DEADLINE
    while not output.with_name(f"{output.name}.unfinished").exists():
        assert process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.01)
    return process


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
def test_an_interrupt_during_the_imports_prints_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(INTERRUPT)
    for module in ("agecli.cli.options", "typer", "agecli.cli.predict"):
        environment = {**os.environ, "PYTHONPATH": str(tmp_path), "INTERRUPT": module}
        command = [sys.executable, "-m", "agecli", "predict", "nothing.jpg"]
        done = subprocess.run(
            command,
            env=environment,
            capture_output=True,
            text=True,
            timeout=DEADLINE,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        assert done.returncode in (130, -signal.SIGINT), (module, done.stderr)
        assert "Traceback" not in done.stderr, module


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
def test_a_late_interrupt_does_not_change_the_exit_code_of_an_interrupted_command() -> None:
    code = (
        "import os, signal, sys, threading, time, agecli.cli, agecli.__main__\n"
        "def late(): time.sleep(0.5); os.kill(os.getpid(), signal.SIGINT)\n"
        "def run(): threading.Thread(target=late).start(); sys.exit(130)\n"
        "agecli.cli.main = run; agecli.__main__.main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert (done.returncode, done.stderr) == (130, "")


INTERRUPT = """
import os, signal, sys

class Interrupt:  # Ctrl-C when a module is imported
    def find_spec(self, name, path=None, target=None):
        if name == os.environ["INTERRUPT"]:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
"""
