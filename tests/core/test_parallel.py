"""Long jobs in several processes: results as they complete, and plain words when a process is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agecli.core.errors import InputError
from agecli.core.parallel import as_done


def square(number: int) -> int:
    return number**2


def die(number: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return number


def test_each_item_comes_with_its_result() -> None:
    assert sorted(as_done(square, range(6), 2, "Go on.")) == [(number, number**2) for number in range(6)]


def test_a_worker_that_is_killed_is_said() -> None:
    with pytest.raises(InputError, match="a worker was killed"):
        list(as_done(die, range(4), 2, "Go on."))


SAVING = """
import signal, sys, time
from agecli.core import signals
from agecli.core.parallel import as_done
from agecli.core.signals import obey_signals, stop_flag


def save(number):
    with stop_flag() as stop:
        print("begun", flush=True)
        while not stop.is_set():
            time.sleep(0.01)
        time.sleep(6)
        print("saved", flush=True)


if __name__ == "__main__":
    signals.ENDED_WITHIN = 4.0
    obey_signals()
    try:
        list(as_done(save, range(2), 2, "Go on."))
    except KeyboardInterrupt:
        print("ended", flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM")
def test_terminated_workers_have_the_time_to_save(tmp_path: Path) -> None:
    script = tmp_path / "saving.py"
    script.write_text(SAVING)
    process = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(2)] == ["begun\n"] * 2
    process.terminate()
    assert process.communicate(timeout=60)[0] == "saved\nsaved\nended\n"
    assert process.returncode == 0
