"""The run folder: settings, environment and splits of a run, and the results of its folds.

config.toml       every setting
environment.json  versions, machine, command, data folder, hashes of the manifest and of the initial backbone
splits.csv        every face of every part of every fold
fold-<k>/         history.csv, predictions.csv, distributions.npz, metrics.csv, best.safetensors, last.safetensors
report.csv        a row for each finished fold, their mean and std, and their pooled predictions
"""

from __future__ import annotations

import json
import logging
import os
import platform
import re
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from agecli.core.ages import AgeGrid
from agecli.core.config import Config, from_toml, to_toml
from agecli.core.config import replace as replace_settings
from agecli.core.errors import InputError, MissingError
from agecli.core.files import read_csv, write_csv, write_text
from agecli.core.locks import is_lock
from agecli.core.version import __version__
from agecli.datasets.manifest import Manifest, read_manifest
from agecli.datasets.protocols import Fold
from agecli.datasets.splitting import write_splits
from agecli.model.bundled import named
from agecli.scoring.metrics import METRIC_COLUMNS, Predictions, measure, pool, tidy
from agecli.training.results import read_predictions, write_pooled

log = logging.getLogger("agecli")

PACKAGES = (
    *("numpy", "onnxruntime", "opencv-python-headless", "pandas", "pillow", "rich", "typer"),
    *("torch", "torchvision", "timm", "safetensors"),
)
BEFORE = {"forest.standardise": False}  # settings that did not exist when a run was started had these values
REPORT_COLUMNS = ("fold", *METRIC_COLUMNS, "leakage")


@dataclass(frozen=True)
class Run:
    """A run folder and what it was started with."""

    folder: Path
    config: Config
    data: Path  # the folder with the manifest
    digest: str  # SHA-256 of the manifest it was started with
    selection: tuple[tuple[str, str], ...] = ()  # the files of --list and --exclude that it was started with
    backbone: str = ""  # SHA-256 of the backbone's initial weights; empty before it is started
    folds: int = 0  # how many there are, finished or not; 0 if environment.json does not say

    def fold(self, number: int) -> Path:
        """The folder of a fold, counted from 1."""
        return self.folder / f"fold-{number}"

    def checkpoint(self, number: int) -> Path:
        """The selected checkpoint of a fold, which its metrics are of."""
        return self.fold(number) / ("best.safetensors" if self.config.training.select == "val" else "last.safetensors")

    def finished(self, number: int) -> bool:
        """Whether a fold has its metrics."""
        return (self.fold(number) / "metrics.csv").is_file()

    def count_folds(self) -> int:
        """The number of folds, finished or not; counted in splits.csv if environment.json does not have it."""
        return self.folds or max(int(row["fold"]) for row in read_csv(self.folder / "splits.csv"))

    def folds_there(self) -> list[int]:
        """The numbers of the finished folds, in order."""
        found = (re.fullmatch(r"fold-(\d+)", folder.name) for folder in self.folder.iterdir() if folder.is_dir())
        return sorted(int(name[1]) for name in found if name and self.finished(int(name[1])))


def is_run(folder: Path) -> bool:
    """Whether a folder holds a run that was started."""
    return (folder / "config.toml").is_file() and (folder / "environment.json").is_file()


def is_barely_begun(folder: Path) -> bool:
    """Whether a folder is empty, or holds only what a kill left of a run's first writes."""
    begun = ("splits.csv", "environment.json")
    return all(path.name in begun or path.suffix == ".part" or is_lock(path) for path in folder.iterdir())


def check_backbone(run: Run, backbone: str) -> None:
    """Raise InputError if a resumed run has other initial weights than it was started with.

    backbone: the fingerprint of the weights that were loaded now.
    """
    if run.backbone and run.backbone != backbone:
        raise InputError(
            f"{run.config.backbone.weights} are not the weights that {run.folder} was started with",
            hint="restore the old ones, or start a new run with another --out",
        )


