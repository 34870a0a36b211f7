"""What the figures of `agecli plot` show, gathered from runs, checkpoints and photos. Their looks are elsewhere.

Torch loads where a network or its leaves are needed: curves from files are quick.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from agecli.core import ages
from agecli.core.ages import AgeGrid, Floats
from agecli.core.errors import AgecliError, InputError, MissingError
from agecli.core.files import read_csv, write_whole
from agecli.datasets.manifest import read_manifest
from agecli.images.alignment import Alignment
from agecli.images.crops import FaceCropper
from agecli.model.bundled import named
from agecli.model.predictors import TorchPredictor
from agecli.prediction.predict import Asking
from agecli.scoring.metrics import Predictions, read_predictions
from agecli.training.run_folder import Source, is_run, open_run, read_results, trained_on

if TYPE_CHECKING:
    from agecli.forest.forests import Forest
    from agecli.model.network import AgeModel

log = logging.getLogger("agecli")
History = dict[str, Floats]  # by column; NaN where a row says nothing
COLUMNS = ("iteration", "loss", "nll", "entropy", "t", "tau", "train_mae", "val_mae")  # of a history
REACH = np.linspace(-4, 4, 65)  # standard deviations around a mean, in which a Gaussian is drawn


def write_figure(path: Path, content: bytes) -> None:
    with write_whole(path) as part:
        part.write_bytes(content)
    log.info("wrote %s", path)


# Leaves


@dataclass(frozen=True)
class Leaves:
    """The n leaves of a forest, or of one of its trees, as curves over ages."""

    name: str  # what they are
    source: str  # whose they are
    density: bool  # or the probabilities of whole years
    ages: Floats  # (n, points)
    heights: Floats  # (n, points)
    mean: Floats  # (n,)
    grid: AgeGrid


def read_leaves(source: Source, tree: int | None = None) -> Leaves:
    """The leaves of all trees, or of one; trees are numbered from 1."""
    from agecli.forest.forests import GaussianForest
    from agecli.model.checkpoint import load_checkpoint

    checkpoint = load_checkpoint(source.checkpoint)
    forest = _forest(checkpoint.model, source.checkpoint)
    pmf = forest.leaf_pmf().double().numpy()  # (K, L, A)
    trees, leaves, years = pmf.shape
    if tree is not None and not 1 <= tree <= trees:
        raise InputError(f"{source.name} has no tree {tree}", hint=f"it has {trees}, numbered from 1")
    some = slice(None) if tree is None else slice(tree - 1, tree)
    whose = f"{trees} trees of {leaves} leaves" if tree is None else f"tree {tree} of {trees}, {leaves} leaves"
    name = f"{checkpoint.config.model.upper()}, {whose}"
    if isinstance(forest, GaussianForest):
        mean, std = (values[some].double().numpy().reshape(-1) for values in (forest.mean, forest.variance.sqrt()))
        return Leaves(name, source.name, True, *_gaussians(mean, std), mean, forest.grid)
    heights = pmf[some].reshape(-1, years)
    places = np.tile(forest.grid.years, (len(heights), 1))
    return Leaves(name, source.name, False, places, heights, ages.mean(heights, forest.grid), forest.grid)


def _forest(model: AgeModel, path: Path) -> Forest:
    from agecli.forest.forests import Forest

    if not isinstance(model.forest, Forest):
        raise InputError(
            f"{path} has no leaves: its model is one without a forest",
            hint="name one that has a forest, such as those of `agecli train --model drf` or dldlf",
        )
    return model.forest


def _gaussians(mean: Floats, std: Floats) -> tuple[Floats, Floats]:
    """Places around each mean, and the density there.   (n,), (n,) -> (n, points), (n, points)"""
    heights = np.exp(-(REACH**2) / 2) / (np.sqrt(2 * np.pi) * std[:, None])
    return mean[:, None] + std[:, None] * REACH, heights


def read_ages(sources: Sequence[Source], grid: AgeGrid, data: Path | None = None) -> Floats | None:
    """The ages in a data folder, or those that the first of the sources was trained on, as far as they are known."""
    if data is not None:
        return np.array([sample.age for sample in read_manifest(data, grid).samples])
    known = {source.name: some for source in sources if (some := _training_ages(source)) is not None}
    if not known:
        return None
    name, first = next(iter(known.items()))
    if any(not np.array_equal(np.sort(some), np.sort(first)) for some in known.values()):
        log.warning("these models were trained on different faces; the histogram is of those of %s", name)
    return first


def _training_ages(source: Source) -> Floats | None:
    if source.run is None:
        return None
    try:
        faces = trained_on(source.run, source.fold).samples
    except (AgecliError, OSError) as error:
        log.warning("there is no histogram of the training ages of %s; --data DIR gives one: %s", source.name, error)
        return None
    return np.array([face.age for face in faces]) if faces else None


# History


def read_histories(folder: Path, fold: int | None = None) -> dict[int, History]:
    """The history of each fold of a run, also of one that is still being trained, or of one fold alone."""
    open_run(folder)  # an error if it is none
    found = ((re.fullmatch(r"fold-(\d+)", path.parent.name), path) for path in folder.glob("fold-*/history.csv"))
    histories = {int(name[1]): _columns(path) for name, path in found if name}
    there = {number: history for number, history in sorted(histories.items()) if len(history["iteration"])}
    if not there:
        raise MissingError(f"{folder} has no history yet", hint="it is written when the first state is saved")
    if fold is None:
        return there
    if fold not in there:
        raise MissingError(f"{folder} has no history of fold {fold}", hint=f"there are: {', '.join(map(str, there))}")
    return {fold: there[fold]}


def _columns(path: Path) -> History:
    rows = read_csv(path)
    try:
        return {name: np.array([float(row[name] or "nan") for row in rows]) for name in COLUMNS}
    except (KeyError, ValueError) as error:
        raise InputError(f"{path} is damaged: {error}", hint="was it edited? Bring the old one back") from error


# Predictions


def read_runs(folders: Sequence[Path]) -> dict[str, Predictions]:
    """What runs, or evaluations, said of their test faces: all folds of each together."""
    said = {str(folder): _read_run(folder) for folder in folders}
    if len({frozenset(sample.path for sample in some.samples) for some in said.values()}) > 1:
        log.warning("these were not tested on the same faces: their curves are hard to compare")
    return said


def _read_run(folder: Path) -> Predictions:
    if is_run(folder):
        return read_results(open_run(folder))
    said = read_predictions(folder)
    if said is None:
        raise MissingError(
            f"{folder} is no run folder, and has no predictions.csv with its distributions.npz",
            hint="name a folder that `agecli train` or `agecli evaluate --out` wrote",
        )
    return said


# One face


@dataclass(frozen=True)
class Explained:
    """How the distribution of a face's age is made of leaves. There are n of them, in all trees."""

    age: float
    interval: tuple[float, float]
    grid: AgeGrid
    face: NDArray[np.uint8]  # as the network sees it, (H, W, 3)
    names: tuple[str, ...]  # of the leaves
    weights: Floats  # P(l|x)/K of each, (n,)
    leaves: Floats  # (n, A)

    @property
    def parts(self) -> Floats:
        """What each leaf adds to the pmf, (n, A)."""
        return np.asarray(self.weights[:, None] * self.leaves)

    @property
    def pmf(self) -> Floats:
        """(A,)"""
        return np.asarray(self.weights @ self.leaves)


