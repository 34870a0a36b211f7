"""Predictions of a checkpoint for the faces of a measurement: stored ones if they still hold, else by the network."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from pathlib import Path

import torch

from agecli.evaluation.selection import Measurement
from agecli.model.checkpoint import Checkpoint
from agecli.scoring.calibration import corrected
from agecli.scoring.metrics import Predictions
from agecli.training.inference import distributions
from agecli.training.inputs import Inputs
from agecli.training.results import read_predictions

log = logging.getLogger("agecli")


def stored_predictions(measurement: Measurement, folder: Path, source: Mapping[str, str]) -> Predictions | None:
    """Predictions of the same checkpoint for the same faces from an earlier run or evaluation; None if there are none.

    folder: where this evaluation keeps its results
    source: what the predictions must have been made from (`training.inference.source_of`)
    """
    for place in filter(None, (measurement.stored, folder / measurement.name)):
        predictions = read_predictions(place, source)
        if predictions is not None and len(predictions) == len(measurement.fold.test):
            samples = tuple(measurement.manifest.samples[index] for index in measurement.fold.test)
            return dataclasses.replace(predictions, samples=samples)
    return None


def infer(
    measurement: Measurement, checkpoint: Checkpoint, inputs: Inputs, device: torch.device
) -> tuple[Predictions, dict[str, str]]:
    """Run the network on the faces of a measurement.

    Returns the predictions for the faces that could be read, and the reason for each picture that could not, by path.
    """
    model, samples = checkpoint.model.to(device), measurement.manifest.samples
    pmf, read, unreadable = distributions(model, inputs, measurement.fold.test, device)
    tested = {samples[index].path for index in measurement.fold.test}
    unreadable = {path: reason for path, reason in unreadable.items() if path in tested}
    for path, reason in unreadable.items():
        log.warning("left out %s: %s", path, reason)
    forest, faces = model.forest, [samples[index] for index in read]
    pmf = corrected(pmf, forest.grid, checkpoint.calibration)
    return Predictions.from_pmf(pmf, faces, forest.readout, forest.grid, checkpoint.calibration), unreadable
