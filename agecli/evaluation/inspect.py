"""Inspection: the statistics of a trained forest, on faces of a data folder or of its own training part.

This module finds the checkpoint and the faces; `leaf_statistics` does the maths.
"""

from __future__ import annotations

import dataclasses
import logging
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from agecli.core.ages import AgeGrid
from agecli.core.errors import AgecliError, InputError
from agecli.core.seeding import generator
from agecli.datasets.manifest import Manifest, read_manifest
from agecli.evaluation.leaf_statistics import (
    LeafStatistics,
    TreeStatistics,
    UnitUse,
    leaf_statistics,
    route,
    tree_statistics,
    unit_use,
)
from agecli.forest.forests import Forest
from agecli.model.bundled import DEFAULT
from agecli.model.checkpoint import Checkpoint, load_checkpoint
from agecli.model.devices import keep_memory, pick_device
from agecli.training.inputs import Progress, make_inputs, no_progress
from agecli.training.run_folder import Source, find_source, trained_on

log = logging.getLogger("agecli")


@dataclass(frozen=True)
class Inspection:
    """What `inspect` returns."""

    checkpoint: Path
    model: str  # drf, dldlf, …
    faces: int  # number of faces that were routed
    source: str  # of the faces, in words
    trees: tuple[TreeStatistics, ...]
    leaves: tuple[LeafStatistics, ...]
    units: UnitUse
    broken: dict[str, str]  # the reason for each picture that could not be read, by path


def inspect(
    model: str | Path | None = None,
    *,
    data: str | Path | None = None,
    fold: int | None = None,
    limit: int = 5000,
    device: str = "auto",
    workers: int | None = None,
    progress: Progress = no_progress,
) -> Inspection:
    """Examine the leaves, routing and units of a trained forest.

    model: a checkpoint or a run folder; the bundled model by default
    data: the faces to route; by default those that the checkpoint's fold was trained on. If there are none, only what
    the checkpoint itself shows is reported, with a warning.
    fold: of a run; the first finished one by default
    limit: route at most so many faces, drawn with the seed of the checkpoint
    Raises InputError if the model has no forest or no picture can be read, MissingError if there is no such model.
    Example: `agecli.inspect("runs/drf").trees[0].effective_leaves`
    """
    target = pick_device(device)
    place = find_source(model or DEFAULT, fold)
    path = place.checkpoint
    log.info("inspecting %s", path)
    checkpoint = load_checkpoint(path)
    forest = checkpoint.model.forest
    if not isinstance(forest, Forest):
        raise InputError(
            f"{path} has no forest: it is a `{checkpoint.config.model}` model",
            hint="name a checkpoint with trees and leaves, such as one of `agecli train --model drf`",
        )
    found = _faces(checkpoint, Path(data) if data else None, place)
    source, routing, broken = "", None, dict[str, str]()
    if found:
        manifest, source = found
        chosen = _draw(manifest, limit, checkpoint.config.training.seed)
        log.info("routing %d of %d faces: %s", len(chosen.samples), len(manifest.samples), source)
        units, broken = _units(checkpoint, chosen, target, workers, progress)
        routing = route(forest.cpu(), units)
    return Inspection(
        path,
        checkpoint.config.model,
        routing.faces if routing else 0,
        source,
        tree_statistics(forest, routing),
        leaf_statistics(forest, routing),
        unit_use(forest.phi, checkpoint.model.f.out_features),
        broken,
    )


def _faces(checkpoint: Checkpoint, data: Path | None, place: Source) -> tuple[Manifest, str] | None:
    """The faces to route, and what they are in words; None if there are none."""
    if data is not None:
        checkpoint.card.warn_of_frame(data)
        grid = AgeGrid(checkpoint.config.ages.low, checkpoint.config.ages.high)
        return read_manifest(data, grid), f"all of {data}"
    reason = "the checkpoint is not in a run folder"
    if place.run is not None:
        try:
            faces = trained_on(place.run, place.fold)
            return faces, f"the training part of fold {place.fold} of {place.run.folder}"
        except (AgecliError, OSError) as error:
            reason = f"those of its run can't be read ({error})"
    log.warning("effective samples, dead leaves and routing need faces, and %s: name some with --data DIR", reason)
    return None


def _draw(manifest: Manifest, limit: int, seed: int) -> Manifest:
    """At most `limit` of the faces, the same ones for the same seed."""
    count = len(manifest.samples)
    if count <= limit:
        return manifest
    chosen = sorted(generator(seed, "inspection").choice(count, limit, replace=False))
    return dataclasses.replace(manifest, samples=tuple(manifest.samples[index] for index in chosen))


def _units(
    checkpoint: Checkpoint, manifest: Manifest, device: torch.device, workers: int | None, progress: Progress
) -> tuple[Tensor, dict[str, str]]:
    """f(x) of the faces that could be read, (B, M), and the reason for each picture that could not, by path."""
    keep_memory()
    model = checkpoint.model.to(device)
    inputs = make_inputs(model, checkpoint.config, manifest, device, workers, progress)
    units = inputs.units(model, range(len(manifest.samples)))
    for path, reason in units.broken.items():
        log.warning("left out %s: %s", path, reason)
    if not units.indices:
        raise InputError(f"no face in {manifest.folder} could be read", hint="name other faces with --data DIR")
    return units.values, units.broken
