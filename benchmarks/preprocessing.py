"""Speed-up of `preprocess` by a second worker process, on the photos of a folder, in one run.

python -m benchmarks.preprocessing FOLDER
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import cv2

import agecli

TURNS = 3


def main(folder: Path) -> None:
    """Print photos per second with one and with two workers, and their ratio."""
    cv2.setNumThreads(1)
    seconds: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(TURNS):
        for workers, times in seconds.items():
            with tempfile.TemporaryDirectory() as out:
                begin = time.perf_counter()
                summary = agecli.preprocess(folder, out=Path(out) / "aligned", workers=workers)
                times.append(time.perf_counter() - begin)
    for workers, times in seconds.items():
        print(f"{workers} worker(s): {summary.photos / min(times):.1f} photos/s")
    print(f"ratio: {min(seconds[1]) / min(seconds[2]):.2f} (at least 1.7 is expected)")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
