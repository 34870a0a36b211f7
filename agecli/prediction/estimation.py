"""Estimation: from the pixels of faces to records, in batches."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from agecli.core import ages
from agecli.core.ages import COVERAGE, AgeGrid, Readout
from agecli.core.errors import InputError
from agecli.core.reading import shown
from agecli.core.records import Record
from agecli.images.crops import PhotoFaces
from agecli.images.reading import Pixels
from agecli.model.card import Card
from agecli.model.card_checks import check_pmf
from agecli.model.predictors import Predictor
from agecli.prediction.options import Options
from agecli.scoring.calibration import corrected, interval
from agecli.scoring.shift import ShiftMonitor, picture_statistics

log = logging.getLogger("agecli")


def estimate(
    predictor: Predictor,
    pixels: Pixels,
    options: Options,
    monitor: ShiftMonitor | None = None,
    sources: Sequence[str] = (),
) -> list[Record]:
    """Age, standard deviation and interval of each face; the records have no source, box or score yet.

    pixels: (B, 3, H, W) uint8, as the model's card says.   Returns B records.
    monitor: is told what the faces look like;   sources: their photos, for the monitor
    Raises InputError if the model can't be run, or does not return probabilities.
    """
    card = predictor.card
    records = records_of(corrected(_run(predictor, pixels), card.grid, card.calibration), card, options)
    if card.shift is None:
        return records
    statistics = picture_statistics(pixels)
    if monitor:
        monitor.add(sources, statistics)
    distances = card.shift.distances(statistics).round(2).tolist()
    return [replace(record, shift=distance) for record, distance in zip(records, distances, strict=True)]


def _run(predictor: Predictor, pixels: Pixels) -> NDArray[np.float32]:
    """The distributions (B, A) of faces. Raises InputError if the model fails, or does not return probabilities."""
    try:
        pmf = predictor.pmf(pixels)
    except Exception as error:
        if not type(error).__module__.startswith("onnxruntime"):
            raise
        raise InputError(f"the model can't be run: {shown(error)}", hint="export or download it again") from error
    check_pmf(pmf, len(pixels), predictor.card.grid)
    return pmf


def records_of(pmf: NDArray[Any], card: Card, options: Options) -> list[Record]:
    """The same for distributions over the ages of the card's grid, without `shift`.   (B, A) -> B records"""
    grid, calibration = card.grid, card.calibration
    age = ages.read(pmf, cast(Readout, options.readout or card.readout), grid)
    low, high = interval(pmf, grid, calibration)
    low, high = np.minimum(low, age), np.maximum(high, age)  # the interval contains the age, whatever the readout
    columns = np.stack((age, ages.std(pmf, grid), low, high), axis=1).round(2).tolist()
    wide = options.abstain_above
    checks = _age_check(pmf, options, grid)
    return [
        Record(
            "",
            age=age,
            std=std,
            low=low,
            high=high,
            coverage=COVERAGE,
            interval="conformal" if calibration else "mixture",
            abstain=None if wide is None else high - low > wide,
            **check,
            distribution=[0.0] * grid.low + [round(float(p), 6) for p in mass] if options.distribution else None,
        )
        for (age, std, low, high), mass, check in zip(columns, pmf, checks, strict=True)
    ]


def _age_check(pmf: NDArray[np.float32], options: Options, grid: AgeGrid) -> list[dict[str, Any]]:
    """For each face the fields `over`, `p_over` and `decision`; none of them if no age is checked.  pmf: (B, A)."""
    if options.over is None:
        return [{}] * len(pmf)
    return [
        {
            "over": options.over,
            "p_over": round(p, 4),
            "decision": "over" if p >= options.over_confidence else "challenge",
        }
        for p in ages.probability_over(pmf, options.over, grid).tolist()
    ]


def face_records(
    predictor: Predictor,
    faces: Sequence[tuple[PhotoFaces, int]],
    options: Options,
    monitor: ShiftMonitor | None = None,
) -> list[Record]:
    """A record for each face.

    faces: at most a batch of them, each a photo and the number of the face in it.
    """
    if not faces:
        return []
    pixels = np.stack([photo.crops[number].pixels for photo, number in faces])
    records = estimate(predictor, pixels, options, monitor, [photo.source for photo, _ in faces])
    return [
        replace(
            record,
            source=photo.source,
            face=number,
            box=photo.crops[number].box,
            score=photo.crops[number].score,
            eyes=photo.crops[number].eyes,
            sharpness=photo.crops[number].sharpness,
            time=photo.time,
        )
        for record, (photo, number) in zip(records, faces, strict=True)
    ]


def photo_records(
    predictor: Predictor, photos: Iterable[PhotoFaces], options: Options, batch_size: int, warn: bool = True
) -> Iterator[Record]:
    """At least one record for each photo, in order. Photos are collected until their faces fill a batch.

    photos: with their faces cut for the model;   batch_size: faces that the model processes at once.
    warn: at the end, if the photos look unlike those that the model was calibrated on (`scoring.shift`).
    """
    monitor = ShiftMonitor(predictor.card.shift)
    waiting: list[PhotoFaces] = []
    count = 0
    for photo in photos:
        waiting.append(photo)
        count += max(1, len(photo.crops))  # photos without a face fill the batch too, so that none waits for long
        if count >= batch_size:
            yield from _batch_records(predictor, waiting, options, batch_size, monitor)
            waiting, count = [], 0
    yield from _batch_records(predictor, waiting, options, batch_size, monitor)
    if warn and (message := monitor.message()):
        log.warning("%s", message)


def _batch_records(
    predictor: Predictor, photos: Sequence[PhotoFaces], options: Options, batch_size: int, monitor: ShiftMonitor
) -> Iterator[Record]:
    """The same for a few photos, whose faces may exceed one batch."""
    faces = [(photo, number) for photo in photos for number in range(len(photo.crops))]
    batches = (faces[start : start + batch_size] for start in range(0, len(faces), batch_size))
    records = (record for batch in batches for record in face_records(predictor, batch, options, monitor))
    for photo in photos:
        if photo.status != "ok":
            yield Record(photo.source, status=photo.status, error=photo.error, time=photo.time)
        yield from islice(records, len(photo.crops))
