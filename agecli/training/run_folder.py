"""The run folder: what was asked for, what it ran on, and what each fold gave."""

from __future__ import annotations

import json
import logging
import os
import platform
import re
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from agecli.core.ages import AgeGrid
from agecli.core.config import Config, from_toml, to_toml
from agecli.core.errors import InputError, MissingError
from agecli.core.files import read_csv, write_csv, write_text
from agecli.core.version import __version__
from agecli.datasets.manifest import Manifest, read_manifest
from agecli.datasets.protocols import Fold
from agecli.datasets.splitting import write_splits
from agecli.model.bundled import named
from agecli.scoring.metrics import METRIC_COLUMNS, Predictions, measure, pool, tidy
from agecli.training.results import read_predictions, write_pooled

log = logging.getLogger("agecli")

PACKAGES = ("torch", "torchvision", "timm", "numpy", "pillow", "safetensors", "typer", "rich")
REPORT_COLUMNS = ("fold", *METRIC_COLUMNS, "leakage")


@dataclass(frozen=True)
class Run:
    folder: Path
    config: Config
    data: Path
    digest: str  # of the manifest it was started with
    chosen_by: tuple[tuple[str, str], ...] = ()  # the files of --list and --exclude that it was started with
    backbone: str = ""  # the fingerprint of the weights it began with, once it is started

    def fold(self, number: int) -> Path:
        return self.folder / f"fold-{number}"

    def checkpoint(self, number: int) -> Path:
        """The one that a fold's numbers come from."""
        return self.fold(number) / ("best.safetensors" if self.config.training.select == "val" else "last.safetensors")

    def finished(self, number: int) -> bool:
        return (self.fold(number) / "metrics.csv").is_file()

    def count_folds(self) -> int:
        """All of them, finished or not: the last rows of its splits are of the last one. Names may hold line breaks."""
        with (self.folder / "splits.csv").open("rb") as file:
            file.seek(-min(65536, file.seek(0, 2)), 2)
            return int(re.findall(rb"^(\d+),(?:train|val|test),", file.read(), re.M)[-1])

    def folds_there(self) -> list[int]:
        """The numbers of its folds that are finished."""
        found = (re.fullmatch(r"fold-(\d+)", folder.name) for folder in self.folder.iterdir() if folder.is_dir())
        return sorted(int(name[1]) for name in found if name and self.finished(int(name[1])))


def is_run(folder: Path) -> bool:
    return (folder / "config.toml").is_file() and (folder / "environment.json").is_file()


def is_barely_begun(folder: Path) -> bool:
    """Whether a run folder holds nothing, or only what a kill left of its first writes."""
    return all(path.name in ("splits.csv", "environment.json") or path.suffix == ".part" for path in folder.iterdir())


def check_backbone(run: Run, backbone: str) -> None:
    """A resumed run must begin with the weights it began with."""
    if run.backbone and run.backbone != backbone:
        raise InputError(
            f"{run.config.backbone.weights} are not the weights that {run.folder} was started with",
            hint="bring back the old ones, or start a new run with another --out",
        )


def start_run(run: Run, manifest: Manifest, folds: Sequence[Fold], device: str, backbone: str) -> None:
    """Write down what a run is before it begins; config.toml last, so that its presence means that all of it is there."""
    write_splits(run.folder / "splits.csv", manifest, folds)
    about = {**environment(), "device": device, "data": str(run.data.resolve()), "manifest_sha256": run.digest}
    about |= {"backbone_sha256": backbone, **dict(run.chosen_by)}
    write_text(run.folder / "environment.json", json.dumps(about, indent=2) + "\n")
    write_text(run.folder / "config.toml", to_toml(run.config))


def open_run(folder: Path) -> Run:
    if not is_run(folder):
        raise MissingError(
            f"{folder} is no run folder: it has no config.toml and environment.json", hint="`agecli train` makes one"
        )
    config = from_toml((folder / "config.toml").read_text(encoding="utf-8"), Config(), str(folder / "config.toml"))
    about = json.loads((folder / "environment.json").read_text(encoding="utf-8"))
    chosen_by = tuple((name, about[name]) for name in ("list", "exclude") if name in about)
    return Run(folder, config, Path(about["data"]), about["manifest_sha256"], chosen_by, about["backbone_sha256"])


