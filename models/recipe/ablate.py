"""What the data sets bring: the training faces of each are left out in turn, and the error on the selection part is compared.

    python models/recipe/ablate.py WORK --weights EDGEFACE --apart fgnet

WORK/faces is the table that clean.py wrote. Each run learns a forest on frozen features (`frozen.toml`) and is measured on the
selection part of all sets, and on the aligned faces of a set that nothing is learned of, WORK/APART. A run that is there is
not repeated. Writes WORK/ablation.csv.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from build import BACKBONE, train, write

from agecli import predict
from agecli.core.ages import AgeGrid
from agecli.core.files import read_csv, write_csv
from agecli.datasets.manifest import read_manifest

HERE = Path(__file__).parent


def selection_mae(run: Path) -> float:
    """The lowest MAE on the selection part, in years."""
    return min(float(row["val_mae"]) for row in read_csv(run / "fold-1/history.csv") if row["val_mae"])


def unseen_error(run: Path, folder: Path) -> tuple[float, float]:
    """MAE and bias of the run's model on all aligned faces of a folder, in years."""
    samples = read_manifest(folder, AgeGrid()).samples
    paths = [folder / sample.path for sample in samples]
    records = predict(paths, model=run / "fold-1/best.safetensors", no_detect=True, workers=1)
    error = np.array([record.age for record in records], float) - [sample.age for sample in samples]
    return float(np.abs(error).mean()), float(error.mean())


def without(rows: list[dict[str, str]], name: str) -> list[dict[str, str]]:
    """The table without the training faces of one set."""
    return [row for row in rows if row["split"] != "train" or not row["source"].startswith(f"{name}/")]


def main() -> None:
    """Train what is not there yet, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--weights", type=Path, required=True, help="EdgeFace-S for timm's edgenext_small")
    parser.add_argument("--apart", required=True, help="the set that nothing is learned of")
    asked = parser.parse_args()
    work, faces, runs = asked.work, asked.work / "faces", asked.work / "ablation"
    table: list[dict[str, Any]] = []

    def add(left_out: str, faces: Path) -> None:
        run = runs / (faces.name if left_out else "frozen")
        train(run, faces, *frozen)
        mae, bias = unseen_error(run, work / asked.apart)
        unseen = {f"{asked.apart} mae": round(mae, 2), f"{asked.apart} bias": round(bias, 2)}
        table.append({"left out": left_out or "none", "selection mae": round(selection_mae(run), 2), **unseen})
        print(table[-1], flush=True)

    rows = read_csv(faces / "manifest.csv")
    frozen = ("--config", HERE / "frozen.toml", "--freeze", "--backbone", BACKBONE, "--weights", asked.weights)
    add("", faces)
    for name in sorted({row["source"].split("/")[0] for row in rows}):
        write(work / f"no-{name}", without(rows, name), faces)
        add(name, work / f"no-{name}")
    write_csv(work / "ablation.csv", table, tuple(table[0]))


if __name__ == "__main__":
    main()
