"""The estimator: a model that stays in memory, for programs that predict more than once."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from PIL import Image

from agecli.core.records import Record
from agecli.core.worker_process import Limits
from agecli.images.quality import sharpness
from agecli.images.reading import Pixels, cut
from agecli.model.bundled import to_run
from agecli.model.card import Card
from agecli.model.predictors import Predictor, load_predictor
from agecli.prediction.estimation import estimate
from agecli.prediction.inputs import Images, check_rgb
from agecli.prediction.options import OVER_CONFIDENCE, Options, check_batch_size
from agecli.prediction.predictions import Predictions

log = logging.getLogger("agecli")


@dataclass(frozen=True)
class Estimator:
    """A loaded model. Made by `agecli.load`.

    estimator = agecli.load()
    for record in estimator.predict(["a.jpg", Image.open("b.png"), array]):
        print(record.age, record.low, record.high)
    """

    predictor: Predictor
    model: Path  # the file it was loaded from

    @property
    def card(self) -> Card:
        """What the model file says of itself: input size, age grid, alignment, calibration."""
        return self.predictor.card

    def predict(
        self,
        images: Images,
        *,
        no_detect: bool = False,
        detector: str = "auto",
        largest: bool = False,
        min_face: int = 0,
        min_score: float | None = None,
        looks: str = "auto",
        readout: str | None = None,
        abstain_above: float | None = None,
        over: float | None = None,
        over_confidence: float = OVER_CONFIDENCE,
        distribution: bool = False,
        every: float | str = "1s",
        per_person: bool = False,
        videos: bool = False,
        draw: str | Path | None = None,
        batch_size: int = 32,
        workers: int = 1,
        max_memory: float | None = None,
        timeout: float | None = None,
        null: bool = False,
    ) -> Predictions:
        """Find all faces in the images and estimate their ages. `agecli.predict` explains the arguments.

        images: one image or an iterable of them: file names, folders, globs, PIL images, or arrays (H, W, 3) of RGB in
            uint8. Pictures in memory are called "image 0", "image 1", … in the records, by their position.
        Returns an iterator of Records with a `save` method.

        Example: `ages = [record.age for record in estimator.predict(frames, largest=True)]`
        """
        options = Options(
            no_detect=no_detect,
            detector=detector,
            largest=largest,
            min_face=min_face,
            min_score=min_score,
            readout=readout,
            abstain_above=abstain_above,
            over=over,
            over_confidence=over_confidence,
            distribution=distribution,
            every=every,
            per_person=per_person,
            looks=looks,
        )
        return Predictions(
            self.predictor,
            self.model,
            images,
            options,
            batch_size=batch_size,
            workers=workers,
            limits=Limits.of(max_memory, timeout),
            null=null,
            videos=videos,
            draw=draw,
        )

    def predict_crops(
        self,
        crops: Pixels,
        *,
        readout: str | None = None,
        abstain_above: float | None = None,
        over: float | None = None,
        over_confidence: float = OVER_CONFIDENCE,
        distribution: bool = False,
        batch_size: int = 32,
    ) -> list[Record]:
        """Estimate the age of faces that are aligned already, as `agecli preprocess` aligns them. No face detection.

        crops: (n, H, W, 3) RGB, uint8, of any size: the central square of each is resized to the model's input.
        Returns n records, with the source "crop 0", "crop 1", … Raises InputError for another shape or type.

        Example: `estimator.predict_crops(np.stack(faces))[0].age`
        """
        options = Options(
            no_detect=True,
            readout=readout,
            abstain_above=abstain_above,
            over=over,
            over_confidence=over_confidence,
            distribution=distribution,
        )
        check_batch_size(batch_size)
        check_rgb(crops, "the batch of crops", batch=True)
        records: list[Record] = []
        for start in range(0, len(crops), batch_size):
            batch = crops[start : start + batch_size]
            pixels = np.stack([cut(Image.fromarray(crop), self.card.picture) for crop in batch])
            records += estimate(self.predictor, pixels, options)
        height, width = crops.shape[1:3]
        return [
            replace(record, source=f"crop {number}", face=0, box=(0, 0, width, height), sharpness=sharpness(crop))
            for number, (record, crop) in enumerate(zip(records, crops, strict=True))
        ]


def load(model: str | Path | None = None, device: str = "auto") -> Estimator:
    """Load a model into memory.

    model: a checkpoint (.safetensors) or an exported model (.onnx); None or "default" is the bundled model.
    device: auto, cpu, cuda, cuda:N or mps. ONNX files run on the CPU and need no torch; "auto" runs the bundled model
        as ONNX.

    Raises MissingError if the model or the device is not there, InputError if the file is no model or cannot run on
    the device.   Example: `agecli.load().predict("photo.jpg")`
    """
    estimator = open_model(model, device)
    estimator.predictor.load()
    return estimator


def open_model(model: str | Path | None = None, device: str = "auto") -> Estimator:
    """As `load`, but an ONNX network is loaded when it is first used: faces are searched meanwhile."""
    path = to_run(model, device)
    predictor = load_predictor(path, device)
    if predictor.card.calibration is None:
        log.warning("%s is not calibrated: its intervals are uncalibrated quantiles", path)
    return Estimator(predictor, path)
