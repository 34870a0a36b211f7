"""Measurements of sharded runs: equality of engines, kills, memory, and photos per second.

python -m benchmarks.scaling equality PHOTOS --count 2000
python -m benchmarks.scaling kills PHOTOS --target worker --times 20 --seed 1
python -m benchmarks.scaling memory
python -m benchmarks.scaling preprocessing --table
python -m benchmarks.scaling speed PHOTOS
python -m benchmarks.scaling containers PHOTOS --count 1002
python -m benchmarks.scaling cores PHOTOS --count 1002
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

AGECLI = [sys.executable, "-m", "agecli"]
ROOT = Path(__file__).parent.parent
# counts how often the work on a shard was begun, in all processes
TRACE = """
import os
try:
    from agecli.scaling import parts
except ImportError:
    parts = None
if parts and "AGECLI_TRACE" in os.environ:
    write = parts._write
    def traced(path, plan, number, work, entries):
        with open(os.environ["AGECLI_TRACE"], "a") as file:
            file.write(f"{number}\\n")
        return write(path, plan, number, work, entries)
    parts._write = traced
"""


def take(photos: Path, count: int, folder: Path) -> Path:
    """A folder of so many hard links to photos, each of which may have several."""
    names = sorted(path for path in photos.iterdir() if path.is_file())
    folder.mkdir()
    for number in range(count):
        source = names[number % len(names)]
        link(source, folder / f"{number // len(names):04d}-{source.name}")
    return folder


def link(source: Path, target: Path) -> None:
    """A hard link, or a symbolic one across file systems."""
    try:
        os.link(source, target)
    except OSError:
        target.symlink_to(source.resolve())


def environment(place: Path) -> dict[str, str]:
    """Variables of traced processes whose home is another folder."""
    (place / "site").mkdir(exist_ok=True)
    (place / "home").mkdir(exist_ok=True)
    if not (place / "site/sitecustomize.py").exists():
        (place / "site/sitecustomize.py").write_text(TRACE)
    python_path = os.pathsep.join([str(place / "site"), str(ROOT)])
    return {
        **os.environ,
        "PYTHONPATH": python_path,
        "HOME": str(place / "home"),
        "AGECLI_TRACE": str(place / "trace.txt"),
    }


class Cluster:
    """A Dask scheduler and worker processes of their own, in another working directory and with another home."""

    def __init__(self, place: Path, workers: int = 2) -> None:
        self.place, self.count = place, workers
        self.file = place / "scheduler.json"
        self.environment = environment(place)
        self.scheduler: subprocess.Popen[bytes] | None = None
        self.workers: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Start the scheduler and the workers."""
        self.file.unlink(missing_ok=True)
        self.scheduler = self._start("scheduler", "--port", "0", "--no-dashboard", "--scheduler-file", str(self.file))
        while not self.file.exists():
            time.sleep(0.05)
        for _ in range(self.count):
            self.add_worker()

    def add_worker(self) -> None:
        """Start one more worker, with one thread."""
        options = ["--nthreads", "1", "--no-dashboard", "--memory-limit", "0", "--local-directory", str(self.place)]
        self.workers.append(self._start("worker", "--scheduler-file", str(self.file), "--no-nanny", *options))

    def _start(self, *command: str) -> subprocess.Popen[bytes]:
        with (self.place / "dask.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "distributed.cli.dask_" + command[0], *command[1:]],
                cwd=self.place / "home",
                env=self.environment,
                stdout=log,
                stderr=log,
            )

    def stop(self) -> None:
        """Kill all processes."""
        for process in [*self.workers, self.scheduler]:
            if process is not None:
                process.kill()
                process.wait()
        self.workers, self.scheduler = [], None


@contextmanager
def cluster(place: Path, workers: int = 2) -> Iterator[Cluster]:
    """A running cluster for the length of a `with` block."""
    found = Cluster(place, workers)
    try:
        found.start()
        yield found
    finally:
        found.stop()


def agecli(place: Path, *arguments: str, **more: str) -> None:
    """Run a command in the folder of the photos; exit codes 0 and 1 are right."""
    done = subprocess.run(
        [*AGECLI, *arguments], cwd=place, env={**environment(place), **more}, capture_output=True, text=True
    )
    if done.returncode not in (0, 1):
        raise SystemExit(f"{arguments}: {done.returncode}\n{done.stderr}")


