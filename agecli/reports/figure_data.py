"""The data of the figures of `agecli plot`, read from runs, checkpoints and photos; `reports.figures` draws them.

torch is imported where a network or its leaves are needed, so that curves from files are quick.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from agecli.core import ages
from agecli.core.ages import AgeGrid, Floats
from agecli.core.errors import AgecliError, InputError, MissingError
from agecli.datasets.manifest import read_manifest
from agecli.images.alignment import Alignment
from agecli.images.crops import FaceCropper
from agecli.model.bundled import named
from agecli.model.predictors import TorchPredictor
from agecli.prediction.estimation import face_records
from agecli.prediction.options import Options
from agecli.scoring.metrics import Predictions
from agecli.training.results import read_predictions
from agecli.training.run_folder import Source, is_run, open_run, read_results, trained_on

if TYPE_CHECKING:
    from agecli.forest.forests import Forest
    from agecli.model.network import AgeModel

log = logging.getLogger("agecli")
History = pd.DataFrame  # the columns `HISTORY` of history.csv, in order of iterations; NaN where a cell is empty
HISTORY = ("iteration", "loss", "nll", "entropy", "T", "tau", "train_mae", "val_mae")
DEVIATIONS = np.linspace(-4, 4, 65)  # standard deviations around the mean at which a Gaussian is drawn


# Leaves


@dataclass(frozen=True)
class Leaves:
    """The n leaves of a forest, or of one of its trees, as curves over ages."""

    name: str  # the model and its trees, in words
    source: str  # the run or checkpoint
    density: bool  # whether heights are probability densities (Gaussian leaves) or probabilities of whole years
    ages: Floats  # (n, points), years
    heights: Floats  # (n, points)
    mean: Floats  # (n,), years
    grid: AgeGrid


def read_leaves(source: Source, tree: int | None = None) -> Leaves:
    """The leaves of all trees of a checkpoint, or of one tree, numbered from 1.

    Raises InputError if the model has no forest, or no such tree.
    """
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
    """The forest of a model. Raises InputError if it has another head."""
    from agecli.forest.forests import Forest

    if not isinstance(model.forest, Forest):
        raise InputError(
            f"{path} has no leaves: it is a model without a forest",
            hint="name one that has a forest, such as those of `agecli train --model drf` or dldlf",
        )
    return model.forest


def _gaussians(mean: Floats, std: Floats) -> tuple[Floats, Floats]:
    """Ages around each mean, and the density there.   mean, std: (n,).   Returns (n, points) each."""
    heights = np.exp(-(DEVIATIONS**2) / 2) / (np.sqrt(2 * np.pi) * std[:, None])
    return mean[:, None] + std[:, None] * DEVIATIONS, heights


def read_ages(sources: Sequence[Source], grid: AgeGrid, data: Path | None = None) -> Floats | None:
    """Ages in years for the histogram: of a data folder, or of the training part of the first source that has one.

    Returns (n,), or None if no training part is known.
    """
    if data is not None:
        return np.array([sample.age for sample in read_manifest(data, grid).samples])
    known = {source.name: found for source in sources if (found := _training_ages(source)) is not None}
    if not known:
        return None
    name, first = next(iter(known.items()))
    if any(not np.array_equal(np.sort(other), np.sort(first)) for other in known.values()):
        log.warning("these models were trained on different faces; the histogram shows those of %s", name)
    return first


def _training_ages(source: Source) -> Floats | None:
    """The ages of the training part of a source's fold; None, with a warning, if they can't be read."""
    if source.run is None:
        return None
    try:
        faces = trained_on(source.run, source.fold).samples
    except (AgecliError, OSError) as error:
        log.warning("no histogram of the training ages of %s (%s); name faces with --data DIR", source.name, error)
        return None
    return np.array([face.age for face in faces]) if faces else None


# History


def read_histories(folder: Path, fold: int | None = None) -> dict[int, History]:
    """The history of each fold of a run by its number, or of one fold; also while the run is still training.

    Raises MissingError if there is no such run, or no history yet; InputError if a history is damaged.
    """
    open_run(folder)
    found = ((re.fullmatch(r"fold-(\d+)", path.parent.name), path) for path in folder.glob("fold-*/history.csv"))
    histories = {int(name[1]): _read_history(path) for name, path in found if name}
    there = {number: history for number, history in sorted(histories.items()) if len(history)}
    if not there:
        raise MissingError(f"{folder} has no history yet", hint="it is written when the first state is saved")
    if fold is None:
        return there
    if fold not in there:
        raise MissingError(f"{folder} has no history of fold {fold}", hint=f"there are: {', '.join(map(str, there))}")
    return {fold: there[fold]}


def _read_history(path: Path) -> History:
    """One history.csv. Raises InputError if a column is missing or a cell is no number."""
    try:
        return pd.read_csv(path, usecols=list(HISTORY), dtype=float)
    except ValueError as error:
        raise InputError(f"{path} is damaged: {error}", hint="was it edited? Restore it") from error


# Predictions


def read_runs(folders: Sequence[Path]) -> dict[str, Predictions]:
    """The predictions of runs, or of evaluations, for their test faces by folder, all folds of each pooled.

    Raises MissingError if a folder has none.
    """
    runs = {str(folder): _read_run(folder) for folder in folders}
    if len({frozenset(sample.path for sample in predictions.samples) for predictions in runs.values()}) > 1:
        log.warning("these were not tested on the same faces: their curves are not comparable")
    return runs


def _read_run(folder: Path) -> Predictions:
    """The pooled predictions of a run folder, or those of a folder that `evaluate` wrote."""
    if is_run(folder):
        return read_results(open_run(folder))
    predictions = read_predictions(folder)
    if predictions is None:
        raise MissingError(
            f"{folder} is no run folder, and has no predictions.csv with its distributions.npz",
            hint="name a folder that `agecli train` or `agecli evaluate --out` wrote",
        )
    return predictions


# One face


@dataclass(frozen=True)
class ExplainedFace:
    """The age distribution of a face as a mixture of the n leaves of all trees."""

    age: float  # predicted, years
    interval: tuple[float, float]  # years
    grid: AgeGrid
    face: NDArray[np.uint8]  # the input of the network, (H, W, 3)
    names: tuple[str, ...]  # of the n leaves
    weights: Floats  # P(l|x)/K of each leaf, (n,)
    leaves: Floats  # distribution of each leaf, (n, A)

    @property
    def parts(self) -> Floats:
        """What each leaf contributes to the pmf, (n, A)."""
        return np.asarray(self.weights[:, None] * self.leaves)

    @property
    def pmf(self) -> Floats:
        """The probability of each year, (A,)."""
        return np.asarray(self.weights @ self.leaves)


def explain(
    photo: Path, model: str | Path | None = None, *, no_detect: bool = False, device: str = "auto"
) -> ExplainedFace:
    """Predict the age of the largest face of a photo, with the weight of each leaf.

    model: a checkpoint (.safetensors); the bundled one by default
    no_detect: the photo is an aligned face already
    Raises InputError if the photo has no face, or the model no leaves.
    """
    path = named(model, ".safetensors")
    if path.suffix == ".onnx":
        raise InputError(
            f"{path} is an ONNX graph, whose leaves can't be read",
            hint="name the checkpoint (.safetensors) it was exported from",
        )
    import torch

    predictor = TorchPredictor(path, device)
    forest, card = _forest(predictor.model, path), predictor.card
    find_faces = FaceCropper(card.picture, None if no_detect else card.alignment or Alignment(), largest=True)
    detection = find_faces(str(photo))
    if detection.status != "ok":
        raise InputError(f"{photo}: {detection.error}", hint="name a photo of a face; --no-detect takes it as it is")
    record = face_records(predictor, [(detection, 0)], Options())[0].row()
    pixels = detection.crops[0].pixels
    with torch.inference_mode():
        log_p = forest.route(predictor.model.network(torch.from_numpy(pixels[None]).to(predictor.device)))
        weights = (log_p[0].exp() / log_p.shape[1]).cpu().double().numpy()  # (K, L)
        leaves = forest.leaf_pmf().cpu().double().numpy()  # (K, L, A)
    names = tuple(f"tree {k + 1}, leaf {leaf + 1}" for k, leaf in np.ndindex(*weights.shape))
    return ExplainedFace(
        record["age"],
        (record["low"], record["high"]),
        card.grid,
        pixels.transpose(1, 2, 0),
        names,
        weights.reshape(-1),
        leaves.reshape(-1, len(card.grid)),
    )


# Sketches


@dataclass(frozen=True)
class TreeSketch:
    """One tree of a trained forest, for a drawing."""

    name: str
    phi: NDArray[np.int64]  # (N,), the unit of f behind each split node, breadth first
    pmf: Floats  # (L, A), the leaves
    means: Floats  # (L,), of the leaves, years
    ages: tuple[int, int]  # the ends of the age grid


def read_trees(source: Source, trees: int) -> tuple[list[TreeSketch], int]:
    """The first trees of a checkpoint, and M, the number of units of f.

    Raises InputError for a model without trees.
    """
    import torch

    from agecli.forest.forests import Forest
    from agecli.model.checkpoint import load_checkpoint

    model = load_checkpoint(source.checkpoint).model
    forest = model.forest
    if not isinstance(forest, Forest):
        raise InputError(f"{source.checkpoint} has no trees: it is a regression", hint="name a forest")
    with torch.no_grad():
        leaves = forest.leaf_pmf().double().numpy()  # (K, L, A)
    means = leaves @ forest.grid.years
    some, ends = range(min(trees, len(leaves))), (forest.grid.low, forest.grid.high)
    sketches = [
        TreeSketch(f"tree {k + 1} of {len(leaves)}", forest.phi[k].numpy(), leaves[k], means[k], ends) for k in some
    ]
    return sketches, model.f.out_features


@dataclass(frozen=True)
class Example:
    """A test face with its ages."""

    picture: NDArray[np.uint8]  # (H, W, 3)
    age: float
    predicted: float


def read_examples(run: Path, count: int) -> list[Example]:
    """Test faces of a run from the youngest to the oldest, evenly chosen; those whose picture can't be read are left out."""
    from agecli.images.reading import UnreadableError, read_picture

    opened = open_run(run)
    results = read_results(opened)
    order = np.argsort(results.age, kind="stable")
    chosen = order[np.unique(np.linspace(0, len(order) - 1, min(count, len(order))).astype(int))]
    examples = []
    for index in chosen.tolist():
        try:
            picture = np.asarray(read_picture(opened.data / results.samples[index].path))
        except UnreadableError as error:
            log.warning("left out %s: %s", results.samples[index].path, error)
            continue
        examples.append(Example(picture, float(results.age[index]), float(results.predicted[index])))
    if not examples:
        raise MissingError(f"no picture of {run} can be read", hint="are its aligned faces still where they were?")
    return examples
