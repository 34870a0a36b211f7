"""Clusters: shards on a real Dask scheduler and real workers, in another folder and with another home."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

import agecli
from agecli.core.errors import InputError, MissingError
from agecli.scaling.clusters import connect
from benchmarks.attack.odd_inputs import SITECUSTOMIZE
from benchmarks.scaling import TRACE, Cluster

EXAMPLE = Path(__file__).parent.parent.parent / "docs/example.jpg"
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="kills are those of POSIX")
SHARDS, COUNT = 12, 24


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Photos, of which one kills its reader; what `predict -o` says of them; a scheduler and two workers."""
    place = tmp_path_factory.mktemp("cluster")
    (place / "photos").mkdir()
    with Image.open(EXAMPLE) as image:
        for number in range(COUNT):
            image.crop((150 + number, 40, 300, 190)).save(place / f"photos/{number:02d}.jpg")
        image.crop((150, 40, 300, 190)).save(place / "photos/abort.jpg")
    found = Cluster(place)
    (place / "site/sitecustomize.py").write_text(TRACE + SITECUSTOMIZE)
    assert run(found, "-o", "one.jsonl").returncode == 1
    try:
        found.start()
        yield found
    finally:
        found.stop()


def start(cluster: Cluster, *more: str) -> subprocess.Popen[str]:
    """`agecli predict photos …`, with relative names, in the folder of the photos."""
    command = [sys.executable, "-m", "agecli", "predict", "photos", "--no-detect", *more]
    return subprocess.Popen(
        command,
        cwd=cluster.place,
        env={**cluster.environment, "HOME": os.environ.get("HOME", "/")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(cluster: Cluster, *more: str) -> subprocess.CompletedProcess[str]:
    """The same, until it ends."""
    process = start(cluster, *more)
    output, errors = process.communicate(timeout=300)
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


def options(cluster: Cluster, out: str) -> tuple[str, ...]:
    return ("--out", out, "--shards", str(SHARDS), "--cluster", str(cluster.file))


def check(cluster: Cluster, out: str) -> None:
    """The merged file is that of one process, and the folder has the parts and nothing else."""
    folder = cluster.place / out
    agecli.merge(folder, cluster.place / f"{out}.jsonl")
    assert (cluster.place / f"{out}.jsonl").read_bytes() == (cluster.place / "one.jsonl").read_bytes()
    parts = {f"part-{number:05d}.jsonl" for number in range(SHARDS)}
    assert {path.name for path in folder.iterdir()} == {"plan.json", "plan.inputs.jsonl", *parts}


def await_part(folder: Path) -> None:
    """Wait for the first finished shard."""
    end = time.monotonic() + 120
    while not any(folder.glob("part-*.jsonl")):
        assert time.monotonic() < end
        time.sleep(0.02)


def test_workers_elsewhere_give_the_same_bytes_and_a_crash_is_one_record(cluster: Cluster) -> None:
    done = run(cluster, *options(cluster, "out"))
    assert done.returncode == 1, done.stderr
    assert "1 of 25 inputs gave no age" in done.stderr
    check(cluster, "out")
    statuses = [json.loads(line)["status"] for line in (cluster.place / "out.jsonl").read_text().splitlines()]
    assert statuses == ["ok"] * COUNT + ["crashed"]


@pytest.mark.slow
@pytest.mark.parametrize("victim", ["driver", "worker", "scheduler"])
def test_after_a_kill_the_same_command_gives_the_same_bytes(cluster: Cluster, victim: str) -> None:
    (cluster.place / "trace.txt").unlink(missing_ok=True)
    driver = start(cluster, *options(cluster, victim))
    await_part(cluster.place / victim)
    assert cluster.scheduler
    pids = {"driver": driver.pid, "worker": cluster.workers[0].pid, "scheduler": cluster.scheduler.pid}
    os.kill(pids[victim], signal.SIGKILL)
    errors = driver.communicate(timeout=120)[1]
    assert "Traceback" not in errors
    if victim == "worker":
        cluster.workers.pop(0).wait()
        cluster.add_worker()
        assert driver.returncode == 1
    elif victim == "scheduler":
        assert driver.returncode == 2
        assert "the connection to the scheduler is lost" in errors
        for worker in cluster.workers:
            worker.wait(timeout=120)
        cluster.workers.clear()
        cluster.start()
    assert run(cluster, *options(cluster, victim)).returncode == 1
    check(cluster, victim)
    begun = (cluster.place / "trace.txt").read_text().split()
    assert len(begun) <= SHARDS + (2 if victim == "scheduler" else 1)


def test_processes_of_its_own(cluster: Cluster) -> None:
    assert run(cluster, "--out", "local", "--shards", str(SHARDS), "--cluster", "local:2").returncode == 1
    check(cluster, "local")


@pytest.mark.parametrize(
    ("address", "error", "says"),
    [
        ("local:x", InputError, "can't be read"),
        ("local:0", InputError, "can't be read"),
        ("nothing.json", MissingError, "there is no such file"),
        ("tcp://127.0.0.1:1", MissingError, "no scheduler answers"),
    ],
)
def test_a_cluster_that_is_not_there_is_an_error(
    address: str, error: type[Exception], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agecli.scaling.clusters.CONNECT", 0.5)
    with pytest.raises(error, match=says), connect(address):
        pass
