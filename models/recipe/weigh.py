"""Sampling weights for the last stages of the default model: young people and old photos are shown more often.

    python models/recipe/weigh.py WORK --name weighted
    python models/recipe/weigh.py WORK --name mild --power 0.5 --favour utkface

Reads WORK/faces/manifest.csv and writes WORK/NAME/manifest.csv, the same faces with a column `weight`. A power below 1
makes the weights more alike; the faces of a favoured set count FAVOURED times.

A model regresses to the mean of its training ages where it is unsure, and it is less sure about scans of old photos. Of
the training faces, 7 % are below 10 years and 12 % were taken before 1990; so drawn, the model takes children and
teenagers, above all in old photos, for too old.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import numpy as np
from build import write
from numpy.typing import NDArray

Floats = NDArray[np.float64]
AGES = (0, 3, 10, 30, 50, 70, 90)  # years
SHARES = (1.6, 1.3, 1.2, 1.1, 0.8, 0.5, 0.35)  # how often an age is drawn, before the balance of POWER
POWER = 0.8  # 1 would draw all ages exactly in these proportions
BEFORE, OLD = 1990, 3.0  # photos taken before this year count so many times
FAVOURED = 1.5
MOST = 5.0  # times the mean weight; the few people above 95 years would be seen 48 times as often


def weights(age: Floats, taken: Floats) -> Floats:
    """The weight of each face, with a mean of about 1.   age: in years (n,); taken: the year of the photo, NaN if unknown (n,)"""
    ordered = np.sort(age)
    near = np.searchsorted(ordered, age + 2, side="right") - np.searchsorted(ordered, age - 2)
    weight = np.interp(age, AGES, SHARES) * near**-POWER * np.where(taken < BEFORE, OLD, 1.0)
    return np.asarray((weight / weight.mean()).clip(max=MOST))


def main() -> None:
    """Read the table, and write the one with weights."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--name", default="weighted", help="of the new folder in WORK")
    parser.add_argument("--power", type=float, default=1.0, help="exponent of the weights")
    parser.add_argument("--favour", help="the set whose faces count more")
    asked = parser.parse_args()
    faces = asked.work / "faces"
    with (faces / "manifest.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    age = np.array([float(row["age"]) for row in rows])
    taken = np.array([float(row["taken"][:4] or "nan") for row in rows])
    favoured = np.array([row["source"].split("/")[0] == asked.favour for row in rows])
    if asked.favour and not favoured.any():
        parser.error(f"no face in {faces} is of the set {asked.favour}")
    weight = weights(age, taken) ** asked.power * np.where(favoured, FAVOURED, 1.0)
    for row, share in zip(rows, weight, strict=True):
        row["weight"] = f"{share:.4g}"
    write(faces.with_name(asked.name), rows, faces)


if __name__ == "__main__":
    main()
