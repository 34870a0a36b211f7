"""How the recipe does on a source it never saw: trained without each set in turn, on frozen features, measured on it.

    python models/recipe/leave_out.py WORK --weights EDGEFACE

WORK/faces is the table that clean.py wrote. For each set: `agecli train --freeze` on the others' training parts, selected and
calibrated on their validation parts, and measured on all faces of the left-out set that are in the table. Prints MAE, bias,
the coverage and width of the 90 % interval, and by how much the interval must be widened to hold 90 % there. The factor
that ships (`agecli.calibration.widened`) is the largest of these. Writes WORK/leave-out.csv.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import Any

import numpy as np
from build import agecli, write

from agecli.model.checkpoint import load_checkpoint
from agecli.scoring.calibration import Calibration, interval, widening

SETTINGS = ("--iterations", "1200", "--batch-size", "128", "--lr", "1e-3", "--trees", "10", "--units", "256")
MORE = {
    "ages.readout": "median",
    "forest.cooling": 0.6,
    "forest.noise": 0.02,
    "training.weight_decay": 0.5,
    "training.average": 0.995,
    "training.eval_every": 400,
    "data.balance": 0.3,
}


def without(rows: list[dict[str, str]], name: str) -> list[dict[str, str]]:
    """The table with one set as the only test part."""
    inside = [row for row in rows if row["source"].startswith(f"{name}/")]
    others = [row for row in rows if row["split"] != "test" and not row["source"].startswith(f"{name}/")]
    return others + [{**row, "split": "test"} for row in inside]


def measured(run: Path, name: str) -> dict[str, Any]:
    """What the run's model says of the left-out set."""
    checkpoint = load_checkpoint(run / "fold-1/best.safetensors")
    saved = np.load(run / "fold-1/distributions.npz")
    with (run / "fold-1/predictions.csv").open(newline="") as file:
        said = list(csv.DictReader(file))
    age, predicted = (np.array([float(row[column]) for row in said]) for column in ("age", "predicted"))
    pmf, grid = saved["pmf"], checkpoint.model.forest.grid
    calibration = checkpoint.calibration
    assert isinstance(calibration, Calibration)
    low, high = interval(pmf, grid, calibration)
    return {
        "left out": name,
        "faces": len(age),
        "mae": round(float(np.abs(predicted - age).mean()), 2),
        "bias": round(float((predicted - age).mean()), 2),
        "coverage": round(float(((low <= age) & (age <= high)).mean()), 3),
        "width": round(float((high - low).mean()), 1),
        "widening": round(widening(pmf, age, grid, calibration), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--weights", type=Path, required=True)
    asked = parser.parse_args()
    with (asked.work / "faces/manifest.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    table = []
    for name in sorted({row["source"].split("/")[0] for row in rows}):
        faces, run = asked.work / f"without-{name}", asked.work / f"run-without-{name}"
        write(faces, without(rows, name), asked.work / "faces")
        if not (run / "report.csv").exists():
            more = [part for key, value in MORE.items() for part in ("--set", f"{key}={value}")]
            begin = ("--backbone", "edgeface_s", "--weights", asked.weights, "--freeze", *SETTINGS, *more)
            begun = ("--resume",) if (run / "config.toml").exists() else begin
            agecli("train", "--data", faces, "--setup", "column", "--out", run, "--quiet", *begun)
        table.append(measured(run, name))
        print(table[-1], flush=True)
    with (asked.work / "leave-out.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, table[0])
        writer.writeheader()
        writer.writerows(table)


if __name__ == "__main__":
    main()
