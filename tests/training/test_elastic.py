"""A rank is killed, torchrun starts all ranks again, and the model is the one of a run without a stop."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from torch._C._distributed_c10d import HashStore

from agecli.core.errors import InputError
from agecli.training.distributed import meet

ROOT = Path(__file__).parents[2]
DEADLINE = 300  # seconds
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="ranks are found in /proc")
TRAIN = (
    *("-m", "agecli", "train", "--backbone", "timm:test_efficientnet", "--weights", "none", "--device", "cpu"),
    *("--set", "data.size=64", "--set", "training.save_every=0", "--freeze", "--batch-size", "16"),
    *("--iterations", "400"),
)


@contextmanager
def agents(folder: Path, out: str, *launches: list[str]) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes of torchrun, one for each node; all of them and their ranks are ended at the end."""
    started = []
    for number, launch in enumerate(launches):
        with (folder / f"{out}-{number}.txt").open("wb") as log:
            started.append(
                subprocess.Popen(
                    [sys.executable, "-m", "torch.distributed.run", *launch, *TRAIN, "--data", "toy", "--out", out],
                    cwd=folder,
                    stdout=log,
                    stderr=log,
                    env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
                )
            )
    try:
        yield started
    finally:
        for agent in started:
            for process in [*ranks_of(agent).values(), agent.pid] if agent.poll() is None else []:
                os.kill(process, signal.SIGKILL)
            agent.wait()


def ranks_of(agent: subprocess.Popen[bytes]) -> dict[int, int]:
    """The process of each rank that an agent has started."""
    children = Path(f"/proc/{agent.pid}/task/{agent.pid}/children").read_text().split()
    found: dict[int, int] = {}
    for child in children:
        variables = Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
        found |= {int(text[5:]): int(child) for text in variables if text.startswith(b"RANK=")}
    return found


def free_port() -> int:
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return int(place.getsockname()[1])


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, toy: Path) -> Path:
    """A folder with `toy`, and a run of two ranks that nothing happened to."""
    folder = tmp_path_factory.mktemp("elastic")
    (folder / "toy").symlink_to(toy)
    with agents(folder, "whole", ["--standalone", "--nproc-per-node", "2"]) as (agent,):
        assert agent.wait(DEADLINE) == 0, (folder / "whole-0.txt").read_text()
    return folder


def kill_a_rank(folder: Path, out: str, agent: subprocess.Popen[bytes]) -> None:
    """Kill the last rank of an agent after the next state is saved."""
    state, end = folder / out / "fold-1/state.safetensors", time.monotonic() + DEADLINE
    before = state.stat().st_mtime_ns if state.exists() else 0
    while not state.exists() or state.stat().st_mtime_ns == before:
        assert time.monotonic() < end
        assert agent.poll() is None
        time.sleep(0.02)
    ranks = ranks_of(agent)
    os.kill(ranks[max(ranks)], signal.SIGKILL)


def assert_same(folder: Path, out: str, count: int) -> None:
    for name in ("report.csv", "fold-1/predictions.csv", "fold-1/metrics.csv"):
        assert (folder / out / name).read_bytes() == (folder / "whole" / name).read_bytes(), name
    logs = "".join((folder / f"{out}-{number}.txt").read_text() for number in range(count))
    assert "fold 1: resumed after iteration" in logs
    assert "error: another rank was lost" in logs


@pytest.mark.slow
def test_two_lost_ranks_do_not_change_the_model(place: Path) -> None:
    launch = ["--standalone", "--nproc-per-node", "2", "--max-restarts", "2", "--monitor-interval", "0.1"]
    with agents(place, "cut", launch) as (agent,):
        kill_a_rank(place, "cut", agent)
        kill_a_rank(place, "cut", agent)
        assert agent.wait(DEADLINE) == 0, (place / "cut-0.txt").read_text()
    assert_same(place, "cut", 1)


@pytest.mark.slow
def test_two_nodes_go_on_after_one_of_them_lost_its_rank(place: Path) -> None:
    meeting = ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"localhost:{free_port()}", "--rdzv-id", "x"]
    launch = ["--nnodes", "2", "--nproc-per-node", "1", "--max-restarts", "2", "--monitor-interval", "0.1", *meeting]
    with agents(place, "nodes", launch, launch) as both:
        kill_a_rank(place, "nodes", both[1])
        codes = [agent.wait(DEADLINE) for agent in both]
    assert codes == [0, 0], (place / "nodes-0.txt").read_text() + (place / "nodes-1.txt").read_text()
    assert_same(place, "nodes", 2)


def test_ranks_meet_in_a_store_that_an_earlier_start_has_left() -> None:
    store, names = HashStore(), set[str]()
    store.set("hello/1", "gone")
    store.set("meeting/gone", "old")
    for _ in range(3):
        with ThreadPoolExecutor(3) as pool:
            found = set(pool.map(lambda rank: meet(store, rank, 3), range(3)))
        assert len(found) == 1
        names |= found
    assert len(names) == 3


def test_a_rank_that_is_alone_says_so() -> None:
    for rank in (0, 1):
        with pytest.raises(InputError, match="did not find each other"):
            meet(HashStore(), rank, 2, timedelta(seconds=0.2))
