"""Splitting: the faces that are asked for, and the folds of a setup, without training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, repeat
from operator import attrgetter
from pathlib import Path
from typing import Any

from agecli.core import config as configs
from agecli.core.ages import AgeGrid
from agecli.core.config import Config
from agecli.core.files import write_table
from agecli.core.records import Sample
from agecli.datasets.manifest import Manifest, counts, read_manifest, read_names
from agecli.datasets.protocols import Fold, leakage, make_folds
from agecli.scoring.metrics import tidy

SPLIT_COLUMNS = ("fold", "part", "path", "manifest")
DIGEST_DIGITS = 16  # of the manifest's hash in splits.csv: enough to tell two data sets apart


def plan(
    folder: Path, config: Config, only: str | Path | None = None, exclude: str | Path | None = None
) -> tuple[Manifest, list[Fold]]:
    """The faces that a setup uses, of those that are listed and not excluded, and its folds over them."""
    grid = AgeGrid(config.ages.low, config.ages.high)
    listed = read_names(Path(only)) if only else None
    manifest = read_manifest(folder, grid, only=listed, exclude=read_names(Path(exclude)) if exclude else ())
    folds = make_folds(manifest.samples, config.data, config.training.seed, listed=only is not None)
    used = sorted({i for fold in folds for part in fold.parts.values() for i in part})
    if len(used) == len(manifest.samples):
        return manifest, folds
    place = {old: new for new, old in enumerate(used)}  # faces that no fold uses are no part of the run
    return replace(manifest, samples=tuple(manifest.samples[i] for i in used)), [
        Fold(fold.number, *(tuple(place[i] for i in part) for part in fold.parts.values())) for fold in folds
    ]


def write_splits(path: Path, manifest: Manifest, folds: Sequence[Fold]) -> None:
    """splits.csv: every face of every part of every fold, with the beginning of the manifest's hash."""
    digest = manifest.digest[:DIGEST_DIGITS]
    paths = [sample.path for sample in manifest.samples]
    rows = chain.from_iterable(  # without a step of Python for each of a quarter of a million rows
        zip(repeat(fold.number), repeat(part), map(paths.__getitem__, indices), repeat(digest), strict=False)
        for fold in folds
        for part, indices in fold.parts.items()
    )
    write_table(path, rows, SPLIT_COLUMNS)


def split(
    data: str | Path,
    *,
    setup: str = "random",
    out: str | Path | None = "splits.csv",
    seed: int = 0,
    list: str | Path | None = None,
    exclude: str | Path | None = None,
    preset: str = "modern",
    settings: Mapping[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """The folds of a setup: written to a file, and described, a row for each part of each fold."""
    changes = {"data.setup": setup, "training.seed": seed, **(settings or {})}
    changes["training.select"] = "last"  # nothing is trained, so that nothing needs a validation part
    config = configs.check(configs.replace(configs.preset(preset), changes))
    manifest, folds = plan(Path(data), config, list, exclude)
    if out:
        write_splits(Path(out), manifest, folds)
    return describe(manifest.samples, folds)


def describe(samples: Sequence[Sample], folds: Sequence[Fold]) -> list[dict[str, Any]]:
    """Sizes, ages, groups, and the share of test faces whose subject is also in training."""
    rows = []
    for fold in folds:
        for part, indices in fold.parts.items():
            if not indices:
                continue
            some = [samples[i] for i in indices]
            ages = [sample.age for sample in some]
            row: dict[str, Any] = {"fold": fold.number, "part": part, "images": len(some)}
            row["subjects"] = len({sample.subject for sample in some if sample.subject}) or None
            row |= {"youngest": min(ages), "mean_age": sum(ages) / len(ages), "oldest": max(ages)}
            row |= {name: n for key in ("sex", "race") for name, n in counts(some, attrgetter(key)).items()}
            row["leakage"] = leakage(samples, fold) if part == "test" else None
            rows.append({name: tidy(value) for name, value in row.items()})
    return rows


PLAIN = ("fold", "part", "images", "subjects", "youngest", "mean_age", "oldest")


def columns(rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Those that some row has; groups in the middle, the leakage last."""
    return (*dict.fromkeys(name for row in rows for name in row if name != "leakage"), "leakage")


def for_people(rows: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """The same with the groups of each part as one text of shares, and its columns."""
    groups = [name for name in columns(rows) if name not in (*PLAIN, "leakage")]
    shown = [
        {
            **row,
            "groups": " ".join(f"{name} {row[name] / row['images']:.0%}" for name in groups if row.get(name)) or None,
        }
        for row in rows
    ]
    return shown, (*PLAIN, "groups", "leakage")