def digest(path: Path) -> str:
    """The first digits of a file's SHA-256."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


def merged(place: Path, out: str) -> str:
    """The hash of the merged file of a run."""
    agecli(place, "merge", out, "-o", f"{out}.jsonl")
    return digest(place / f"{out}.jsonl")


def equality(place: Path, photos: Path, count: int) -> None:
    """The merged file by local processes, by another number of shards, by an array, and by a cluster."""
    take(photos, count, place / "photos")
    agecli(place, "predict", "photos", "-o", "one.jsonl")
    print(f"predict -o              {digest(place / 'one.jsonl')}", flush=True)
    agecli(place, "predict", "photos", "--out", "local", "--shards", "40")
    print(f"local, 40 shards        {merged(place, 'local')}", flush=True)
    agecli(place, "predict", "photos", "--out", "seven", "--shards", "7")
    print(f"local, 7 shards         {merged(place, 'seven')}", flush=True)
    for task in range(3):
        slurm = {"SLURM_ARRAY_TASK_MIN": "0", "SLURM_ARRAY_TASK_MAX": "2", "SLURM_ARRAY_TASK_COUNT": "3"}
        command = ("predict", "photos", "--out", "array", "--shards", "40", "--shard", "env")
        agecli(place, *command, SLURM_ARRAY_TASK_ID=str(task), **slurm)
    print(f"three tasks, 40 shards  {merged(place, 'array')}", flush=True)
    with cluster(place) as dask:
        agecli(place, "predict", "photos", "--out", "dask", "--shards", "40", "--cluster", str(dask.file))
    print(f"Dask, two workers       {merged(place, 'dask')}", flush=True)


def kills(place: Path, photos: Path, count: int, target: str, times: int, seed: int) -> None:
    """Kill a worker, the driver or the scheduler at a random moment, run the same command again, and compare."""
    take(photos, count, place / "photos")
    agecli(place, "predict", "photos", "-o", "one.jsonl")
    expected, chance = digest(place / "one.jsonl"), random.Random(seed)
    began = time.monotonic()
    with cluster(place) as dask:
        agecli(place, "predict", "photos", "--out", "whole", "--shards", "40", "--cluster", str(dask.file))
    span = time.monotonic() - began
    print(f"target {target}, seed {seed}, {count} photos, 40 shards, {span:.1f} s without a kill", flush=True)
    trace = place / "trace.txt"
    for turn in range(times):
        trace.unlink(missing_ok=True)
        out, moment = f"run-{turn}", chance.uniform(1.0, span)
        command = ["predict", "photos", "--out", out, "--shards", "40"]
        if target != "local":
            command += ["--cluster", str(place / "scheduler.json")]
        with ExitStack() as stack:
            started = stack.enter_context(cluster(place)) if target != "local" else None
            driver = subprocess.Popen([*AGECLI, *command], cwd=place, env=environment(place), stderr=subprocess.PIPE)
            time.sleep(moment)
            alive = driver.poll() is None
            victim = driver
            if started and started.scheduler and target in ("worker", "scheduler"):
                victim = started.scheduler if target == "scheduler" else started.workers[chance.randrange(2)]
            victim.send_signal(signal.SIGKILL)
            first = driver.wait(timeout=300)
            errors = driver.stderr.read().decode() if driver.stderr else ""
            assert "Traceback" not in errors, errors
            if started and target == "scheduler":
                for process in started.workers:
                    process.wait(timeout=120)  # they end by themselves, after what they were doing
                started.workers.clear()
                started.start()
            agecli(place, *command)
        left = {path.name for path in (place / out).iterdir()} - {f"part-{n:05d}.jsonl" for n in range(40)}
        begun = Counter(trace.read_text().split())
        twice = sum(begun.values()) - len(begun)
        same = merged(place, out) == expected
        print(
            f"{turn + 1:3d}: killed after {moment:4.1f} s ({'running' if alive else 'finished'}), driver's exit {first}, "
            f"same bytes {same}, shards done twice {twice}, left {sorted(left - {'plan.json', 'plan.inputs.jsonl'})}",
            flush=True,
        )


def memory(place: Path) -> None:
    """Peak memory of plan and merge, for 10,000 and 1,000,000 names. The records are made up: no photo is read."""
    peaks = {}
    for count in (10_000, 1_000_000):
        names = place / f"names-{count}.txt"
        with names.open("w") as file:
            file.writelines(f"/photos/{number // 1000:06d}/photo-{number:09d}.jpg\n" for number in range(count))
        out, shards = place / f"out-{count}", str(count // 1000)
        plan = ["predict", f"@{names}", "--out", str(out), "--shards", shards, "--script", "slurm"]
        peaks["plan", count] = peak([*AGECLI, *plan])
        subprocess.run([sys.executable, "-c", FAKE, str(out)], check=True, cwd=ROOT)
        for ending in ("jsonl", "csv", "parquet"):
            merge = ["merge", str(out), "-o", str(place / f"{count}.{ending}")]
            peaks[f"merge {ending}", count] = peak([*AGECLI, *merge])
    for name in ("plan", "merge jsonl", "merge csv", "merge parquet"):
        few, many = peaks[name, 10_000], peaks[name, 1_000_000]
        print(f"{name:14s} {few:7.1f} MB for 10,000, {many:7.1f} MB for 1,000,000: {many / few:.3f}")


def preprocessing(place: Path, table: bool, more: Sequence[str] = ()) -> None:
    """Peak memory of `preprocess --no-detect` of 10,000 and 100,000 hard links to small pictures.

    table: all in one folder with a labels.csv; otherwise in folders of a thousand, with ages in their names.
    more: options of the command.
    """
    from PIL import Image

    for number in range(20):
        Image.effect_noise((48, 48), 60 + number).convert("RGB").save(place / f"{number}.jpg")
    peaks = []
    for count in (10_000, 100_000):
        folder = place / str(count)
        names = [
            f"photo-{number:07d}.jpg"
            if table
            else f"{number // 1000:04d}/{number % 1000 // 10:03d}A{number % 70:02d}{chr(97 + number % 10)}.JPG"
            for number in range(count)
        ]
        for number, name in enumerate(names):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            link(place / f"{number % 20}.jpg", folder / name)
        if table:
            lines = (f"{name},{number % 90},s{number % 500}\n" for number, name in enumerate(names))
            (folder / "labels.csv").write_text("path,age,subject\n" + "".join(lines))
        command = ["preprocess", str(folder), "--out", str(place / f"out-{count}"), "--no-detect", "--size", "32"]
        began = time.monotonic()
        peaks.append(peak([*AGECLI, *command, "--workers", "2", "-q", *more]))
        rows = (place / f"out-{count}/manifest.csv").read_text().count("\n") - 1
        print(f"{rows} faces, {peaks[-1]:.1f} MB, {time.monotonic() - began:.0f} s", flush=True)
    print(f"ratio {peaks[1] / peaks[0]:.3f}")


FAKE = """
import json, sys
from pathlib import Path
from agecli.core.records import Record
from agecli.scaling.parts import do_shard
from agecli.scaling.plan import read_plan
folder = Path(sys.argv[1])
plan = read_plan(folder)
def work(number, entries, tally):
    for name in entries:
        record = Record(name, age=30.0, std=5.0, low=20.0, high=40.0, coverage=0.9, box=(1, 2, 3, 4), face=0)
        yield json.dumps(record.row()).encode() + b"\\n"
