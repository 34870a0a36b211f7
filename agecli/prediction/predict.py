"""Prediction: photos in, a record for each face out, in the order of the photos."""

from __future__ import annotations

from pathlib import Path

from agecli.prediction.estimator import load
from agecli.prediction.inputs import Images
from agecli.prediction.options import Options
from agecli.prediction.predictions import Predictions


def predict(
    photos: Images,
    *,
    model: str | Path | None = None,
    no_detect: bool = False,
    detector: str = "auto",
    largest: bool = False,
    min_face: int = 0,
    min_score: float | None = None,
    looks: str = "auto",
    readout: str | None = None,
    abstain_above: float | None = None,
    distribution: bool = False,
    every: float | str = "1s",
    draw: str | Path | None = None,
    device: str = "auto",
    batch_size: int = 32,
    workers: int = 1,
    null: bool = False,
) -> Predictions:
    """Find all faces in photos and videos and estimate their ages.

    photos: file names, folders, globs, "@list" (a file of names), "-" (names on stdin), PIL images, or arrays
        (H, W, 3) of RGB in uint8; one of them or an iterable.
    model, device: as in `agecli.load`.
    no_detect: the photos are aligned faces already.   detector: auto, yunet-dlib, yunet, hog, cnn or haar.
    largest: only the main face of each photo (large and central).   min_face: leave out smaller faces, in pixels.
    min_score: leave out faces with a lower detector score, 0 to 1.
    looks: how closely large photos are searched for small faces: "auto", "fast" (at 192 pixels only) or "closer".
    readout: mean, median or mode of the distribution; None is what the model was trained for.
    abstain_above: set `abstain` in records whose interval is wider, in years.
    distribution: add the probability of each year of age to the records.
    every: time between two frames of a video: "1s", "500ms", "2m", or seconds.
    draw: a folder for copies of the photos with boxes and ages on them; it is not searched for photos.
    batch_size: faces per batch.   workers: processes that read photos and find faces.
    null: names in lists and on stdin end with a null byte.

    Returns an iterator of Records, at least one per photo, with a method to save them: `.save("ages.csv", resume=True)`.
    Raises InputError or MissingError for options that cannot be used. A photo that cannot be read is no error but a
    record with another status than "ok".

    Example: `for record in agecli.predict("photo.jpg"): print(record.age, record.low, record.high)`
    """
    options = Options(
        no_detect, detector, largest, min_face, min_score, readout, abstain_above, distribution, every, looks=looks
    )
    estimator = load(model, device)
    return Predictions(
        estimator.predictor,
        estimator.model,
        photos,
        options,
        batch_size=batch_size,
        workers=workers,
        null=null,
        draw=draw,
    )
