"""Cost of `agecli predict`: cold start with one photo, throughput, and memory for ten times as many photos.

    python -m benchmarks.prediction FOLDER [--inputs 1000 10000]

FOLDER holds photos, which are repeated by hard links. The cold start is compared with `import torch`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from itertools import cycle, islice
from pathlib import Path

import numpy as np

from agecli.core import ages
from agecli.images.crops import FaceCropper
from agecli.model.bundled import named
from agecli.model.predictors import load_predictor
from agecli.prediction.paths import expand

TURNS = 5
FACES = 200
PREDICT = (sys.executable, "-m", "agecli", "predict", "--quiet")


def seconds(*command: str) -> float:
    """Wall-clock time of a command. Raises CalledProcessError if it fails."""
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - begin


def cold(photo: str) -> None:
    """Print the time of one prediction in a new process, relative to `import torch`."""
    ours, floor = [], []
    for _ in range(TURNS):  # alternating, so that other load affects both
        ours.append(seconds(*PREDICT, photo))
        floor.append(seconds(sys.executable, "-c", "import torch"))
    print(f"one photo, cold: {min(ours):.2f} s; import torch: {min(floor):.2f} s; ratio {min(ours) / min(floor):.2f}")


def agreement(photos: list[str]) -> None:
    """Print the largest difference between onnxruntime and torch on the faces of real photos."""
    onnx, torch = (load_predictor(named(None, kind)) for kind in (".onnx", ".safetensors"))
    look = FaceCropper(onnx.card.picture, onnx.card.alignment, largest=True)
    chosen = photos[:: max(1, len(photos) // FACES)]
    faces = np.stack([crop.pixels for photo in chosen for crop in look(photo).crops][:FACES])
    one, two = onnx.pmf(faces), torch.pmf(faces)
    read = [ages.read(pmf, onnx.card.readout, onnx.card.grid) for pmf in (one, two)]
    difference = np.abs(read[0] - read[1]).max()
    print(
        f"onnxruntime against torch, {len(faces)} faces: ages differ by {difference:.1g} years at most, probabilities by {np.abs(one - two).max():.1g}"
    )


def memory_of(session: int) -> int:
    """Proportional set size (PSS) of all processes of a session, in bytes."""
    total = 0
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                if int((process / "stat").read_text().rpartition(")")[2].split()[3]) == session:
                    rollup = (process / "smaps_rollup").read_text()
                    total += (
                        next(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:")) * 1024
                    )
            except (OSError, StopIteration):  # it has just ended
                continue
    return total


def many(photos: list[str], inputs: int, *options: str) -> float:
    """Predict that many inputs; prints the throughput and returns the peak memory in MB."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number, photo in enumerate(islice(cycle(photos), inputs)):
            link = folder / f"{number:06d}{Path(photo).suffix}"
            try:
                os.link(photo, link)
            except OSError:  # another file system
                link.symlink_to(photo)
        begin, peak = time.perf_counter(), 0
        command = [*PREDICT, str(folder), *options]
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        while process.poll() is None:
            peak = max(peak, memory_of(process.pid))
            time.sleep(0.2)
        rate = inputs / (time.perf_counter() - begin)
    print(f"{inputs} inputs {' '.join(options)}: {rate:.1f} photos/s, peak memory {peak / 1e6:.0f} MB")
    return peak / 1e6


def main() -> None:
    """Run all measurements on the photos of a folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--inputs", type=int, nargs=2, default=(1000, 10_000))
    options = parser.parse_args()
    photos = [os.path.abspath(str(photo)) for photo in expand([str(options.folder)])]
    agreement(photos)
    cold(photos[0])
    many(photos, options.inputs[0], "--workers", "1")
    few, more = (many(photos, inputs) for inputs in options.inputs)
    print(f"memory for {options.inputs[1]} / for {options.inputs[0]}: {more / few:.3f}")


if __name__ == "__main__":
    main()
