"""Long jobs in several processes: results as they complete, and plain words when a process is killed."""

from __future__ import annotations

import os
import signal

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
