"""Where the time of a prediction goes: milliseconds of CPU time per photo and stage, on one core.

    python -m benchmarks.profile FOLDER ... [--model MODEL] [--photos 200]

The stages are those of `predict --largest`: decode the file, detect the face (YuNet), find its eyes (landmarks), align and
crop it, run the network in batches of 32, and make the records (age, interval, JSON). CPU time is used, because
it depends little on what else the machine does. Photos in which nothing is found at once are left out of the later stages.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ParamSpec, TypeVar

import cv2
import numpy as np
from numpy.typing import NDArray

from agecli.images.alignment import Alignment, Photo, align
from agecli.images.crops import Crop, PhotoFaces
from agecli.images.detection import find_faces
from agecli.images.face_finder import main_face
from agecli.images.faces import Face
from agecli.images.reading import Pixels, cut_aligned, read_picture
from agecli.model.bundled import named
from agecli.model.card import Card
from agecli.model.predictors import OnnxPredictor, Predictor
from agecli.prediction.estimation import face_records
from agecli.prediction.options import Options
from agecli.prediction.paths import expand

STAGES = ("decode", "detect", "landmarks", "align", "network", "records")
BATCH = 32
T = TypeVar("T")
P = ParamSpec("P")


class Timed:
    """A predictor that measures its CPU time."""

    def __init__(self, predictor: Predictor) -> None:
        self.predictor, self.card, self.seconds = predictor, predictor.card, 0.0

    def load(self) -> None:
        """Load the network."""
        self.predictor.load()

    def pmf(self, pixels: Pixels) -> NDArray[np.float32]:
        """As the predictor's own, measured."""
        result, seconds = timed(self.predictor.pmf, pixels)
        self.seconds += seconds
        return result


def timed(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> tuple[T, float]:
    """The result of a call and its CPU time in seconds."""
    begin = time.process_time()
    return work(*args, **kwargs), time.process_time() - begin


def crop(photo: Photo, face: Face, card: Card) -> Pixels:
    """The input of the network."""
    return cut_aligned(align(photo, face.left_eye, face.right_eye, card.alignment or Alignment()), card.picture)


def lines(predictor: Predictor, photos: Sequence[PhotoFaces]) -> list[str]:
    """The records of photos with one face each, as JSON."""
    return [json.dumps(record.row()) for record in face_records(predictor, [(photo, 0) for photo in photos], Options())]


def profile(files: Sequence[str], predictor: Predictor) -> dict[str, float]:
    """Milliseconds per photo of each stage."""
    seconds = dict.fromkeys(STAGES, 0.0)
    photos: list[PhotoFaces] = []
    for file in files:
        image, decoding = timed(read_picture, Path(file))
        photo = np.asarray(image)
        _, detecting = timed(find_faces, photo, "yunet", "auto", True)
        faces, both = timed(find_faces, photo, "auto", "auto", True)
        seconds["decode"] += decoding
        seconds["detect"] += detecting
        seconds["landmarks"] += max(0.0, both - detecting)
        if faces:
            face = main_face(faces, photo)
            pixels, aligning = timed(crop, photo, face, predictor.card)
            seconds["align"] += aligning
            photos.append(PhotoFaces(file, (Crop((0, 0, 0, 0), face.score, pixels),)))
    watched = Timed(predictor)
    for start in range(0, len(photos), BATCH):
        before = watched.seconds
        _, whole = timed(lines, watched, photos[start : start + BATCH])
        seconds["records"] += whole - (watched.seconds - before)
    seconds["network"] = watched.seconds
    return {stage: 1000 * value / len(files) for stage, value in seconds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="+")
    parser.add_argument("--model", help="an ONNX file; the bundled one if none is named")
    parser.add_argument("--photos", type=int, default=200)
    asked = parser.parse_args()
    cv2.setNumThreads(1)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    predictor = OnnxPredictor(named(asked.model, ".onnx"), threads=1)
    print(f"{'':20s}" + "".join(f"{stage:>11s}" for stage in (*STAGES, "sum")) + "   photos/s")
    for folder in asked.folder:
        files = sorted(map(str, expand([folder])))
        chosen = files[:: max(1, len(files) // asked.photos)][: asked.photos]
        profile(chosen[:8], predictor)  # warm-up
        row = profile(chosen, predictor)
        total = sum(row.values())
        print(f"{folder[-20:]:20s}" + "".join(f"{row[s]:11.2f}" for s in STAGES) + f"{total:11.2f}{1000 / total:11.0f}")


if __name__ == "__main__":
    main()