def start_run(run: Run, manifest: Manifest, folds: Sequence[Fold], device: str, backbone: str) -> None:
    """Write splits.csv, environment.json and config.toml; the last one last, so that it means that all are there.

    backbone: the fingerprint of the backbone's initial weights.
    """
    write_splits(run.folder / "splits.csv", manifest, folds)
    about = {**environment(), "device": device, "data": str(run.data.resolve()), "manifest_sha256": run.digest}
    about |= {"backbone_sha256": backbone, "folds": len(folds), **dict(run.selection)}
    write_text(run.folder / "environment.json", json.dumps(about, indent=2) + "\n")
    write_text(run.folder / "config.toml", to_toml(run.config))


def open_run(folder: Path) -> Run:
    """The run in a folder. Raises MissingError if there is none, InputError if its files can't be used.

    >>> open_run(Path("runs/drf-II")).folds_there()
    [1, 2, 3, 4, 5]
    """
    if not is_run(folder):
        raise MissingError(
            f"{folder} is no run folder: it has no config.toml and environment.json", hint="`agecli train` makes one"
        )
    base = replace_settings(Config(), BEFORE)
    config = from_toml((folder / "config.toml").read_text(encoding="utf-8"), base, str(folder / "config.toml"))
    try:
        about = json.loads((folder / "environment.json").read_text(encoding="utf-8"))
        selection = tuple((name, about[name]) for name in ("list", "exclude") if name in about)
        digest, backbone, folds = about["manifest_sha256"], about["backbone_sha256"], int(about.get("folds", 0))
        return Run(folder, config, Path(about["data"]), digest, selection, backbone, folds)
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{folder / 'environment.json'} can't be used: {error!r}",
            hint="restore the file, or start a new run with another --out",
        ) from error


def read_faces(run: Run, folder: Path | None = None) -> tuple[Manifest, list[Fold]]:
    """The faces and folds that a run was started with; `folder` is a copy of its data, if that was moved.

    Raises InputError if the faces have changed since, MissingError if they are not there.
    """
    rows = read_csv(run.folder / "splits.csv")
    grid = AgeGrid(run.config.ages.low, run.config.ages.high)
    manifest = read_manifest(folder or run.data, grid, paths={row["path"] for row in rows})
    if manifest.digest != run.digest:
        raise InputError(
            f"the faces in {manifest.folder} are not those that {run.folder} was started with",
            hint="name the old data with --data, or start a new run with another --out",
        )
    where = {sample.path: index for index, sample in enumerate(manifest.samples)}
    parts: dict[int, dict[str, list[int]]] = {}
    for row in rows:
        fold = parts.setdefault(int(row["fold"]), {"train": [], "val": [], "test": []})
        fold[row["part"]].append(where[row["path"]])
    return manifest, [
        Fold(number, *(tuple(part[name]) for name in ("train", "val", "test")))
        for number, part in sorted(parts.items())
    ]


def owner_of(checkpoint: Path) -> tuple[Run | None, int]:
    """The run that a checkpoint lies in, and the number of its fold; None and 0 if it lies in none."""
    place = checkpoint.resolve().parent
    found = re.fullmatch(r"fold-(\d+)", place.name)
    return (open_run(place.parent), int(found[1])) if found and is_run(place.parent) else (None, 0)


def finished_folds(run: Run) -> list[int]:
    """The numbers of the finished folds, in order. Raises MissingError if there are none."""
    if finished := run.folds_there():
        return finished
    raise MissingError(
        f"no fold of {run.folder} is finished", hint=f"continue with: agecli train --resume --out {run.folder}"
    )


@dataclass(frozen=True)
class Source:
    """A checkpoint, and the run and the fold that it lies in; None and 0 if it lies in none."""

    name: str  # as the user gave it, with the fold
    checkpoint: Path
    run: Run | None = None
    fold: int = 0


