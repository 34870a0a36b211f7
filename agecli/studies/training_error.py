"""The error of finished runs on their own training parts, for studies that ask how well an optimum fits.

Computed from the checkpoints of all folds before a study removes them, and kept in fold-<k>/training.csv.
"""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

from agecli.core.files import read_csv, write_csv
from agecli.model.checkpoint import load_checkpoint
from agecli.model.devices import pick_device
from agecli.scoring.metrics import Predictions, measure
from agecli.training.inference import distributions
from agecli.training.inputs import Inputs, make_inputs, no_progress
from agecli.training.run_folder import finished_folds, open_run, read_faces

FILE = "training.csv"
COLUMNS = ("images", "nll", "mae")


def write_training_errors(folder: Path, device: str, workers: int | None) -> None:
    """Measure each finished fold of a run on its training part, in evaluation mode; folds that have the file are skipped.

    Raises MissingError if a checkpoint was removed.
    """
    run, target = open_run(folder), pick_device(device)
    left = [number for number in finished_folds(run) if not (run.fold(number) / FILE).is_file()]
    if not left:
        return
    manifest, folds = read_faces(run)
    inputs: Inputs | None = None
    for number in left:
        checkpoint = load_checkpoint(run.checkpoint(number))
        if inputs is None or not run.config.backbone.freeze:  # all folds share a frozen backbone
            inputs = make_inputs(checkpoint.model, run.config, manifest, target, workers, no_progress)
        model = checkpoint.model.to(target)
        pmf, read, _ = distributions(model, inputs, folds[number - 1].train, target)
        faces = [manifest.samples[index] for index in read]
        metrics = measure(Predictions.from_pmf(pmf, faces, model.forest.readout, model.forest.grid, None))
        write_csv(run.fold(number) / FILE, [{"images": len(faces), "nll": metrics.nll, "mae": metrics.mae}], COLUMNS)


def training_nll(folder: Path) -> float | None:
    """The mean over the folds of a run of their NLL on the training part, nats; None if it was not measured."""
    run = open_run(folder)
    files = [run.fold(number) / FILE for number in finished_folds(run)]
    if not files or not all(file.is_file() for file in files):
        return None
    return fmean(float(read_csv(file)[0]["nll"]) for file in files)
