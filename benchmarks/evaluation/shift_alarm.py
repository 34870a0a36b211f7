"""The shift alarm on sets that its reference has not seen: how often it speaks, in random draws of photos.

    python -m benchmarks.evaluation.shift_alarm WORK [--draws 300] [--model MODEL]

Each of the sets that the model was trained on is left out once: the reference is of the selection parts of the three others,
and the draws are of the photos of the left-out set that the model was not trained on, as a whole and by sex, race, age,
year and colour. Each of these groups stands for an ordinary set that we don't have. The foreign set is compared with every
one of these references and with the model's own. The coverage of the model's 90 % intervals stands beside: an alarm is right
where it is low.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from agecli.core.seeding import generator
from agecli.model.bundled import bundled
from agecli.model.card import Card
from agecli.model.predictors import load_predictor
from agecli.scoring.calibration import corrected, interval
from agecli.scoring.shift import ShiftMonitor, ShiftReference, shift_of, shift_reference
from benchmarks.evaluation.parts import FOREIGN, TRAINED, Faces, predicted

SIZES = (30, 100, 300)  # photos in a draw
LEAST = 60  # photos of a group that is measured
AGES = (0, 13, 20, 40, 60, 120)
YEARS = (0, 1960, 1980, 1990, 2000, 2008, 2100)


def groups(faces: Faces) -> Iterator[tuple[str, NDArray[np.int64]]]:
    """The name and the rows of all faces and of each group of at least LEAST."""
    rows = faces.rows
    taken = pd.to_numeric(rows["taken"], errors="coerce") if "taken" in rows else pd.Series(np.nan, rows.index)
    grey = np.abs(faces.statistics[:, 1:3]).sum(1) < 0.01
    found = {"all": np.ones(len(rows), dtype=bool), "grey": grey}
    found |= {str(name): (rows[column] == name).to_numpy() for column in ("sex", "race") for name in set(rows[column])}
    for low, high in pairwise(AGES):
        found[f"age {low} to {high - 1}"] = (faces.age >= low) & (faces.age < high)
    for low, high in pairwise(YEARS):
        found[f"taken {low} to {high - 1}"] = ((taken >= low) & (taken < high)).to_numpy()
    for name, members in sorted(found.items()):
        if name and members.sum() >= LEAST:
            yield name, np.flatnonzero(members)


def joined(one: Faces, two: Faces) -> Faces:
    """The faces of two parts."""
    rows = pd.concat([one.rows, two.rows], ignore_index=True)
    return Faces(rows, np.concatenate([one.pmf, two.pmf]), np.concatenate([one.statistics, two.statistics]))


def coverage(faces: Faces, rows: NDArray[np.int64], card: Card) -> float:
    """The share of faces in their interval."""
    pmf = corrected(faces.pmf[rows], card.grid, card.calibration)
    low, high = interval(pmf, card.grid, card.calibration)
    return float(((low <= faces.age[rows]) & (faces.age[rows] <= high)).mean())


def alarms(faces: Faces, rows: NDArray[np.int64], reference: ShiftReference, size: int, draws: int) -> float:
    """The share of draws of `size` photos in which the alarm speaks; NaN if there are too few photos."""
    if len(rows) < size:
        return float("nan")
    random = generator(size, "shift alarm benchmark")
    spoken = 0
    for _ in range(draws):
        monitor = ShiftMonitor(reference)
        some = random.choice(rows, size, replace=False)
        monitor.add([str(row) for row in some], faces.statistics[some])
        spoken += monitor.message() is not None
    return spoken / draws


def report(title: str, faces: Faces, reference: ShiftReference, card: Card, draws: int, split: bool = True) -> None:
    """Print a line for each group."""
    for name, rows in groups(faces):
        if not split and name != "all":
            continue
        shares = (alarms(faces, rows, reference, size, draws) for size in SIZES)
        print(
            f"{title:30s} {name:20s} {len(rows):5d}  shift {shift_of(faces.statistics[rows], reference):.2f}  coverage"
            f" {coverage(faces, rows, card):.3f}  alarms of {SIZES}:",
            *("    -" if np.isnan(share) else f"{share:5.1%}" for share in shares),
            flush=True,
        )


def main() -> None:
    """Predict, build the references, draw, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument("--model", type=Path, default=bundled(".onnx"))
    asked = parser.parse_args()
    card = load_predictor(asked.model, "cpu").card
    val, test = ({name: predicted(asked.work, name, part, asked.model) for name in TRAINED} for part in ("val", "test"))
    foreign = {name: predicted(asked.work, name, "foreign", asked.model) for name in FOREIGN}
    for name in TRAINED:
        if card.shift:
            report(f"{name}, held out", test[name], card.shift, card, asked.draws, split=False)
    for name, faces in foreign.items():
        if card.shift:
            report(f"{name}, foreign", faces, card.shift, card, asked.draws)
    for left_out in TRAINED:
        reference = shift_reference(np.concatenate([val[name].statistics for name in TRAINED if name != left_out]))
        if reference is None:
            raise SystemExit("too few faces for a reference")
        report(f"{left_out} without its own", joined(val[left_out], test[left_out]), reference, card, asked.draws)
        for name, faces in foreign.items():
            report(f"{name} without {left_out}", faces, reference, card, asked.draws, split=False)


if __name__ == "__main__":
    main()