def read_faces(run: Run, folder: Path | None = None) -> tuple[Manifest, list[Fold]]:
    """The faces and folds as they were when the run began, in the folder of that time or in a copy of it."""
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
    """The run that a checkpoint lies in, and the number of its fold."""
    place = checkpoint.resolve().parent
    found = re.fullmatch(r"fold-(\d+)", place.name)
    return (open_run(place.parent), int(found[1])) if found and is_run(place.parent) else (None, 0)


def finished_folds(run: Run) -> list[int]:
    if finished := run.folds_there():
        return finished
    raise MissingError(
        f"no fold of {run.folder} is finished", hint=f"go on with: agecli train --resume --out {run.folder}"
    )


@dataclass(frozen=True)
class Source:
    """A checkpoint, and the run and the fold that it lies in, if it does."""

    name: str  # as it was named
    checkpoint: Path
    run: Run | None = None
    fold: int = 0


def find_source(model: str | Path, fold: int | None = None) -> Source:
    """The checkpoint that is meant: of a run, that of the first finished fold, or of the one that is named."""
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
    """The faces that one fold of a run learned from."""
    manifest, folds = read_faces(run)
    train = next((part.train for part in folds if part.number == fold), ())
    return replace(manifest, samples=tuple(manifest.samples[index] for index in train))


def read_results(run: Run) -> Predictions:
    """What its finished folds said of their test faces, all together."""
    parts = []
    for number in finished_folds(run):
        if (part := read_predictions(run.fold(number))) is None:
            raise MissingError(
                f"{run.fold(number)} has no whole predictions.csv and distributions.npz",
                hint=f"have the network asked again: agecli evaluate {run.folder}",
            )
        parts.append(part)
    return pool(parts)


def write_report(run: Run, leakages: dict[int, float | None]) -> list[dict[str, Any]]:
    """report.csv: a row for each finished fold, their mean and std, and all their predictions pooled.

    With several folds, predictions.csv and metrics.csv of the whole run are written, too. With folds of different sizes, as in leave-one-person-out, the pooled row is the one to publish.
    """
    results = {
        number: said
        for number in leakages
        if run.finished(number) and (said := read_predictions(run.fold(number))) is not None
    }
    if not results:
        raise InputError(
            f"no fold of {run.folder} has its distributions.npz",
            hint=f"have the networks asked again: agecli evaluate {run.folder}",
        )
    if missing := [number for number in leakages if run.finished(number) and number not in results]:
        log.warning("folds %s are not in the report: run `agecli evaluate %s`", missing, run.folder)
    if len(results) > 1:
        write_pooled(run.folder, {str(number): said for number, said in results.items()})
    rows: list[dict[str, Any]] = [
        {"fold": number, **measure(said).row(), "leakage": leakages[number]} for number, said in results.items()
    ]
    values = {name: [row[name] for row in rows if row[name] is not None] for name in REPORT_COLUMNS[1:]}
    means = {name: statistics.fmean(v) for name, v in values.items() if v}
    stds = {name: statistics.stdev(v) for name, v in values.items() if len(v) > 1}
    everyone = measure(pool(list(results.values()))).row()
    shares = [leakages[number] for number, said in results.items() for _ in range(len(said))]
    known = [share for share in shares if share is not None]
    leak = statistics.fmean(known) if known else None
    rows += [{"fold": "mean", **means}, {"fold": "std", **stds}, {"fold": "pooled", **everyone, "leakage": leak}]
    rows = [{name: tidy(value) for name, value in row.items()} for row in rows]
    write_csv(run.folder / "report.csv", rows, REPORT_COLUMNS)
    return rows


def environment() -> dict[str, Any]:
    """The machine and the versions: what one needs to believe a number later."""
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
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found
