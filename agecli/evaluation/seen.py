"""Seen photos: which test faces a model was trained, selected or calibrated on, by the fingerprint in its file."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from agecli.core.files import write_whole
from agecli.evaluation.selection import Measurement
from agecli.images.alignment import Alignment
from agecli.model.bundled import name_of
from agecli.model.fingerprint import SELECTED, TRAINED, read_fingerprint, read_frames
from agecli.scoring.metrics import Predictions

log = logging.getLogger("agecli")
MOST_SEEN = 0.01  # share of the test faces; with more, an evaluation does not tell the error on new faces
INITIAL_FILE = "seen-before.npz"  # the same of the model that the run was fine-tuned from
FILE = "seen.npz"  # beside predictions.csv: what was found, so that the pictures are not read again
Known = NDArray[np.int8]  # (n,), fingerprint.NEW, SELECTED or TRAINED for each test face


def seen_faces(
    measurement: Measurement,
    predictions: Predictions,
    source: Mapping[str, str],
    folder: Path,
    own_test_part: bool,
    file: str = FILE,
) -> Known | None:
    """What the model of a measurement knows of each face; None, with a message, if its file does not say.

    predictions: of the faces that could be read;   folder: where the results are kept
    source: hashes of model and pictures (`training.inference.source_of`): results for the same ones are not computed again
    own_test_part: the faces were kept apart when the model was trained, and only near-duplicates are found
    file: where in the folder what was found is kept
    """
    stored = _read(folder / file, source, len(predictions))
    if stored is not None:
        _tell(measurement, stored, own_test_part)
        return stored
    fingerprint = read_fingerprint(measurement.checkpoint)
    if fingerprint is None:
        log.warning(
            "%s has no fingerprint: whether it was trained on some of these photos can't be checked",
            name_of(measurement.checkpoint),
        )
        return None
    if not fingerprint.complete:
        log.warning(
            "%s started from a model without a fingerprint, whose photos are unknown", name_of(measurement.checkpoint)
        )
    data = measurement.manifest.folder
    frames = read_frames(data, [sample.path for sample in predictions.samples], Alignment.read(data))
    known = fingerprint.seen(frames)
    _write(folder / file, known, source)
    _tell(measurement, known, own_test_part)
    subjects = sum(fingerprint.knows(sample.subject) for sample in predictions.samples)
    if subjects and not own_test_part:
        log.warning(
            "%d of %d faces are of subjects whose names are also in the training or selection data of %s",
            subjects,
            len(known),
            name_of(measurement.checkpoint),
        )
    return known


def seen_before(
    initial: Path, measurement: Measurement, predictions: Predictions, source: Mapping[str, str], folder: Path
) -> Known | None:
    """What the model that a run was fine-tuned from knows of the run's own test faces, which were not kept apart from it.

    initial: its file; None, with a message, if it is gone or does not say. The rest: as for `seen_faces`.
    """
    if not initial.is_file():
        log.warning("%s is gone: whether it was trained on some of these photos can't be checked", initial)
        return None
    return seen_faces(replace(measurement, checkpoint=initial), predictions, source, folder, False, INITIAL_FILE)


def seen_share(known: Known | None) -> float | None:
    """The share of faces that a model was trained or selected on; None if it is not known."""
    return None if known is None or not len(known) else float((known > 0).mean())


def _tell(measurement: Measurement, known: Known, own_test_part: bool) -> None:
    """Say how many faces were seen."""
    trained, selected = int((known == TRAINED).sum()), int((known == SELECTED).sum())
    if not trained + selected:
        return
    if own_test_part:
        log.warning(
            "%s: %d of %d test photos look like photos that it, or the model it was fine-tuned from, was trained on, %d like those it was"
            " selected on: its error on new ones may be larger; `agecli audit` shows copies within the data",
            measurement.name or measurement.checkpoint,
            trained,
            len(known),
            selected,
        )
    else:
        log.warning(
            "%s was trained on %d of these %d photos, and selected or calibrated on %d: its error on new ones is larger",
            name_of(measurement.checkpoint),
            trained,
            len(known),
            selected,
        )


def _read(path: Path, source: Mapping[str, str], faces: int) -> Known | None:
    try:
        with np.load(path, allow_pickle=False) as stored:
            same = all(str(stored[f"source_{name}"]) == value for name, value in source.items())
            known = np.asarray(stored["known"], dtype=np.int8)
    except (OSError, KeyError, ValueError):
        return None
    return known if same and len(known) == faces else None


def _write(path: Path, known: Known, source: Mapping[str, str]) -> None:
    arrays = {f"source_{name}": np.array(value) for name, value in source.items()}
    with write_whole(path) as part, part.open("wb") as file:
        np.savez_compressed(file, known=known, **arrays)  # type: ignore[arg-type]
