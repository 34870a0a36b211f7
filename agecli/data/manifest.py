"""The manifest: which faces there are, how old they are and whose they are."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agecli.ages import AgeGrid
from agecli.data.sources import ALIASES
from agecli.errors import InputError, MissingError
from agecli.files import read_csv

NAMES = ("manifest.csv", "labels.csv")  # ours, and what a folder from elsewhere may bring


@dataclass(frozen=True)
class Sample:
    """One face. Unknown values are empty."""

    path: str  # relative to the manifest
    age: float
    subject: str = ""
    sex: str = ""
    race: str = ""
    split: str = ""


@dataclass(frozen=True)
class Manifest:
    folder: Path
    samples: tuple[Sample, ...]  # by path, whatever the order in the file

    @property
    def digest(self) -> str:
        """A hash of all that a split depends on."""
        return hashlib.sha256(repr(self.samples).encode("utf-8", "surrogateescape")).hexdigest()


def read_manifest(folder: Path, grid: AgeGrid) -> Manifest:
    """The labelled faces of a folder that has a manifest.csv or a labels.csv."""
    if not folder.exists():
        raise MissingError(
            f"there is no data folder {folder}",
            hint="name one with --data DIR; `agecli toy DIR` draws one to try things on",
        )
    file = next((folder / name for name in NAMES if (folder / name).is_file()), None)
    if file is None:
        raise MissingError(
            f"{folder} has neither {' nor '.join(NAMES)}",
            hint="a data folder has such a table, with the columns path and age",
        )
    rows = read_csv(file)
    if not rows:
        raise InputError(f"{file} lists no faces", hint="it needs a row for each face, under the columns path and age")
    missing = {"path", "age"} - set(rows[0])
    if missing:
        raise InputError(
            f"{file} has no column {' and no column '.join(sorted(missing))}", hint=f"it has: {', '.join(rows[0])}"
        )
    samples = [sample for line, row in enumerate(rows, 2) if (sample := _sample(row, f"{file}, line {line}", grid))]
    if not samples:
        raise InputError(f"no face in {file} has an age", hint="fill the column age, in years")
    _no_path_twice(samples, file)
    return Manifest(folder, tuple(sorted(samples, key=lambda sample: sample.path)))


def _sample(row: dict[str, str], where: str, grid: AgeGrid) -> Sample | None:
    """A row as a sample; None if its age is not known."""
    row = {ALIASES.get(key, key): value.strip() for key, value in row.items()}
    if not row["age"]:
        return None
    try:
        age = float(row["age"])
    except ValueError:
        age = math.nan
    if not math.isfinite(age):
        raise InputError(
            f"{where}: age {row['age']!r} is not a number", hint="write ages in years, or leave unknown ones empty"
        )
    if age not in grid:
        raise InputError(
            f"{where}: age {row['age']} is outside the age grid, {grid.low} to {grid.high}",
            hint="mend the label, or train with a wider grid: --set ages.low=… or --set ages.high=…",
        )
    return Sample(row["path"], age, *(row.get(key, "") for key in ("subject", "sex", "race", "split")))


def _no_path_twice(samples: Sequence[Sample], file: Path) -> None:
    seen: set[str] = set()
    for sample in samples:
        if sample.path in seen:
            raise InputError(f"{file} lists {sample.path} twice", hint="keep one row for each face")
        seen.add(sample.path)
