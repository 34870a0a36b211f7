"""Clusters: shards as tasks of Dask distributed, a few at a time. Results stay in files; only footers come back.

Needs the extra `cluster`.
"""

from __future__ import annotations

import logging
import multiprocessing
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from agecli.core.errors import AgecliError, InputError, MissingError
from agecli.core.extras import require
from agecli.scaling.engines import POLL, Counter, Progress, Report
from agecli.scaling.parts import Footer, read_footers
from agecli.scaling.places import Place
from agecli.scaling.plan import Plan

T = TypeVar("T")
R = TypeVar("R")
log = logging.getLogger("agecli")
Task = Callable[[int], Footer | None]  # makes the part of a shard; None if another process is making it
CONNECT = 10.0  # seconds for a scheduler to answer
LOST = 15.0  # seconds without a scheduler after which a run ends
AHEAD = 2  # tasks per thread of the cluster that are submitted at a time
AGAIN = "start it again, and run the same command: finished shards are kept"


@contextmanager
def connect(address: str) -> Iterator[Any]:
    """A Dask client.

    address: of a scheduler, `tcp://HOST:PORT`; its file, `scheduler.json`; or `local:N` for N worker processes here.
    Raises MissingError without the extra `cluster` or if there is no scheduler, InputError for any other text.
    """
    require("distributed", needed_by="--cluster")
    kind, _, rest = address.partition(":")
    if kind == "local" and not (rest.isdecimal() and 1 <= int(rest) <= 1024):
        raise InputError(f"--cluster {address} can't be read", hint="write the number of processes: --cluster local:4")
    if kind != "local" and "://" not in address and not Path(address).is_file():
        raise MissingError(
            f"--cluster {address}: there is no such file",
            hint="name a scheduler, as in tcp://host:8786, its scheduler.json, or local:4",
        )
    from distributed import Client, LocalCluster

    if not log.isEnabledFor(logging.DEBUG):
        for name in (
            "tornado",
            "asyncio",
            *(name for name in logging.root.manager.loggerDict if "distributed" in name),
        ):
            logging.getLogger(name).setLevel(logging.CRITICAL)  # a lost connection is one message of ours
    cluster = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of versions that differ a little, and of ports in use
            if kind == "local":
                cluster = LocalCluster(
                    n_workers=int(rest), threads_per_worker=1, dashboard_address=None, silence_logs=logging.CRITICAL
                )
                client = Client(cluster)
            elif "://" in address:
                client = Client(address, timeout=CONNECT)
            else:
                client = Client(scheduler_file=address, timeout=CONNECT)
    except (OSError, TimeoutError, ValueError, KeyError) as error:
        raise MissingError(
            f"--cluster {address}: no scheduler answers ({type(error).__name__})",
            hint="is it running? `dask scheduler`",
        ) from error
    try:
        yield client
    finally:
        with suppress(Exception):
            client.close(timeout=2)
        if cluster is not None:
            with suppress(Exception):
                cluster.close(timeout=10)


def run_on_cluster(
    client: Any, folder: Place, plan: Plan, numbers: Sequence[int], task: Task, report: Report
) -> Progress:
    """Do shards on the workers of a Dask client, except those that are done.

    task: a picklable function, which looks for the finished file first. A task whose worker dies is done by another.
    Shards that other processes do are asked for again. Raises what a task raises, InputError if the scheduler is lost.
    """
    counter = Counter(report)
    waiting: deque[int] = deque()
    for number, footer in read_footers(folder, plan, numbers):
        if footer is None:
            waiting.append(number)
        else:
            counter.add(footer)
    if waiting:
        _run(client, plan.key, waiting, task, counter)
    return counter.progress


def _run(client: Any, key: str, waiting: deque[int], task: Task, counter: Counter) -> None:
    """Submit shards while there are any, AHEAD per thread at a time, and count them when they are done."""
    running: dict[Any, int] = {}
    busy: list[tuple[float, int]] = []  # when to ask again for a shard that another process does
    said = False
    while waiting or running or busy:
        threads = cluster_threads(client)
        if not threads and not said:
            said = True
            log.warning("the cluster has no workers: waiting for some")
        now = time.monotonic()
        waiting.extend(number for at, number in busy if at <= now)
        busy = [(at, number) for at, number in busy if at > now]
        while waiting and len(running) < AHEAD * max(1, threads):
            number = waiting.popleft()
            running[client.submit(task, number, key=f"agecli-{key}-{number}-{time.time_ns()}", pure=False)] = number
        if not running:
            time.sleep(POLL)
            continue
        for future in _finished(running):
            number = running.pop(future)
            footer = _result(future, number)
            if footer is None:
                busy.append((time.monotonic() + POLL, number))
            else:
                counter.add(footer)


def each_done(client: Any, task: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
    """The results of a picklable function on the workers of a cluster, in the order of completion.

    Raises what the function raises, and InputError if the scheduler is lost.
    """
    waiting, running = deque(items), list[Any]()
    while waiting or running:
        while waiting and len(running) < AHEAD * max(1, cluster_threads(client)):
            running.append(client.submit(task, waiting.popleft(), pure=False))
        for future in _finished(running):
            running.remove(future)
            with _errors_named("a task"):
                yield future.result(timeout=POLL)
        cluster_threads(client)


def _finished(running: Iterable[Any]) -> list[Any]:
    """Wait up to POLL seconds for some futures; those that are done. Raises InputError if the scheduler is lost."""
    from distributed import wait

    futures = list(running)
    try:
        wait(futures, timeout=POLL, return_when="FIRST_COMPLETED")
    except TimeoutError:
        pass
    except CancelledError as error:
        raise _lost() from error
    return [future for future in futures if future.done()]


def cluster_threads(client: Any) -> int:
    """The number of threads of all workers. Raises InputError if the scheduler has been lost for LOST seconds."""
    end = time.monotonic() + LOST
    while True:
        if client.status == "running":
            with suppress(OSError, TimeoutError):
                return sum(client.nthreads().values())
        if client.status in ("closed", "closing") or time.monotonic() > end:
            raise _lost()
        time.sleep(0.2)


def _lost() -> InputError:
    return InputError("the connection to the scheduler is lost", hint=AGAIN)


def _result(future: Any, number: int) -> Footer | None:
    """The footer of a finished task. Raises AgecliErrors of the task, and those of Dask in words."""
    with _errors_named(f"shard {number}"):
        footer: Footer | None = future.result(timeout=POLL)
    return footer


@contextmanager
def _errors_named(task: str) -> Iterator[None]:
    """Raise errors of Dask as InputErrors, and those of the task as they are."""
    from distributed import KilledWorker

    try:
        yield
    except AgecliError:
        raise
    except KilledWorker as error:
        raise InputError(
            f"{task} ended its worker several times", hint="did memory run out? Use fewer threads per worker"
        ) from error
    except ModuleNotFoundError as error:
        raise InputError(
            f"the workers of the cluster can't import {error.name}", hint="install the same agecli there"
        ) from error
    except (CancelledError, OSError, TimeoutError) as error:  # of Dask's own connections
        if isinstance(error, OSError) and error.errno is not None:
            raise  # of the work itself
        raise _lost() from error


def worker_threads() -> int:
    """In a task: the tasks that this worker process runs at a time. It is also allowed to start processes from now on.

    Dask's workers are daemons, which may not have children; ours are daemons, too, and end with the worker.
    """
    from distributed import get_worker

    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]
    return int(get_worker().state.nthreads)
