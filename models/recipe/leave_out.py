"""How the default model does on a source it never saw: each data set is left out in turn, the forest trained on frozen features.

    python models/recipe/leave_out.py WORK --weights EDGEFACE

WORK/faces is the table that clean.py wrote. For each set: `agecli train --freeze` on the others' training parts, selected and
calibrated on their validation parts, and measured on all faces of the left-out set that are in the table, without a prior
over ages and with the one that ships: MAE, bias, coverage and width of the 90 % interval. A run that is there is not
repeated. Writes WORK/leave-out.csv.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from build import BACKBONE, NO_PRIOR, PRIOR, train, write
from numpy.typing import NDArray

from agecli.core.ages import AgeGrid, read
from agecli.core.files import write_csv
from agecli.datasets.manifest import read_manifest
from agecli.forest.forests import with_prior
from agecli.forest.grids import youth_prior
from agecli.model.checkpoint import load_checkpoint
from agecli.model.network import AgeModel
from agecli.scoring.calibration import calibrate, interval
from agecli.training.features import compute_features

SETTINGS = ("--config", Path(__file__).with_name("forest.toml"), "--freeze", "--set", "ages.prior=0")


def without(rows: list[dict[str, str]], name: str) -> list[dict[str, str]]:
    """The table with a set as the test part, and the other sets' parts to train and to calibrate on."""
    others = [row for row in rows if not row["source"].startswith(f"{name}/") and row["split"] != "test"]
    inside = [row for row in rows if row["source"].startswith(f"{name}/")]
    return others + [{**row, "split": "test"} for row in inside]


def predicted(model: AgeModel, faces: Path, part: str) -> tuple[torch.Tensor, NDArray[np.float64]]:
    """Distributions (n, A) and true ages (n,) of a part, by the cached features."""
    samples = [sample for sample in read_manifest(faces, AgeGrid()).samples if sample.split == part]
    features = compute_features(model, BACKBONE, faces, samples, torch.device("cpu"))
    with torch.inference_mode():
        return model.ages(model.head(features.values)), np.array([sample.age for sample in samples])


def measured(run: Path, faces: Path, name: str) -> Iterator[dict[str, Any]]:
    """What the run's model says of the left-out set, with each prior."""
    model = load_checkpoint(run / "fold-1/best.safetensors").model.eval()
    grid = model.forest.grid
    (known, known_age), (new, age) = (predicted(model, faces, part) for part in ("val", "test"))
    for settings in (NO_PRIOR, PRIOR):
        prior = youth_prior(grid, settings["ages.prior"], settings["ages.prior_until"])
        selection, pmf = (with_prior(each, prior).numpy() for each in (known, new))
        error = read(pmf, model.forest.readout, grid) - age
        low, high = interval(pmf, grid, calibrate(selection, known_age, grid))
        yield {
            "left out": name,
            "prior": settings["ages.prior"],
            "faces": len(age),
            "mae": round(float(np.abs(error).mean()), 2),
            "bias": round(float(error.mean()), 2),
            "coverage": round(float(((low <= age) & (age <= high)).mean()), 3),
            "width": round(float((high - low).mean()), 1),
        }


def main() -> None:
    """Train what is not there yet, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--weights", type=Path, required=True, help="EdgeFace-S for timm's edgenext_small")
    asked = parser.parse_args()
    with (asked.work / "faces/manifest.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    table: list[dict[str, Any]] = []
    for name in sorted({row["source"].split("/")[0] for row in rows}):
        faces, run = asked.work / f"without-{name}", asked.work / f"forest-without-{name}"
        write(faces, without(rows, name), asked.work / "faces")
        train(run, faces, "--backbone", BACKBONE, "--weights", asked.weights, *SETTINGS)
        for row in measured(run, faces, name):
            table.append(row)
            print(row, flush=True)
    write_csv(asked.work / "leave-out.csv", table, tuple(table[0]))


if __name__ == "__main__":
    main()
