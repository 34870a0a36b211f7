"""The run folder: what was asked for, what it ran on, and what each fold gave."""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import agecli
from agecli.config import Config, from_toml, to_toml
from agecli.data.manifest import Manifest
from agecli.data.splits import Fold
from agecli.errors import InputError, MissingError
from agecli.files import read_csv, write_csv, write_text
from agecli.metrics import METRIC_COLUMNS, measure, read_results, tidy

PACKAGES = ("torch", "torchvision", "timm", "numpy", "pillow", "safetensors", "typer", "rich")
REPORT_COLUMNS = ("fold", *METRIC_COLUMNS, "leakage")


@dataclass(frozen=True)
class Run:
    folder: Path
    config: Config
    data: Path
    digest: str  # of the manifest it was started with
    backbone: str = ""  # the fingerprint of the weights it began with, once it is started

    def fold(self, number: int) -> Path:
        return self.folder / f"fold-{number}"

    def checkpoint(self, number: int) -> Path:
        """The one that a fold's numbers come from."""
        return self.fold(number) / ("best.safetensors" if self.config.training.select == "val" else "last.safetensors")

    def finished(self, number: int) -> bool:
        return (self.fold(number) / "metrics.csv").is_file()


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
    rows = (
        {"fold": fold.number, "part": part, "path": manifest.samples[index].path}
        for fold in folds
        for part, indices in (("train", fold.train), ("val", fold.val), ("test", fold.test))
        for index in indices
    )
    write_csv(run.folder / "splits.csv", rows, ("fold", "part", "path"))
    about = {**environment(), "device": device, "data": str(run.data.resolve()), "manifest_sha256": run.digest}
    about["backbone_sha256"] = backbone
    write_text(run.folder / "environment.json", json.dumps(about, indent=2) + "\n")
    write_text(run.folder / "config.toml", to_toml(run.config))


def open_run(folder: Path) -> Run:
    if not is_run(folder):
        raise MissingError(
            f"{folder} is no run folder: it has no config.toml and environment.json", hint="`agecli train` makes one"
        )
    config = from_toml((folder / "config.toml").read_text(encoding="utf-8"), Config(), str(folder / "config.toml"))
    about = json.loads((folder / "environment.json").read_text(encoding="utf-8"))
    return Run(folder, config, Path(about["data"]), about["manifest_sha256"], about["backbone_sha256"])


def read_folds(run: Run, manifest: Manifest) -> list[Fold]:
    """The folds as they were written when the run began."""
    if manifest.digest != run.digest:
        raise InputError(
            f"the faces in {manifest.folder} are not those that {run.folder} was started with",
            hint="name the old data with --data, or start a new run with another --out",
        )
    where = {sample.path: index for index, sample in enumerate(manifest.samples)}
    parts: dict[int, dict[str, list[int]]] = {}
    for row in read_csv(run.folder / "splits.csv"):
        fold = parts.setdefault(int(row["fold"]), {"train": [], "val": [], "test": []})
        fold[row["part"]].append(where[row["path"]])
    return [
        Fold(number, *(tuple(part[name]) for name in ("train", "val", "test")))
        for number, part in sorted(parts.items())
    ]


def write_report(run: Run, leakages: dict[int, float | None]) -> list[dict[str, Any]]:
    """report.csv: a row for each finished fold, their mean and std, and all their predictions pooled.

    With folds of different sizes, as in leave-one-person-out, the pooled row is the one to publish.
    """
    results = {number: read_results(run.fold(number)) for number in leakages if run.finished(number)}
    rows = [{"fold": number, **vars(measure(faces)), "leakage": leakages[number]} for number, faces in results.items()]
    values = {name: [row[name] for row in rows if row[name] is not None] for name in REPORT_COLUMNS[1:]}
    means = {name: statistics.fmean(v) for name, v in values.items() if v}
    stds = {name: statistics.stdev(v) for name, v in values.items() if len(v) > 1}
    everyone = measure([face for faces in results.values() for face in faces])
    shares = [leakages[number] for number, faces in results.items() for _ in faces]
    known = [share for share in shares if share is not None]
    leak = statistics.fmean(known) if known else None
    rows += [{"fold": "mean", **means}, {"fold": "std", **stds}, {"fold": "pooled", **vars(everyone), "leakage": leak}]
    rows = [{name: tidy(value) for name, value in row.items()} for row in rows]
    write_csv(run.folder / "report.csv", rows, REPORT_COLUMNS)
    return rows


def environment() -> dict[str, Any]:
    """The machine and the versions: what one needs to believe a number later."""
    return {
        "agecli": agecli.__version__,
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
