"""`calibrate`: new intervals for an existing model, and a bias correction if it holds up, from labelled faces. No training.

Works without torch for ONNX models: only the calibration, the shift reference and the fingerprint in the file change.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from agecli.core.errors import InputError
from agecli.core.records import Sample
from agecli.datasets.alignment_check import align_folder, check_aligned
from agecli.datasets.manifest import read_manifest, read_names
from agecli.evaluation.pixels import pixel_distributions
from agecli.images.alignment import Alignment
from agecli.images.face_frames import BITS, Floats, frequencies
from agecli.model.bundled import DEFAULT, name_of, named, to_run
from agecli.model.fingerprint import Fingerprint, fingerprint_of, read_fingerprint, read_frames
from agecli.model.predictors import load_predictor
from agecli.model.stamping import stamp
from agecli.scoring import bootstrap
from agecli.scoring.calibration import LEAST_FACES
from agecli.scoring.recalibration import Recalibration, recalibrate
from agecli.scoring.shift import read_statistics, shift_reference

log = logging.getLogger("agecli")


def calibrate(
    model: str | Path = DEFAULT,
    *,
    data: str | Path,
    out: str | Path,
    exclude: str | Path | None = None,
    align: bool = False,
    device: str = "auto",
) -> Recalibration:
    """Adapt the intervals of a model to photos of another kind, and write it as a new file with the same weights.

    model: a checkpoint (.safetensors) or an exported model (.onnx); "default" is the bundled model
    data: a folder of at least 30 labelled faces, aligned as the model needs them;   align: they are photos, and are aligned
    out: the file to write, with the suffix of the model (.onnx for "default" if `out` ends so)
    exclude: a file of photos to leave out;   device: auto, cpu, cuda, cuda:N or mps

    Returns the accuracy before and, cross-validated, after. Raises InputError for too few faces, photos that are not
    aligned or an `out` that exists; MissingError if model or data are not there.

    Example: `agecli.calibrate("model.onnx", data="mine", out="mine.onnx").after.coverage`
    """
    target = Path(out)
    source = named(model, target.suffix) if str(model) == DEFAULT else to_run(model, device)
    if target.suffix != source.suffix:
        raise InputError(f"{source} can't be written as {target}", hint=f"name a file that ends in {source.suffix}")
    if target.exists():
        raise InputError(f"{target} exists already", hint="name another file with --out")
    predictor = load_predictor(source, device)
    card = predictor.card
    folder = align_folder(Path(data), card.alignment) if align else Path(data)
    manifest = read_manifest(folder, card.grid, exclude=read_names(Path(exclude)) if exclude else ())
    check_aligned(folder, [sample.path for sample in manifest.samples], card.alignment, str(model), "calibrate")
    pmf, read, broken = pixel_distributions(predictor, manifest, range(len(manifest.samples)))
    for path, reason in broken.items():
        log.warning("left out %s: %s", path, reason)
    samples = [manifest.samples[index] for index in read]
    if len(samples) < LEAST_FACES:
        raise InputError(f"{len(samples)} faces are too few", hint=f"calibrate on at least {LEAST_FACES}")
    age = np.array([sample.age for sample in samples])
    result = recalibrate(pmf, age, bootstrap.subject_ids(samples), card.grid, card.readout, card.calibration)
    paths = [sample.path for sample in samples]
    shift = shift_reference(read_statistics(folder, paths, card.picture), card.shift)
    fingerprint = _with_faces(source, folder, samples)
    stamp(source, target, calibration=result.calibration, shift=shift, fingerprint=fingerprint)
    return result


def _with_faces(model: Path, folder: Path, samples: Sequence[Sample]) -> Fingerprint | None:
    """The fingerprint of a model with the calibration faces added; None if it has none. Warns of faces it was trained on."""
    parent = read_fingerprint(model)
    if parent is None:
        return None
    frames = read_frames(folder, [sample.path for sample in samples], Alignment.read(folder))
    if seen := int((parent.seen(frames) > 0).sum()):
        log.warning(
            "%s was trained or selected on %d of these photos: intervals will be too narrow", name_of(model), seen
        )
    empty: Floats = np.zeros((0, BITS), dtype=np.float32)
    values = np.stack([frequencies(frame) for frame in frames if frame is not None])
    return fingerprint_of(empty, values, (sample.subject for sample in samples), parent)