for number in range(plan.shards):
    do_shard(folder, plan, number, work)
"""


def peak(command: Sequence[str]) -> float:
    """The peak resident memory of a command and its children, in MB."""
    code = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); "
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    done = subprocess.run([sys.executable, "-c", code, *command], capture_output=True, text=True, cwd=ROOT, check=True)
    return int(done.stdout.split()[-1]) / 1024


def speed(place: Path, photos: Path, count: int, turns: int = 3) -> None:
    """Photos per second of two local processes and of two Dask workers, in turn, the start-up of all included."""
    take(photos, count, place / "photos")
    with cluster(place) as dask:
        time.sleep(5)
        for turn in range(turns):
            rates = []
            for kind, more in (("local", ["--workers", "2"]), ("dask", ["--cluster", str(dask.file)])):
                began = time.monotonic()
                agecli(place, "predict", "photos", "--out", f"{kind}-{turn}", "--shard-size", "250", *more)
                rates.append(count / (time.monotonic() - began))
            print(f"local {rates[0]:.1f}/s, Dask {rates[1]:.1f}/s, ratio {rates[1] / rates[0]:.3f}", flush=True)


def by_cores(place: Path, photos: Path, count: int) -> None:
    """Photos per hour of `predict` on 1, 2, 4, … cores, and CPU seconds per photo, start-up included. Linux only."""
    take(photos, count, place / "photos")
    every = sorted(os.sched_getaffinity(0))
    number = 1
    while number <= len(every):
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        os.sched_setaffinity(0, every[:number])
        agecli(place, "predict", "photos", "-o", f"{number}.jsonl")
        seconds, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        print(
            f"{number} core(s): {3600 * count / seconds:,.0f} photos per hour, {1000 * used / count:.1f} ms of CPU per photo, "
            f"busy {used / seconds / number:.0%}, {(place / f'{number}.jsonl').stat().st_size / count:.0f} bytes per photo",
            flush=True,
        )
        number *= 2


def containers(place: Path, photos: Path, count: int) -> None:
    """Photos per second of a folder, a tar, a zip, a compressed tar and a Parquet file, in turn, start-up included."""
    import tarfile
    import zipfile

    import pyarrow as pa
    import pyarrow.parquet as pq

    names = sorted(path.name for path in take(photos, count, place / "photos").iterdir())
    with (
        tarfile.open(place / "photos.tar", "w") as tar,
        tarfile.open(place / "photos.tar.gz", "w:gz") as compressed,
        zipfile.ZipFile(place / "photos.zip", "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        for name in names:
            for container in (tar, compressed):
                info = tarfile.TarInfo(name)
                info.size = (place / "photos" / name).stat().st_size
                with (place / "photos" / name).open("rb") as file:
                    container.addfile(info, file)
            archive.write(place / "photos" / name, name)
    images = [{"bytes": (place / "photos" / name).read_bytes(), "path": name} for name in names]
    pq.write_table(pa.table({"image": images}), place / "photos.parquet", row_group_size=100)
    inputs = ("photos", "photos.tar", "photos.zip", "photos.tar.gz", "photos.parquet")
    records: dict[str, str] = {}
    for turn in range(3):
        rates = {}
        for name in inputs:
            began = time.monotonic()
            agecli(place, "predict", name, "--workers", "2", "-o", f"{turn}-{name}.jsonl")
            rates[name] = count / (time.monotonic() - began)
            text = (place / f"{turn}-{name}.jsonl").read_text().replace(f'"source": "{name}/', '"source": "')
            records[name] = hashlib.sha256(text.encode()).hexdigest()[:8]
        print(
            f"folder {rates['photos']:.1f}/s; of it: "
            + ", ".join(f"{name} {rates[name] / rates['photos']:.3f}" for name in inputs[1:])
            + f"; same records {len(set(records.values())) == 1}",
            flush=True,
        )


def main() -> None:
    """Run one measurement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "what", choices=("equality", "kills", "memory", "speed", "containers", "preprocessing", "cores")
    )
    parser.add_argument("photos", type=Path, nargs="?")
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--target", choices=("worker", "driver", "scheduler", "local"), default="worker")
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--table", action="store_true", help="preprocessing: one folder, ages in a labels.csv")
    parser.add_argument("--pack", action="store_true", help="preprocessing: into tars")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--turns", type=int, default=3, help="of the measurement of speed")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        if asked.what == "memory":
            memory(place)
        elif asked.what == "preprocessing":
            preprocessing(place, asked.table, ["--pack"] if asked.pack else [])
        elif asked.photos is None:
            parser.error("name a folder of photos")
        elif asked.what == "equality":
            equality(place, asked.photos, asked.count)
        elif asked.what == "containers":
            containers(place, asked.photos, asked.count)
        elif asked.what == "cores":
            by_cores(place, asked.photos, asked.count)
        elif asked.what == "speed":
            speed(place, asked.photos, asked.count, asked.turns)
        else:
            kills(place, asked.photos, asked.count, asked.target, asked.times, asked.seed)


if __name__ == "__main__":
    main()
