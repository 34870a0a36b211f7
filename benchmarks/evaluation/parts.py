"""Faces of the data sets of the bundled model, by the part in which its recipe put them, and its predictions for them.

All scripts here take WORK, the folder of `models/recipe/build.py`: one folder of aligned faces for each data set. A
photo is in the part train, val or test by a hash of its name. Sets that no recipe trained on are wholly "foreign".
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from agecli.core.ages import Floats
from agecli.core.files import file_hash
from agecli.images.reading import cut, read_picture
from agecli.model.bundled import bundled
from agecli.model.predictors import load_predictor
from agecli.scoring.shift import picture_statistics

TRAINED = ("utkface", "aaf", "appa", "wiki")
FOREIGN = ("fgnet",)
TEST, VAL = 0.10, 0.09  # as in models/recipe/build.py
BATCH = 32


def part_of(name: str) -> str:
    """The part of a photo, "utkface/images/…", as models/recipe/build.py chooses it."""
    share = int(hashlib.sha256(name.encode()).hexdigest()[:8], 16) / 2**32
    return "test" if share < TEST else "val" if share < TEST + VAL else "train"


def rows_of(work: Path, name: str, part: str) -> pd.DataFrame:
    """The rows of the manifest of one data set that are in a part: train, val, test, or foreign for a whole set."""
    rows = pd.read_csv(work / name / "manifest.csv", dtype=str, keep_default_na=False)
    if part == "foreign":
        return rows
    return rows[[part_of(f"{name}/{source}") == part for source in rows["source"]]].reset_index(drop=True)


@dataclass(frozen=True)
class Faces:
    """n faces of one part: what the manifest says, and what the model says of each."""

    rows: pd.DataFrame
    pmf: NDArray[Any]  # (n, A), of the network, without a bias correction
    statistics: Floats  # (n, S), of `scoring.shift`

    @property
    def age(self) -> Floats:
        """True ages, (n,), years."""
        return np.asarray(self.rows["age"], dtype=np.float64)

    @property
    def people(self) -> NDArray[np.int64]:
        """The number of each face's person, (n,); a number of its own where it is not known."""
        names = [subject or f"face {number}" for number, subject in enumerate(self.rows["subject"])]
        return np.asarray(pd.factorize(np.array(names, dtype=object))[0], dtype=np.int64)


def predicted(work: Path, name: str, part: str, model: Path | None = None, most: int | None = None) -> Faces:
    """The faces of a part with the predictions of a model (the bundled one), from WORK/cache if they are there.

    most: of the faces, evenly chosen
    """
    model = model or bundled(".onnx")
    rows = rows_of(work, name, part)
    if most and len(rows) > most:
        rows = rows.iloc[np.linspace(0, len(rows) - 1, most).astype(int)].reset_index(drop=True)
    cache = work / "cache" / f"{name}-{part}-{len(rows)}-{file_hash(model)[:12]}.npz"
    if not cache.exists():
        cache.parent.mkdir(exist_ok=True)
        pmf, statistics = _run(work / name, list(rows["path"]), model)
        np.savez(cache, pmf=pmf, statistics=statistics)
    with np.load(cache) as stored:
        return Faces(rows, stored["pmf"], stored["statistics"])


def _run(folder: Path, paths: Sequence[str], model: Path) -> tuple[NDArray[Any], Floats]:
    """The distributions, (n, A), and the statistics, (n, S), of faces."""
    predictor = load_predictor(model, "cpu")
    pmf, statistics = [], []
    for start in range(0, len(paths), BATCH):
        pixels = np.stack(
            [cut(read_picture(folder / path), predictor.card.picture) for path in paths[start : start + BATCH]]
        )
        pmf.append(predictor.pmf(pixels))
        statistics.append(picture_statistics(pixels))
    return np.concatenate(pmf), np.concatenate(statistics)
