"""Commands as tasks of a cluster: each runs in a process of its own on a worker, and writes its results to files."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from agecli.core.errors import InputError
from agecli.core.worker_process import end_with_parent
from agecli.scaling.clusters import cluster_threads, each_done

FINE = (0, 1)  # exit codes of a command that has finished; 1 if some inputs failed
LINES = 6  # of the messages of a failed command that are shown
COMMANDS_PER_THREAD = 2  # commands into which the work of one thread is divided


def shares(client: Any, most: int) -> int:
    """Into how many commands some work is divided on a cluster, at most one for each of its items."""
    return max(1, min(most, COMMANDS_PER_THREAD * cluster_threads(client)))


def run_on_workers(
    client: Any, commands: Sequence[Sequence[str]], folder: str, report: Callable[[int], None] = lambda done: None
) -> None:
    """Run `agecli ARGUMENTS` for each of some lists of arguments on the workers of a Dask client.

    folder: the working directory, which all machines see.   report: called with the number of finished commands.
    A command whose worker dies is run again by another one: it has to continue where it was stopped.
    Raises InputError with the last lines of its messages if one fails, or if the scheduler is lost.
    """
    for done, _ in enumerate(each_done(client, partial(run_command, folder), commands), 1):
        report(done)


def run_command(folder: str, arguments: Sequence[str]) -> int:
    """Run one command in a process that ends with this one. Returns its exit code, 0 or 1. Raises InputError."""
    done = subprocess.run(
        [sys.executable, "-m", "agecli", *arguments],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        preexec_fn=end_with_parent if sys.platform == "linux" else None,
    )
    if done.returncode not in FINE:
        lines = done.stderr.decode(errors="replace").splitlines()[-LINES:]
        raise InputError(
            f"`agecli {' '.join(arguments)}` failed on a worker, exit code {done.returncode}", "\n".join(lines)
        )
    return done.returncode
