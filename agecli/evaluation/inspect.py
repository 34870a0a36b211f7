"""Inspection: how a trained forest uses its leaves, its split nodes and the units of f."""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.special import entr

from agecli.core import ages
from agecli.core.ages import AgeGrid
from agecli.core.errors import AgecliError, InputError
from agecli.core.seeding import generator
from agecli.datasets.manifest import Manifest, read_manifest
from agecli.forest.forests import Forest, GaussianForest
from agecli.forest.precision import wide
from agecli.forest.routing import entropy
from agecli.model.bundled import DEFAULT
from agecli.model.checkpoint import Checkpoint, load_checkpoint
from agecli.model.devices import keep_memory, pick_device
from agecli.training.inputs import make_inputs
from agecli.training.run_folder import Source, find_source, trained_on

log = logging.getLogger("agecli")

DEAD = 1e-3  # of an equal share of the faces; relative, so that the number of faces does not decide what is dead
PEAK = 0.99  # of the mass of a categorical leaf in one year: it knows that year only
AT_FLOOR = 1 + 1e-4  # of the variance floor: float32 rounds it
HARD = 0.05  # a split decision s below this, or above 1 - this, is hard
BATCH = 1024  # faces routed at a time: 5 trees of 512 leaves take 20 MB


@dataclass(frozen=True, kw_only=True)
class Leaf:
    """One leaf; None is what only faces can tell."""

    tree: int  # from 1
    leaf: int  # from 1, left to right
    faces: float | None = None  # effective number of samples: the sum over the faces of P(l | x)
    share: float | None = None  # of all faces
    mean: float  # of its distribution on the age grid, in years
    std: float
    density_std: float | None = None  # of a Gaussian leaf, before it is laid on the grid
    peak: float  # the largest mass in one year
    dead: bool | None = None  # less than DEAD of an equal share of the faces
    collapsed: bool  # a Gaussian with its variance at the floor; another with PEAK of its mass in one year


@dataclass(frozen=True, kw_only=True)
class Tree:
    """One tree; None is what only faces can tell."""

    tree: int  # from 1
    leaves: int
    dead: int | None = None
    collapsed: int
    effective_leaves: float | None = None  # exp of the entropy of the mean leaf usage; at most L
    entropy: float | None = None  # H in nats, the mean over the faces; at most log L  [eqn:entropy]
    largest: float | None = None  # the mean over the faces of the largest P(l | x)
    hard: float | None = None  # share of hard split decisions, weighted by the probability of reaching the node


@dataclass(frozen=True)
class UnitUse:
    """Which units of f the trees look at, and which of them together."""

    units: int  # M
    used_by: tuple[int, ...]  # how many units 0, 1, … K trees use
    shared: tuple[tuple[int, ...], ...]  # how many units trees i and j both use; on the diagonal, those of one tree


@dataclass(frozen=True)
class Inspection:
    checkpoint: Path
    model: str  # drf, dldlf, …
    faces: int  # that were routed; 0 if there were none
    source: str  # of the faces, in words
    trees: tuple[Tree, ...]
    leaves: tuple[Leaf, ...]
    units: UnitUse
    broken: dict[str, str]  # pictures that could not be read, and why


