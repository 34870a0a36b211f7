"""Prediction: photos in, a record for each face out, in the order of the photos."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, cast

import cv2
import numpy as np
import torch
from PIL import Image

from agecli import ages
from agecli.ages import COVERAGE, READOUTS, Readout
from agecli.calibration import Calibration, interval
from agecli.checkpoint import load_checkpoint
from agecli.config import Config
from agecli.devices import keep_memory, pick_device, to_device
from agecli.errors import InputError, MissingError
from agecli.faces.align import Alignment, Photo, align
from agecli.faces.detect import find_faces
from agecli.listing import expand
from agecli.model import AgeModel
from agecli.pictures import PictureSpec, Pixels, UnreadableError, centre_crop, read_picture, resize, to_pixels

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
    box: tuple[int, int, int, int] | None = None  # x, y, w, h in the upright photo
    score: float | None = None  # the detector's
    error: str | None = None
    interval: str | None = None  # conformal: calibrated to hold its coverage; mixture: the model's own quantiles

    def row(self) -> dict[str, Any]:
        return {"schema": SCHEMA, **{name: getattr(self, name) for name in RECORD_COLUMNS[1:]}}


@dataclass(frozen=True)
class Crop:
    """A face cut for the network, and where it was."""

    source: str
    face: int
    box: tuple[int, int, int, int]
    score: float | None
    pixels: Pixels


def predict(
    photos: str | Path | Iterable[str | Path],
    *,
    model: str | Path | None = None,
    no_detect: bool = False,
    detector: str = "auto",
    largest: bool = False,
    readout: str | None = None,
    device: str = "auto",
    batch_size: int = 32,
    null: bool = False,
) -> Iterator[Record]:
    """The age of every face. Files, folders, globs, @lists and `-`; at least one record for each photo."""
    if model is None:
        raise MissingError(
            "there is no bundled model yet", hint="name a checkpoint with --model runs/NAME/fold-1/best.safetensors"
        )
    if readout is not None and readout not in READOUTS:
        raise InputError(f"unknown readout `{readout}`", hint=f"there are: {', '.join(READOUTS)}")
    if batch_size < 1:
        raise InputError(f"a batch of {batch_size} photos holds none", hint="use --batch-size 1 or more")
    target = pick_device(device)
    keep_memory()
    checkpoint = load_checkpoint(Path(model))
    network = checkpoint.model.to(target)
    if checkpoint.calibration is None:
        log.warning("%s is not calibrated: its intervals are the plain quantiles of its mixture", model)
    crops = partial(_whole_picture, spec=network.picture)
    if not no_detect:
        alignment = _alignment(checkpoint.config, model)
        crops = partial(_faces, spec=network.picture, alignment=alignment, detector=detector, largest=largest)
    names = expand([str(photos)] if isinstance(photos, (str, Path)) else [str(photo) for photo in photos], null)
    chosen = cast(Readout, readout) if readout else network.forest.readout
    return _records(names, crops, network, chosen, checkpoint.calibration, target, batch_size)


def _alignment(config: Config, model: str | Path) -> Alignment:
    """How faces must be cut for a model: as those that it was trained on."""
    known = config.alignment
    if known.size:
        return Alignment(known.size, known.eye_distance, known.eye_height)
    log.warning("%s was not trained on faces from `agecli preprocess`: the default alignment may not suit it", model)
    return Alignment()


def _records(
    names: Iterator[str],
    crops: Callable[[str], list[Crop] | Record],
    model: AgeModel,
    readout: Readout,
    calibration: Calibration | None,
    device: torch.device,
    batch_size: int,
) -> Iterator[Record]:
    """Photos are taken until their faces fill a batch; the records come in the photos' order."""
    waiting: list[Crop | Record] = []
    while some := list(islice(names, batch_size)):
        for name in some:
            found = crops(name)
            waiting += [found] if isinstance(found, Record) else found
        faces = [item for item in waiting if isinstance(item, Crop)]
        said = iter(
            [
                record
                for start in range(0, len(faces), batch_size)
                for record in _ask(model, faces[start : start + batch_size], readout, calibration, device)
            ]
        )
        for item in waiting:
            yield next(said) if isinstance(item, Crop) else item
        waiting = []


def _whole_picture(name: str, spec: PictureSpec) -> list[Crop] | Record:
    """The whole picture as one face: it was cropped before."""
    try:
        image = read_picture(Path(name))
    except UnreadableError as error:
        return Record(name, status="unreadable", error=str(error))
    return [Crop(name, 0, (0, 0, image.width, image.height), None, _cut(image, spec))]


def _faces(name: str, spec: PictureSpec, alignment: Alignment, detector: str, largest: bool) -> list[Crop] | Record:
    """Every face of a photo, aligned as the model knows faces."""
    try:
        image = read_picture(Path(name))
    except UnreadableError as error:
        return Record(name, status="unreadable", error=str(error))
    photo: Photo = np.asarray(image)
    try:
        faces = [face for face in find_faces(photo, detector, close=not largest) if face.left_eye != face.right_eye]
    except (RuntimeError, MemoryError, cv2.error) as error:  # dlib and OpenCV, on pictures of odd shapes
        return Record(name, status="unreadable", error=f"the detector failed on it: {error}")
    if not faces:
        return Record(name, status="no_face", error="no face was found")
    crops = []
    for number, face in enumerate(faces[:1] if largest else faces):
        crop = Image.fromarray(align(photo, face.left_eye, face.right_eye, alignment))
        x, y, w, h = (round(value) for value in face.box)
        crops.append(Crop(name, number, (x, y, w, h), face.score, _cut(crop, spec)))
    return crops


def _cut(image: Image.Image, spec: PictureSpec) -> Pixels:
    return to_pixels(centre_crop(resize(image, spec), spec))


def _ask(
    model: AgeModel, crops: Sequence[Crop], readout: Readout, calibration: Calibration | None, device: torch.device
) -> list[Record]:
    pixels = torch.from_numpy(np.stack([crop.pixels for crop in crops]))
    with torch.inference_mode():
        pmf = model(to_device(pixels, device)).float().cpu().numpy()
    grid = model.forest.grid
    age = ages.read(pmf, readout, grid)
    low, high = interval(pmf, grid, calibration)
    columns = (
        age,
        ages.std(pmf, grid),
        np.minimum(low, age),
        np.maximum(high, age),
    )  # whatever the readout, it lies inside
    kind = "conformal" if calibration else "mixture"
    records = []
    for crop, row in zip(crops, np.stack(columns, axis=1).tolist(), strict=True):
        years, std, lowest, highest = (round(number, 2) for number in row)
        records.append(
            Record(
                crop.source,
                "ok",
                crop.face,
                years,
                std,
                lowest,
                highest,
                COVERAGE,
                crop.box,
                crop.score,
                interval=kind,
            )
        )
    return records
