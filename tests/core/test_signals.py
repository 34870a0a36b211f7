"""Signals that are handled later."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

from agecli.core.signals import NUMBERS, deferred_signals, stop_flag
from tests.conftest import two_seconds


def interrupt_myself(completed: list[bool]) -> None:
    with deferred_signals():
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.1)
        completed.append(True)


@pytest.mark.skipif(sys.platform == "win32", reason="os.kill ends a process on Windows")
@pytest.mark.parametrize("other_thread", [False, True], ids=["one thread", "two threads"])
def test_a_deferred_signal_is_handled_after_the_block(other_thread: bool) -> None:
    end, completed = threading.Event(), list[bool]()
    before = signal.getsignal(signal.SIGINT)
    if other_thread:  # it receives the signal, because the main thread blocks it
        threading.Thread(target=end.wait, daemon=True).start()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            interrupt_myself(completed)
        assert completed
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    finally:
        end.set()
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("block", [deferred_signals, stop_flag])
def test_an_interrupt_between_two_handlers_leaves_none_behind(
    block: Callable[[], AbstractContextManager[object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    before: dict[int, Any] = {number: signal.getsignal(number) for number in NUMBERS}
    set_handler, raised = signal.signal, list[int]()

    def interrupted(number: int, handler: Any) -> Any:
        """As Python calls the handler of a signal that has arrived before it sets another."""
        if number == signal.SIGTERM and handler == before[number] and not raised:
            raised.append(number)
            raise KeyboardInterrupt
        return set_handler(number, handler)

    monkeypatch.setattr(signal, "signal", interrupted)
    with pytest.raises(KeyboardInterrupt), block():
        pass
    assert {number: signal.getsignal(number) for number in NUMBERS} == before


def test_outside_the_main_thread_nothing_is_raised() -> None:
    entered = []

    def enter() -> None:
        with deferred_signals():
            entered.append(True)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join(30)
    assert entered


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_line_ends_although_it_waits_for_a_thread_after_the_interrupt(number: signal.Signals) -> None:
    code = (
        "import signal, threading; from agecli.core import signals; signals.ENDED_WITHIN = 0.3\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler); signals.obey_signals()\n"
        "threading.Thread(target=threading.Event().wait).start()\n"
        "try: print('ready', flush=True); signal.pause()\n"  # the signal may arrive before the pause
        "except KeyboardInterrupt: pass\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    errors = process.communicate(timeout=30)[1]
    assert process.returncode == 130
    assert errors.startswith("error: interrupted\n")


OBEYING = """
import os, signal, threading, time
from agecli.core import signals
from agecli.core.signals import deadline_paused, deferred_signals, obey_signals, stop_flag

signal.signal(signal.SIGINT, signal.default_int_handler)
obey_signals()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_deferred_signal_leaves_time_to_clean_up(number: signal.Signals) -> None:
    code = (
        f"{OBEYING}"
        f"try:\n  with deferred_signals(), deferred_signals(): os.kill(os.getpid(), {number}); time.sleep(0.5)\n"
        "except KeyboardInterrupt: time.sleep(3); print('cleaned up')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "cleaned up\n", "")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_deferred_signal_sets_the_stop_flag_and_leaves_time_to_save(number: signal.Signals) -> None:
    code = (
        f"{OBEYING}"
        f"with stop_flag() as stop:\n  with deferred_signals(): os.kill(os.getpid(), {number}); time.sleep(2)\n"
        "  time.sleep(2); print(stop.is_set())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM")
@pytest.mark.parametrize(("rest", "code"), [("pass", 0), ("time.sleep(60)", 130)], ids=["ends", "does not end"])
def test_the_deadline_does_not_count_while_it_is_paused(rest: str, code: int) -> None:
    text = (
        f"{OBEYING}signals.ENDED_WITHIN = 3\n"
        "try: os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)\n"
        "except KeyboardInterrupt:\n  with deadline_paused(): time.sleep(5)\n"
        f"print('saved', flush=True); {rest}\n"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout) == (code, "saved\n"), done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM")
def test_a_second_signal_ends_a_paused_deadline() -> None:
    code = (
        f"{OBEYING}"
        "try: os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)\n"
        "except KeyboardInterrupt:\n"
        "  with deferred_signals(), deadline_paused(): os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert done.returncode == 130, done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGUSR1")
def test_another_signal_does_not_cancel_the_deadline() -> None:
    code = (
        f"{OBEYING}signals.ENDED_WITHIN = 0.5\n"
        "signal.signal(signal.SIGUSR1, lambda number, frame: None)\n"
        "try: os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)\n"
        "except KeyboardInterrupt: os.kill(os.getpid(), signal.SIGUSR1); time.sleep(60)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert done.returncode == 130, done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork server")
def test_the_fork_server_ignores_ctrl_c_as_of_its_last_import() -> None:
    code = "import signal, agecli.core.forkserver; signal.raise_signal(signal.SIGINT); print('ignored')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("ignored\n", "")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_line_ends_although_the_main_thread_is_in_native_code(number: signal.Signals) -> None:
    code = (
        "import hashlib, signal; from agecli.core.signals import obey_signals\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler); obey_signals(); print('ready', flush=True)\n"
        "hashlib.pbkdf2_hmac('sha256', b'a', b'b', 2**31 - 1)\n"  # takes half an hour
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.3)
    began = time.monotonic()
    process.send_signal(number)
    errors = process.communicate(timeout=30)[1]
    elapsed = time.monotonic() - began
    assert elapsed < two_seconds()
    assert process.returncode == 130
    assert errors.startswith("error: interrupted\n")