def inspect(
    model: str | Path | None = None,
    *,
    data: str | Path | None = None,
    fold: int | None = None,
    limit: int = 5000,
    device: str = "auto",
    workers: int | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Inspection:
    """The health of the leaves of a checkpoint, a run's fold (the first finished one), or the bundled model.

    Faces of `data` are routed, or those that the checkpoint's own fold was trained on: `limit` of them, drawn from the
    seed of the checkpoint. Without faces there is only what the checkpoint alone can tell.
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
        units, broken = _ask(checkpoint, chosen, target, workers, progress)
        routing = route(forest.cpu(), units)
    return Inspection(
        path,
        checkpoint.config.model,
        routing.faces if routing else 0,
        source,
        examine_trees(forest, routing),
        examine_leaves(forest, routing),
        unit_use(forest.phi, checkpoint.model.f.out_features),
        broken,
    )


def _faces(checkpoint: Checkpoint, data: Path | None, place: Source) -> tuple[Manifest, str] | None:
    """The faces to route, and what they are, as far as there are any."""
    if data is not None:
        checkpoint.warn_of_frame(data)
        grid = AgeGrid(checkpoint.config.ages.low, checkpoint.config.ages.high)
        return read_manifest(data, grid), f"all of {data}"
    reason = "the checkpoint lies in no run, whose faces could be taken"
    if place.run is not None:
        try:
            faces = trained_on(place.run, place.fold)
            return faces, f"the training part of fold {place.fold} of {place.run.folder}"
        except (AgecliError, OSError) as error:
            reason = f"the faces of its run can not be taken ({error})"
    log.warning("effective samples, dead leaves and routing need faces, and %s: name some with --data DIR", reason)
    return None


def _draw(manifest: Manifest, limit: int, seed: int) -> Manifest:
    """At most `limit` of the faces, the same ones each time."""
    everyone = len(manifest.samples)
    if everyone <= limit:
        return manifest
    chosen = sorted(generator(seed, "inspection").choice(everyone, limit, replace=False))
    return dataclasses.replace(manifest, samples=tuple(manifest.samples[index] for index in chosen))


def _ask(
    checkpoint: Checkpoint,
    manifest: Manifest,
    device: torch.device,
    workers: int | None,
    progress: Callable[[int, int], None],
) -> tuple[Tensor, dict[str, str]]:
    """f(x) of the faces that could be read (B, M), and the pictures that could not."""
    keep_memory()
    model, config = checkpoint.model.to(device), checkpoint.config
    inputs = make_inputs(model, config, manifest, device, workers, progress)
    units = inputs.units(model, range(len(manifest.samples)))
    for path, reason in units.broken.items():
        log.warning("left out %s: %s", path, reason)
    if not units.indices:
        raise InputError(f"no face in {manifest.folder} could be read", hint="name other faces with --data DIR")
    return units.values, units.broken


@dataclass(frozen=True)
class Routing:
    """How some faces go through the trees, as means over the faces."""

    faces: int  # B
    usage: Tensor  # P(l | x)   (K, L)
    entropy: Tensor  # H, in nats   (K,)
    largest: Tensor  # the largest P(l | x)   (K,)
    hard: Tensor  # the share of hard decisions on the way of a face   (K,)


def route(forest: Forest, units: Tensor) -> Routing:
    """units: (B, M)"""
    with torch.inference_mode():
        parts = [_routing_sums(forest, batch) for batch in units.split(BATCH)]
    return Routing(len(units), *(torch.stack(sums).sum(0) / len(units) for sums in zip(*parts, strict=True)))


def _routing_sums(forest: Forest, units: Tensor) -> tuple[Tensor, ...]:
    log_p = forest.route(units)
    p, s = wide(log_p.exp()), units[:, forest.phi].sigmoid()
    hard = (s < HARD) | (s > 1 - HARD)  # (B, K, N)
    reach = node_reach(p)
    return p.sum(0), entropy(log_p) * len(units), p.amax(-1).sum(0), ((reach * hard).sum(-1) / reach.sum(-1)).sum(0)


def node_reach(p: Tensor) -> Tensor:
    """How likely a face is to reach each split node: all of P(l | x) below it.   (B, K, L) -> (B, K, N)"""
    widths = (2**level for level in range(p.shape[-1].bit_length() - 1))  # 1, 2, 4, … L / 2: breadth first
    return torch.cat([p.unflatten(-1, (width, -1)).sum(-1) for width in widths], dim=-1)


def examine_leaves(forest: Forest, routing: Routing | None) -> tuple[Leaf, ...]:
    pmf = wide(forest.leaf_pmf()).numpy()  # (K, L, A)
    mean, std, peak = ages.mean(pmf, forest.grid), ages.std(pmf, forest.grid), pmf.max(-1)
    collapsed = _collapsed(forest)
    leaves = []
    for at in np.ndindex(mean.shape):  # tree, leaf
        row: dict[str, Any] = {"mean": float(mean[at]), "std": float(std[at]), "peak": float(peak[at])}
        if isinstance(forest, GaussianForest):
            row["density_std"] = math.sqrt(forest.variance[at])
        if routing:
            share = float(routing.usage[at])
            row |= {"faces": share * routing.faces, "share": share, "dead": share < DEAD / mean.shape[1]}
        leaves.append(Leaf(tree=at[0] + 1, leaf=at[1] + 1, collapsed=bool(collapsed[at]), **row))
    return tuple(leaves)


def examine_trees(forest: Forest, routing: Routing | None) -> tuple[Tree, ...]:
    collapsed = _collapsed(forest)  # (K, L)
    K, L = collapsed.shape
    trees = []
    for k in range(K):
        more: dict[str, Any] = {}
        if routing:
            usage = routing.usage[k]
            more = {name: float(getattr(routing, name)[k]) for name in ("entropy", "largest", "hard")}
            more |= {"dead": int((usage < DEAD / L).sum()), "effective_leaves": math.exp(entr(usage).sum())}
        trees.append(Tree(tree=k + 1, leaves=L, collapsed=int(collapsed[k].sum()), **more))
    return tuple(trees)


def _collapsed(forest: Forest) -> Tensor:
    """Which leaves have shrunk to one year.   (K, L)"""
    if isinstance(forest, GaussianForest):
        return forest.variance <= forest.floor * AT_FLOOR
    return forest.leaf_pmf().amax(-1) >= PEAK


def unit_use(phi: Tensor, units: int) -> UnitUse:
    """phi: (K, N), the unit of f behind each split node."""
    looks = torch.zeros(len(phi), units, dtype=torch.long).scatter_(1, phi.cpu(), 1)  # (K, M): 1 if the tree uses it
    used_by = looks.sum(0).bincount(minlength=len(phi) + 1)
    return UnitUse(units, tuple(used_by.tolist()), tuple(map(tuple, (looks @ looks.T).tolist())))