def explain(
    photo: Path, model: str | Path | None = None, *, no_detect: bool = False, device: str = "auto"
) -> Explained:
    """The age of the largest face of a photo, and what each leaf says to it."""
    path = named(model, ".safetensors")
    if path.suffix == ".onnx":
        raise InputError(
            f"{path} is a graph that shows no leaves", hint="name the checkpoint (.safetensors) it was exported from"
        )
    import torch

    predictor = TorchPredictor(path, device)
    forest, about = _forest(predictor.model, path), predictor.about
    look = FaceCropper(about.picture, None if no_detect else about.alignment or Alignment(), largest=True)
    seen = look(str(photo))
    if seen.status != "ok":
        raise InputError(f"{photo}: {seen.error}", hint="name a photo of a face; --no-detect takes it as it is")
    record = Asking(predictor, about.readout)([(seen, 0)])[0].row()
    pixels = seen.crops[0].pixels
    with torch.inference_mode():
        log_p = forest.route(predictor.model.network(torch.from_numpy(pixels[None]).to(predictor.device)))
        weights = (log_p[0].exp() / log_p.shape[1]).cpu().double().numpy()  # (K, L)
        leaves = forest.leaf_pmf().cpu().double().numpy()  # (K, L, A)
    names = tuple(f"tree {k + 1}, leaf {leaf + 1}" for k, leaf in np.ndindex(*weights.shape))
    return Explained(
        record["age"],
        (record["low"], record["high"]),
        about.grid,
        pixels.transpose(1, 2, 0),
        names,
        weights.reshape(-1),
        leaves.reshape(-1, len(about.grid)),
    )
