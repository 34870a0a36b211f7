"""The training faces of the default model: all sets in one table, without duplicates and without grossly wrong ages.

    python models/recipe/clean.py WORK --weights EDGEFACE --train utkface aaf appa wiki --apart fgnet

WORK/SET are folders of `agecli preprocess`. Writes WORK/faces/manifest.csv (every face with its part, `train`, `val` or
`test`) and WORK/dropped.csv (what was left out of training or validation, and why). Test parts are never changed.

Both checks use the frozen features of the face-recognition network. Near-duplicates: cosine similarity of the last
stage's pooled maps; a training face that shows a photo of a test part, or of a set that is kept apart, is dropped. Wrong
ages: predictions of a ridge regression that was fitted without the face (out of fold) that miss by more than GROSS stds.
"""

from __future__ import annotations

import argparse
import csv
from collections import Counter
from pathlib import Path

import numpy as np
import torch
from build import rows_of, write
from numpy.typing import NDArray

from agecli.core.ages import AgeGrid
from agecli.core.config import Config, replace
from agecli.datasets.manifest import read_manifest
from agecli.training.features import compute_features
from agecli.training.initialisation import first_model, take_over

Floats = NDArray[np.float32]
LAST_STAGE = slice(512, 816)  # the means of the last stage's channels among the 1120 features
SAME = 0.84  # cosine similarity of two crops of one photo: seen in pairs of all sets, also where one crop is tight
APART = 5.0  # years between the ages of one photo above which neither is believed
GROSS = 3.0  # stds of the residuals of a set's faces of about that age
PENALTY = 300.0  # of the ridge regression
FOLDS = 5
RANK = {"apart": 3, "test": 2, "val": 1, "train": 0}  # of two crops of one photo, the higher one stays


def features_of(folder: Path, weights: Path) -> dict[str, Floats]:
    """The backbone's frozen features of each face, by path."""
    asked = {"backbone.name": "edgeface_s", "backbone.weights": str(weights)}
    model, _ = first_model(take_over(replace(Config(), asked), asked, None), None)
    faces = read_manifest(folder, AgeGrid())
    found = compute_features(model, "edgeface_s", folder, faces.samples, torch.device("cpu"))
    return {sample.path: row.numpy() for sample, row in zip(faces.samples, found.values, strict=True)}


def near_pairs(x: Floats, least: float, block: int = 2000) -> list[tuple[int, int]]:
    """Pairs i < j of rows with a cosine similarity of at least `least`, after standardising the columns."""
    z = (x - x.mean(0)) / x.std(0).clip(1e-6)
    z /= np.linalg.norm(z, axis=1, keepdims=True)
    pairs = []
    for start in range(0, len(z), block):
        i, j = np.nonzero(z[start : start + block] @ z[start:].T >= least)
        pairs += [(int(a) + start, int(b) + start) for a, b in zip(i, j, strict=True) if a < b]
    return pairs


def duplicates(pairs: list[tuple[int, int]], part: list[str], age: Floats) -> dict[int, str]:
    """Which faces to drop, and why. Of two training faces with about the same age the second one goes."""
    dropped: dict[int, str] = {}
    for i, j in pairs:
        low, high = sorted((i, j), key=lambda index: RANK[part[index]])
        if RANK[part[low]] < RANK[part[high]]:
            dropped[low] = f"duplicate of a face of part {part[high]}"
        elif part[low] in ("train", "val"):
            if abs(age[i] - age[j]) > APART:
                dropped[i] = dropped[j] = "duplicate with another age"
            elif i not in dropped:
                dropped.setdefault(j, f"duplicate in part {part[low]}")
    return dropped


def out_of_fold(x: Floats, age: Floats) -> Floats:
    """Predictions for each face by a ridge regression on the other folds."""
    z = (x - x.mean(0)) / x.std(0).clip(1e-6)
    fold = np.random.default_rng(0).permutation(len(z)) % FOLDS
    predicted = np.zeros(len(z), np.float32)
    for number in range(FOLDS):
        rest = fold != number
        gram = z[rest].T @ z[rest] + PENALTY * np.eye(z.shape[1], dtype=np.float32)
        w = np.linalg.solve(gram, z[rest].T @ (age[rest] - age[rest].mean()))
        predicted[~rest] = z[~rest] @ w + age[rest].mean()
    return predicted


def gross_errors(predicted: Floats, age: Floats, group: NDArray[np.str_]) -> NDArray[np.bool_]:
    """Residuals beyond GROSS stds among the faces of the same set whose prediction is within ten years.

    Stds are robust (1.48 MAD), so that wrong labels don't widen their own limit.
    """
    residual = age - predicted
    gross = np.zeros(len(age), bool)
    for name in set(group.tolist()):
        members = np.nonzero(group == name)[0]
        order = members[np.argsort(predicted[members])]
        for chunk in np.array_split(order, max(1, len(order) // 500)):
            r = residual[chunk]
            middle = np.median(r)
            gross[chunk] = np.abs(r - middle) > GROSS * 1.48 * np.median(np.abs(r - middle))
    return gross


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--train", nargs="+", required=True, help="sets to train on; a tenth of each is held out")
    parser.add_argument("--apart", nargs="*", default=[], help="sets that nothing may be learned of")
    parser.add_argument("--noisy", nargs="*", default=["wiki"], help="sets whose gross errors are dropped")
    asked = parser.parse_args()
    rows: list[dict[str, str]] = []
    values: list[Floats] = []
    for name in (*asked.train, *asked.apart):
        folder = asked.work / name
        known = features_of(folder, asked.weights)
        for row in rows_of(folder):
            row["split"] = "apart" if name in asked.apart else row["split"]
            rows.append(row)
            values.append(known[row["path"].removeprefix(f"{name}/")])
    x, age = np.stack(values), np.array([row["age"] for row in rows], np.float32)
    part, group = [row["split"] for row in rows], np.array([row["source"].split("/")[0] for row in rows])
    dropped = duplicates(near_pairs(x[:, LAST_STAGE], SAME), part, age)
    learned = np.array([part[i] == "train" and i not in dropped for i in range(len(rows))])
    wrong = gross_errors(out_of_fold(x[learned], age[learned]), age[learned], group[learned])
    for i in np.nonzero(learned)[0][wrong]:
        if group[i] in asked.noisy:
            dropped[int(i)] = "age far from its out-of-fold prediction"
    kept = [row for i, row in enumerate(rows) if i not in dropped and part[i] != "apart"]
    write(asked.work / "faces", kept, asked.work / asked.train[0])
    with (asked.work / "dropped.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("source", "part", "age", "reason"))
        writer.writerows((rows[i]["source"], part[i], rows[i]["age"], why) for i, why in sorted(dropped.items()))
    print(Counter((row["source"].split("/")[0], row["split"]) for row in kept))
    print(Counter((group[i], part[i], why) for i, why in dropped.items()))


if __name__ == "__main__":
    main()
