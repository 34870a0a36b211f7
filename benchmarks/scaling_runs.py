"""Measurements of whole runs on several processes: a photo that kills its reader, and leave-one-person-out on a cluster.

python -m benchmarks.scaling_runs poison PHOTOS --count 2000
python -m benchmarks.scaling_runs lopo ALIGNED --iterations 100
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

from benchmarks.attack.odd_inputs import SITECUSTOMIZE
from benchmarks.scaling import TRACE, agecli, cluster, digest, link, take


def poison(place: Path, photos: Path, count: int) -> None:
    """Predict photos of which one aborts the process that reads it, with local workers and on a cluster."""
    (place / "site").mkdir()
    (place / "site/sitecustomize.py").write_text(TRACE + SITECUSTOMIZE)
    folder = take(photos, count - 1, place / "photos")
    agecli(place, "predict", "photos", "-o", "clean.jsonl")
    clean = (place / "clean.jsonl").read_text().splitlines()
    link(min(folder.iterdir()), folder / "abort.jpg")
    with cluster(place) as dask:
        for name, more in (("local", ()), ("dask", ("--cluster", str(dask.file)))):
            agecli(place, "predict", "photos", "--out", name, "--shards", "40", *more)
            agecli(place, "merge", name, "-o", f"{name}.jsonl")
            lines = (place / f"{name}.jsonl").read_text().splitlines()
            crashed = [json.loads(line)["source"] for line in lines if json.loads(line)["status"] == "crashed"]
            others = [line for line in lines if json.loads(line)["source"] not in crashed]
            print(f"{name}: crashed {crashed}, others as before: {others == clean}, {len(clean)} records", flush=True)


def lopo(place: Path, aligned: Path, iterations: int) -> None:
    """report.csv of leave-one-person-out, frozen backbone, in one process and on two Dask workers."""
    command = ["train", "--data", str(aligned.resolve()), "--setup", "lopo", "--freeze", "--device", "cpu", "--quiet"]
    command += ["--iterations", str(iterations)]
    with cluster(place) as dask:
        for name, more in (("one", []), ("dask", ["--cluster", str(dask.file)])):
            began = time.monotonic()
            agecli(place, *command, "--out", name, *more)
            files = " ".join(f"{file} {digest(place / name / file)}" for file in ("report.csv", "predictions.csv"))
            print(f"{name}: {time.monotonic() - began:.0f} s, {files}", flush=True)


def main() -> None:
    """Run one measurement."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("poison", "lopo"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--iterations", type=int, default=100)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        if asked.what == "lopo":
            lopo(place, asked.folder, asked.iterations)
        else:
            poison(place, asked.folder, asked.count)


if __name__ == "__main__":
    main()
