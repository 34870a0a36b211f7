"""Prediction: photos in, a record for each face out, in the order of the photos."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, cast

import numpy as np

from agecli.core import ages
from agecli.core.ages import COVERAGE, READOUTS, Readout
from agecli.core.errors import InputError
from agecli.core.parallel import stream
from agecli.images.alignment import Alignment
from agecli.images.crops import Box, FaceCropper, PhotoFaces, photos_and_frames
from agecli.images.detection import DETECTORS
from agecli.images.video import parse_every
from agecli.model.bundled import to_run
from agecli.model.predictors import About, Predictor, load_predictor
from agecli.prediction.journal import left_out
from agecli.prediction.paths import expand
from agecli.scoring.calibration import interval

log = logging.getLogger("agecli")
SCHEMA = 1
RECORD_COLUMNS = (
    "schema",
    "source",
    "status",
    "face",
    "age",
    "std",
    "low",
    "high",
    "coverage",
    "box",
    "score",
    "error",
    "interval",
    "time",
)


@dataclass(frozen=True)
class Record:
    """What is said of one face, or why nothing can be said of a photo."""

    source: str
    status: str = "ok"  # or no_face, unreadable
    face: int | None = None  # 0, 1, … by size
    age: float | None = None
    std: float | None = None
    low: float | None = None
    high: float | None = None
    coverage: float | None = None  # of the interval from low to high
    box: Box | None = None  # x, y, w, h in the upright photo
    score: float | None = None  # the detector's
    error: str | None = None
    interval: str | None = None  # conformal: calibrated to hold its coverage; mixture: the model's own quantiles
    time: float | None = None  # seconds from the start, of a frame of a video
    abstain: bool | None = None  # whether the interval is wider than asked for
    distribution: list[float] | None = None  # the probability of each year of age, from 0 on

    def row(self) -> dict[str, Any]:
        more = {name: getattr(self, name) for name in ("abstain", "distribution") if getattr(self, name) is not None}
        return {"schema": SCHEMA, **{name: getattr(self, name) for name in RECORD_COLUMNS[1:]}, **more}


def predict(
    photos: str | Path | Iterable[str | Path],
    *,
    model: str | Path | None = None,
    no_detect: bool = False,
    detector: str = "auto",
    largest: bool = False,
    min_face: int = 0,
    min_score: float | None = None,
    readout: str | None = None,
    abstain_above: float | None = None,
    distribution: bool = False,
    device: str = "auto",
    batch_size: int = 32,
    workers: int = 1,
    null: bool = False,
    every: float | str = 1.0,
    done: Iterable[str] = (),
    skip: str | Path | None = None,
) -> Iterator[Record]:
    """The age of every face. Files, folders, globs, @lists and `-`; at least one record for each photo.

    Of a video, a frame `every` so many seconds. The names in `done` were predicted before, and come first: no records.
    A folder to `skip` may lie among the photos: drawings are no photos.
    """
    path = to_run(model, device)
    if readout is not None and readout not in READOUTS:
        raise InputError(f"unknown readout `{readout}`", hint=f"there are: {', '.join(READOUTS)}")
    if batch_size < 1:
        raise InputError(f"a batch of {batch_size} photos holds none", hint="use --batch-size 1 or more")
    if detector not in ("auto", *DETECTORS):
        raise InputError(f"unknown detector `{detector}`", hint=f"there are: auto, {', '.join(DETECTORS)}")
    seconds = parse_every(str(every))
    predictor = load_predictor(path, device)
    about = predictor.about
    if about.calibration is None:
        log.warning("%s is not calibrated: its intervals are the plain quantiles of its mixture", path)
    alignment = None if no_detect else _alignment(about, path)
    look = FaceCropper(about.picture, alignment, detector, largest, min_face, min_score)
    names = expand(map(str, [photos] if isinstance(photos, (str, Path)) else photos), null, skip=skip)
    seen = stream(look, photos_and_frames(left_out(names, done), seconds), workers, ahead=2 * batch_size)
    asking = Asking(predictor, cast(Readout, readout or about.readout), abstain_above, distribution)
    return _records(seen, asking, batch_size)


def _alignment(about: About, model: Path) -> Alignment:
    """How faces must be cut for a model: as those that it was trained on."""
    if about.alignment:
        return about.alignment
    log.warning("%s was not trained on faces from `agecli preprocess`: the default alignment may not suit it", model)
    return Alignment()


@dataclass(frozen=True)
class Asking:
    """A model, and how its answers are read."""

    predictor: Predictor
    readout: Readout
    abstain_above: float | None = None  # years; a face with a wider interval is marked
    distribution: bool = False  # whether records hold the whole pmf

    def __call__(self, faces: Sequence[tuple[PhotoFaces, int]]) -> list[Record]:
        """A record for each face, given as a photo and the number of the face in it."""
        if not faces:
            return []
        pmf = self.predictor.pmf(np.stack([seen.crops[number].pixels for seen, number in faces]))
        grid, calibration = self.predictor.about.grid, self.predictor.about.calibration
        age = ages.read(pmf, self.readout, grid)
        low, high = interval(pmf, grid, calibration)
        low, high = np.minimum(low, age), np.maximum(high, age)  # whatever the readout, it lies inside
        columns = np.stack((age, ages.std(pmf, grid), low, high), axis=1).round(2).tolist()
        return [
            Record(
                seen.source,
                "ok",
                number,
                row[0],
                row[1],
                row[2],
                row[3],
                COVERAGE,
                seen.crops[number].box,
                seen.crops[number].score,
                interval="conformal" if calibration else "mixture",
                time=seen.time,
                abstain=None if self.abstain_above is None else row[3] - row[2] > self.abstain_above,
                distribution=[0.0] * grid.low + [round(float(p), 6) for p in mass] if self.distribution else None,
            )
            for (seen, number), row, mass in zip(faces, columns, pmf, strict=True)
        ]


def _records(photos: Iterator[PhotoFaces], ask: Asking, batch_size: int) -> Iterator[Record]:
    """Photos are taken until their faces fill a batch; the records come in the photos' order."""
    waiting: list[PhotoFaces] = []
    count = 0
    for seen in photos:
        waiting.append(seen)
        count += max(1, len(seen.crops))  # photos without a face must not wait for ever
        if count >= batch_size:
            yield from _answers(waiting, ask, batch_size)
            waiting, count = [], 0
    yield from _answers(waiting, ask, batch_size)


def _answers(photos: Sequence[PhotoFaces], ask: Asking, batch_size: int) -> Iterator[Record]:
    faces = [(seen, number) for seen in photos for number in range(len(seen.crops))]
    said = (record for start in range(0, len(faces), batch_size) for record in ask(faces[start : start + batch_size]))
    for seen in photos:
        if seen.status != "ok":
            yield Record(seen.source, status=seen.status, error=seen.error, time=seen.time)
        yield from islice(said, len(seen.crops))
