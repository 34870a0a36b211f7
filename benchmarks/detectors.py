"""Detection rate, eye error and time of each face detector, on one thread.

    python -m benchmarks.detectors FGNET            # with FG-NET's points/ beside its images/: eyes are measured
    python -m benchmarks.detectors FOLDER --only auto --limit 1000

FG-NET's 0-based points 31 and 36 are the pupils, the one on the photo's left first. The error of an eye is its distance
from the true pupil, divided by the distance between the pupils.
"""

from __future__ import annotations

import argparse
import re
import time
from pathlib import Path

import cv2
import numpy as np

from agecli.core.ages import AgeGrid
from agecli.core.records import Sample
from agecli.datasets.manifest import read_manifest
from agecli.images.alignment import Alignment, Photo, align
from agecli.images.detection import DETECTORS, find_faces
from agecli.images.face_finder import main_face
from agecli.images.reading import read_picture


def pupils(folder: Path, sample: Sample) -> tuple[complex, complex] | None:
    """The manual pupils of a photo of FG-NET, x + iy in pixels, left one first; None if there are none."""
    path = folder / "points" / f"{Path(sample.path).stem.lower()}.pts"
    if not path.is_file():
        return None
    numbers = [float(n) for n in re.search(r"\{(.*?)\}", path.read_text(), re.S).group(1).split()]  # type: ignore[union-attr]
    return complex(*numbers[62:64]), complex(*numbers[72:74])


def main() -> None:
    """Print a row for each detector."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="*", default=["auto", *DETECTORS])
    parser.add_argument("--limit", type=int, default=0)
    options = parser.parse_args()
    cv2.setNumThreads(1)
    samples = read_manifest(options.folder, AgeGrid()).samples
    if options.limit:
        samples = samples[:: max(1, len(samples) // options.limit)]
    print(
        f"{'detector':<12} {'found':>7} {'missed <5':>9} {'eye median':>10} {'eye p95':>8} {'ms':>6}   ({len(samples)} photos)"
    )
    for name in options.only:
        errors: list[float] = []
        attempts: dict[str, int] = {}
        missed, young, seconds = 0, 0, 0.0
        for sample in samples:
            photo: Photo = np.asarray(read_picture(options.folder / sample.path))
            begin = time.perf_counter()
            faces = find_faces(photo, name, main_only=True)
            if faces:
                face = main_face(faces, photo)
                align(photo, face.left_eye, face.right_eye, Alignment())
            seconds += time.perf_counter() - begin
            if not faces:
                missed += 1
                young += sample.age < 5
                continue
            attempts[face.detector] = attempts.get(face.detector, 0) + 1
            if truth := pupils(options.folder, sample):
                between = abs(truth[1] - truth[0])
                errors += [
                    abs(complex(*eye) - true) / between
                    for eye, true in zip((face.left_eye, face.right_eye), truth, strict=True)
                ]
        middle, tail = (f"{100 * np.percentile(errors, q):.2f} %" if errors else "-" for q in (50, 95))
        print(
            f"{name:<12} {1 - missed / len(samples):>7.1%} {young:>9} {middle:>10} {tail:>8} {1e3 * seconds / len(samples):>6.1f}  ",
            ", ".join(f"{attempt} {count}" for attempt, count in attempts.items()) if name == "auto" else "",
            flush=True,
        )


if __name__ == "__main__":
    main()