def find_source(model: str | Path, fold: int | None = None) -> Source:
    """The checkpoint that a user names: a file, `default`, or a run folder, of which the fold, or the first finished one.

    Raises MissingError if it is not there, InputError if a fold of a single checkpoint is requested.
    """
    path = named(model, ".safetensors")
    if not path.exists():
        raise MissingError(
            f"there is no run or checkpoint {path}", hint="`agecli train` makes one: runs/NAME/fold-1/best.safetensors"
        )
    if path.is_dir():
        run = open_run(path)
        there = finished_folds(run)
        number = fold or there[0]
        if number not in there:
            known = ", ".join(map(str, there))
            raise MissingError(f"fold {number} of {path} is not there, or not finished", hint=f"there are: {known}")
        return Source(f"{model}, fold {number}", run.checkpoint(number), run, number)
    if fold:
        raise InputError(f"{path} is one checkpoint, and has no fold {fold}", hint="leave out --fold, or name its run")
    return Source(str(model), path, *owner_of(path))


def trained_on(run: Run, fold: int) -> Manifest:
    """The manifest with the training faces of one fold only."""
    manifest, folds = read_faces(run)
    train = next((part.train for part in folds if part.number == fold), ())
    return replace(manifest, samples=tuple(manifest.samples[index] for index in train))


def read_results(run: Run) -> Predictions:
    """The test predictions of all finished folds, pooled. Raises MissingError if a fold's files are not there."""
    parts = []
    for number in finished_folds(run):
        if (part := read_predictions(run.fold(number))) is None:
            raise MissingError(
                f"{run.fold(number)} has no whole predictions.csv and distributions.npz",
                hint=f"predict again: agecli evaluate {run.folder}",
            )
        parts.append(part)
    return pool(parts)


def write_report(run: Run, leakages: dict[int, float | None]) -> list[dict[str, Any]]:
    """Write report.csv: a row for each finished fold, their mean and std, and their pooled predictions. The rows.

    leakages: for each fold, the share of test faces whose subject is in training, None if subjects are unknown.
    With several folds, predictions.csv and metrics.csv of the whole run are written, too. With folds of different
    sizes, as in leave-one-person-out, the pooled row is the one to publish. Raises InputError if no fold has results.
    """
    finished = [number for number in leakages if run.finished(number)]
    found = {number: read_predictions(run.fold(number)) for number in finished}
    results = {number: predictions for number, predictions in found.items() if predictions is not None}
    if not results:
        raise InputError(
            f"no fold of {run.folder} has its distributions.npz", hint=f"predict again: agecli evaluate {run.folder}"
        )
    if missing := [number for number in finished if number not in results]:
        log.warning("folds %s are not in the report: run `agecli evaluate %s`", missing, run.folder)
    if len(results) > 1:
        write_pooled(run.folder, {str(number): predictions for number, predictions in results.items()})
    rows: list[dict[str, Any]] = [
        {"fold": number, **measure(predictions).row(), "leakage": leakages[number]}
        for number, predictions in results.items()
    ]
    values = {name: [row[name] for row in rows if row[name] is not None] for name in REPORT_COLUMNS[1:]}
    means = {name: statistics.fmean(v) for name, v in values.items() if v}
    stds = {name: statistics.stdev(v) for name, v in values.items() if len(v) > 1}
    pooled = {**measure(pool(list(results.values()))).row(), "leakage": _pooled_leakage(results, leakages)}
    rows += [{"fold": "mean", **means}, {"fold": "std", **stds}, {"fold": "pooled", **pooled}]
    rows = [{name: tidy(value) for name, value in row.items()} for row in rows]
    write_csv(run.folder / "report.csv", rows, REPORT_COLUMNS)
    return rows


def _pooled_leakage(results: Mapping[int, Predictions], leakages: Mapping[int, float | None]) -> float | None:
    """The mean of the folds' leakages, weighted by their test faces; None if none is known."""
    shares = [leakages[number] for number, predictions in results.items() for _ in range(len(predictions))]
    known = [share for share in shares if share is not None]
    return statistics.fmean(known) if known else None


def environment() -> dict[str, Any]:
    """The machine, the command and the versions of packages, as environment.json has them."""
    return {
        "agecli": __version__,
        "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "command": " ".join(sys.argv),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "packages": package_versions(),
    }


def package_versions() -> dict[str, str]:
    """The versions of the packages that results depend on, or `not installed`."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found
