"""Predictions of a model for the faces of a measurement: stored ones if they still hold, else by the network."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from pathlib import Path

import torch

from agecli.evaluation.files import ModelFile
from agecli.evaluation.pixels import pixel_distributions
from agecli.evaluation.selection import Measurement
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
    measurement: Measurement, model: ModelFile, inputs: Inputs | None, device: torch.device
) -> tuple[Predictions, dict[str, str]]:
    """Run the network on the faces of a measurement.

    inputs: pixels or features of the faces, for a checkpoint; an ONNX file reads the pictures itself

    Returns the predictions for the faces that could be read, and the reason for each picture that could not, by path.
    """
    samples, card = measurement.manifest.samples, model.card
    if model.checkpoint is not None and inputs is not None:
        network = model.checkpoint.model.to(device)
        pmf, read, unreadable = distributions(network, inputs, measurement.fold.test, device)
    elif model.predictor is not None:
        pmf, read, unreadable = pixel_distributions(model.predictor, measurement.manifest, measurement.fold.test)
    else:
        raise ValueError("a checkpoint needs inputs")
    tested = {samples[index].path for index in measurement.fold.test}
    unreadable = {path: reason for path, reason in unreadable.items() if path in tested}
    for path, reason in unreadable.items():
        log.warning("left out %s: %s", path, reason)
    faces = [samples[index] for index in read]
    pmf = corrected(pmf, card.grid, card.calibration)
    return Predictions.from_pmf(pmf, faces, card.readout, card.grid, card.calibration), unreadable
