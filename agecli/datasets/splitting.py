"""Splitting: choose the faces of a run and divide them into the folds of a setup, without training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from agecli.core import config as configs
from agecli.core.ages import AgeGrid
from agecli.core.config import Config
from agecli.core.outputs import check_output
from agecli.core.records import Sample
from agecli.core.tables import any_bytes, write_table
from agecli.datasets.manifest import Manifest, read_manifest, read_names
from agecli.datasets.protocols import Fold, leakage, make_folds
from agecli.scoring.metrics import tidy

SPLIT_COLUMNS = ("fold", "part", "path", "manifest")
DIGEST_DIGITS = 16  # of the manifest's hash in splits.csv: enough to tell two data sets apart
PLAIN_COLUMNS = ("fold", "part", "images", "subjects", "youngest", "mean_age", "oldest")  # those that are not groups


def plan(
    folder: Path, config: Config, only: str | Path | None = None, exclude: str | Path | None = None
) -> tuple[Manifest, list[Fold]]:
    """The faces that a run uses, and its folds over them; faces that no fold uses are left out of the manifest.

    folder: with a manifest.csv or labels.csv, or a data set.   config: the setup, its seed and the age grid.
    only, exclude: files of names (`read_names`) of the faces to keep or to leave out.

    Raises InputError or MissingError as `read_manifest`, `read_names` and `make_folds` do.
    """
    grid = AgeGrid(config.ages.low, config.ages.high)
    listed = read_names(Path(only)) if only else None
    manifest = read_manifest(folder, grid, only=listed, exclude=read_names(Path(exclude)) if exclude else ())
    folds = make_folds(manifest.samples, config.data, config.training.seed, listed=only is not None)
    used = sorted({i for fold in folds for part in fold.parts.values() for i in part})
    if len(used) == len(manifest.samples):
        return manifest, folds
    place = {old: new for new, old in enumerate(used)}
    return replace(manifest, samples=tuple(manifest.samples[i] for i in used)), [
        Fold(fold.number, *(tuple(place[i] for i in part) for part in fold.parts.values())) for fold in folds
    ]


def assignments(folds: Sequence[Fold]) -> pd.DataFrame:
    """A row per face, part and fold: `fold` (from 1), `part` (train, val or test) and `sample` (index of the face)."""
    parts = [(fold.number, part, indices) for fold in folds for part, indices in fold.parts.items()]
    numbers, names, indices = zip(*parts, strict=True)
    sizes = [len(part) for part in indices]
    return pd.DataFrame(
        {
            "fold": np.repeat(numbers, sizes),
            "part": np.repeat(np.array(names, dtype=object), sizes),
            "sample": np.concatenate([np.asarray(part, dtype=np.int64) for part in indices]),
        }
    )


@any_bytes()
def write_splits(path: Path, manifest: Manifest, folds: Sequence[Fold]) -> None:
    """Write splits.csv: one row per face, part and fold, with the first digits of the manifest's hash."""
    table = assignments(folds)
    table["path"] = np.array([sample.path for sample in manifest.samples], dtype=object)[table["sample"]]
    table["manifest"] = manifest.digest[:DIGEST_DIGITS]
    write_table(path, table[list(SPLIT_COLUMNS)])


def split(
    data: str | Path,
    *,
    setup: str = "random",
    out: str | Path | None = "splits.csv",
    seed: int = 0,
    only: str | Path | None = None,
    exclude: str | Path | None = None,
    preset: str = "modern",
    settings: Mapping[str, Any] | None = None,
    force: bool = False,
) -> list[dict[str, Any]]:
    """Write the folds of a setup to a CSV file, and describe them.

    data: a folder with a manifest.csv or labels.csv, or a data set.   setup: the protocol (docs/protocols.md).
    out: the file to write; None writes none.   only, exclude: files of names of the faces to keep or to leave out.
    preset, settings: as in `train`.   force: replace `out` also if agecli did not write it.

    Returns a row per part of each fold, as `describe` does. Raises InputError or MissingError as `plan` does.

        agecli.split("aligned", setup="lopo", out=None)[0]["images"]
    """
    if out:
        check_output(Path(out), ["table"], force=force)
    changes = {"data.setup": setup, "training.seed": seed, **(settings or {})}
    changes["training.select"] = "last"  # nothing is trained, so no validation part is required
    config = configs.check(configs.replace(configs.preset(preset), changes))
    manifest, folds = plan(Path(data), config, only, exclude)
    if out:
        write_splits(Path(out), manifest, folds)
    return describe(manifest.samples, folds)


@any_bytes()
def describe(samples: Sequence[Sample], folds: Sequence[Fold]) -> list[dict[str, Any]]:
    """A row per non-empty part of each fold: numbers of images and subjects, ages, groups, and leakage of the test part.

    Each sex and race that occurs in a part has a column of its own with its number of images. `subjects` is None if no
    subject is known. `leakage` is that of `protocols`, None for other parts.
    """
    fields = ("age", "subject", "sex", "race")
    labels = pd.DataFrame({name: [getattr(sample, name) for sample in samples] for name in fields})
    faces = assignments(folds).join(labels, on="sample")
    parts = faces.groupby(["fold", "part"], sort=False)
    table = parts.agg(images=("age", "size"), youngest=("age", "min"), mean_age=("age", "mean"), oldest=("age", "max"))
    table.insert(1, "subjects", _known(faces, "subject")["subject"].nunique())
    for group in ("sex", "race"):
        table = table.join(_known(faces, group)[group].value_counts().unstack().sort_index(axis=1))
    leaks = {fold.number: leakage(samples, fold) for fold in folds}
    rows = []
    for (fold, part), row in zip(table.index, table.to_dict("records"), strict=True):
        known = {str(name): tidy(float(value)) for name, value in row.items() if not pd.isna(value)}
        first = {"fold": fold, "part": part, "images": known["images"], "subjects": None}
        rows.append({**first, **known, "leakage": tidy(leaks[fold]) if part == "test" else None})
    return rows


def _known(faces: pd.DataFrame, field: str) -> Any:
    """The faces whose field is not empty, grouped by fold and part."""
    return faces[faces[field] != ""].groupby(["fold", "part"], sort=False)


def columns(rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """The columns of rows from `describe`: those that some row has, the groups in the middle, the leakage last."""
    return (*dict.fromkeys(name for row in rows for name in row if name != "leakage"), "leakage")


def for_people(rows: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """The rows with the groups of each part as one text of shares, `F 40% M 60%`, and the columns to show."""
    groups = [name for name in columns(rows) if name not in (*PLAIN_COLUMNS, "leakage")]
    shown = [
        {
            **row,
            "groups": " ".join(f"{name} {row[name] / row['images']:.0%}" for name in groups if row.get(name)) or None,
        }
        for row in rows
    ]
    return shown, (*PLAIN_COLUMNS, "groups", "leakage")
