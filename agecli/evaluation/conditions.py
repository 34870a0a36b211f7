"""Conditions of the photos that a model is measured on: face sizes, sharpness, and how many photos gave no face."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cv2
import numpy as np

from agecli.core.ages import Floats, parse_age
from agecli.core.files import read_csv
from agecli.core.futures import results
from agecli.core.parallel import cores
from agecli.core.reading import MOST_TABLE
from agecli.core.records import Sample
from agecli.images.opening import UnreadableError, read_content
from agecli.scoring.rates import Rate, wilson_rate

EYES = ("left_eye_x", "left_eye_y", "right_eye_x", "right_eye_y")  # columns of manifest.csv, pixels of the photo
SIDE = 128  # pixels; crops are scaled to this before their sharpness is measured
FAILURES = {"no_face": "no face", "unreadable": "unreadable"}  # the statuses of failures.csv that count


def photo_conditions(folder: Path, samples: Sequence[Sample]) -> dict[str, Floats]:
    """What is known of the photos of n faces, as `Predictions.conditions` has it; NaN for a face without it.

    "face size": distance between the eyes in the original photo, pixels, if manifest.csv has the eyes.
    "sharpness": variance of the Laplacian of the grey crop at 128 pixels (Pech-Pacheco et al., 2000); higher is sharper.
    """
    sizes = _face_sizes(folder)
    found = {"face size": np.array([sizes.get(sample.path, np.nan) for sample in samples])} if sizes else {}
    with ThreadPoolExecutor(cores()) as pool:  # OpenCV releases the GIL
        found["sharpness"] = np.array(results(pool, sharpness, [folder / sample.path for sample in samples]))
    return found


def sharpness(path: Path) -> float:
    """The variance of the Laplacian of a grey picture, scaled to 128 pixels; NaN if the picture can't be read."""
    try:
        content = np.frombuffer(read_content(path, MOST_TABLE), dtype=np.uint8)
    except (OSError, UnreadableError):
        return float("nan")
    picture = cv2.imdecode(content, cv2.IMREAD_GRAYSCALE) if len(content) else None
    if picture is None:
        return float("nan")
    small = cv2.resize(picture, (SIDE, SIDE), interpolation=cv2.INTER_AREA)
    return float(cv2.Laplacian(small, cv2.CV_64F).var())


def failure_rates(folder: Path, broken: int = 0) -> dict[str, Rate]:
    """The share of photos of a data folder that gave no face, by reason, and of all reasons: "no face", …, "failed".

    Counted over the photos that `preprocess` was given: those in failures.csv and those in manifest.csv.

    broken: crops that the evaluation could not read; they count as unreadable
    Returns {} if the folder has no failures.csv.
    """
    try:
        failed = read_csv(folder / "failures.csv")
        sources = {row.get("source") or row["path"] for row in read_csv(folder / "manifest.csv")}
    except (OSError, KeyError):
        return {}
    counts = {words: sum(row["status"] == status for row in failed) for status, words in FAILURES.items()}
    counts["unreadable"] += broken
    photos = len(sources) + sum(row["status"] in FAILURES for row in failed)
    counts["failed"] = sum(counts.values())
    return {words: wilson_rate(count, photos) for words, count in counts.items()}


def _face_sizes(folder: Path) -> dict[str, float]:
    """The distance between the eyes of each face by its path, pixels; {} if manifest.csv has no eyes."""
    if not (folder / "manifest.csv").is_file():
        return {}
    sizes = {}
    for row in read_csv(folder / "manifest.csv"):
        eyes = [parse_age(row.get(name) or "") for name in EYES]  # any finite number, None if it is none
        if row.get("path") and None not in eyes:
            left_x, left_y, right_x, right_y = (float(value or 0) for value in eyes)
            sizes[row["path"]] = float(np.hypot(right_x - left_x, right_y - left_y))
    return sizes
