"""Result files of a fold or an evaluation: predictions.csv, distributions.npz and metrics.csv, written and read."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from agecli.core.ages import AgeGrid
from agecli.core.errors import InputError
from agecli.core.files import read_csv, write_csv, write_whole
from agecli.core.reading import MOST_TABLE
from agecli.core.records import Sample
from agecli.model.card_checks import check_grid, check_pmf
from agecli.scoring.groups import MetricRow, breakdown, columns
from agecli.scoring.metrics import PREDICTION_COLUMNS, Predictions, pool


def write_results(
    folder: Path, predictions: Predictions, source: Mapping[str, str], challenge: Sequence[float] = ()
) -> list[MetricRow]:
    """Write predictions.csv, distributions.npz and metrics.csv to `folder`; return the rows of metrics.csv.

    metrics.csv is written last, so that its presence means that all three files are complete.

    folder: is created if needed
    source: what the predictions depend on (`training.inference.source_of`), stored for `read_predictions`
    challenge: ages in years of age checks, see `scoring.age_checks`
    Raises InputError if there are no predictions.
    """
    write_predictions(folder, predictions, source)
    rows = breakdown(predictions, challenge)
    write_csv(folder / "metrics.csv", rows, columns(challenge))
    return rows


def write_pooled(folder: Path, parts: Mapping[str, Predictions], challenge: Sequence[float] = ()) -> list[MetricRow]:
    """Write predictions.csv and metrics.csv of several folds together; return the rows of metrics.csv.

    parts: the predictions of each fold by its name, which becomes the first column of predictions.csv
    """
    rows = ({"fold": name, **row} for name, predictions in parts.items() for row in predictions.rows())
    write_csv(folder / "predictions.csv", rows, ("fold", *PREDICTION_COLUMNS))
    metrics = breakdown(pool(list(parts.values())), challenge)
    write_csv(folder / "metrics.csv", metrics, columns(challenge))
    return metrics


def write_predictions(folder: Path, predictions: Predictions, source: Mapping[str, str]) -> None:
    """Write predictions.csv, and distributions.npz with the pmf of each face, its sex and race, and `source`.

    Together they hold all that is needed to read out ages in another way and to measure them again.
    """
    write_csv(folder / "predictions.csv", predictions.rows(), PREDICTION_COLUMNS)
    with write_whole(folder / "distributions.npz") as part, part.open("wb") as file:
        arrays: dict[str, Any] = {
            "pmf": predictions.pmf,
            "grid": np.array([predictions.grid.low, predictions.grid.high]),
            "calibrated": np.array(predictions.calibrated),
            "sex": np.array([sample.sex for sample in predictions.samples], dtype=str),
            "race": np.array([sample.race for sample in predictions.samples], dtype=str),
            **{f"source_{name}": np.array(value) for name, value in source.items()},
        }
        np.savez_compressed(file, **arrays)


def read_predictions(folder: Path, source: Mapping[str, str] | None = None) -> Predictions | None:
    """Read what `write_predictions` wrote to `folder`.

    source: what the predictions must have been made from; not checked if None
    Returns None if the files are missing or damaged, or were made from something else.
    """
    try:
        rows = read_csv(folder / "predictions.csv")
        arrays = _read_arrays(folder / "distributions.npz")
        if any(str(arrays[f"source_{name}"]) != value for name, value in (source or {}).items()):
            return None
        samples = tuple(
            Sample(row["path"], float(row["age"]), row["subject"], str(sex), str(race))
            for row, sex, race in zip(rows, arrays["sex"], arrays["race"], strict=True)
        )
        numbers = {name: np.array([float(row[name]) for row in rows]) for name in PREDICTION_COLUMNS[3:]}
        grid = AgeGrid(*arrays["grid"].tolist())
        pmf = arrays["pmf"]
        check_grid(grid)
        check_pmf(pmf, len(rows), grid)
        if not all(np.isfinite(values).all() for values in numbers.values()):
            return None
        predicted, std, low, high = (numbers[name] for name in PREDICTION_COLUMNS[3:])
        return Predictions(samples, pmf, grid, predicted, std, low, high, bool(arrays["calibrated"]))
    except (OSError, KeyError, ValueError, TypeError, InputError, zipfile.BadZipFile, zlib.error, MemoryError):
        return None


def _read_arrays(path: Path) -> dict[str, Any]:
    """The arrays of an .npz file, without pickled objects. Raises ValueError if they take more than MOST_TABLE bytes."""
    with zipfile.ZipFile(path) as archive:
        if sum(entry.file_size for entry in archive.infolist()) > MOST_TABLE:
            raise ValueError(f"{path} is too large")
    with np.load(path, allow_pickle=False) as stored:
        return dict(stored)
