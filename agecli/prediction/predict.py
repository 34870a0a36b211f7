"""Prediction: photos in, a record for each face out, in the order of the photos."""

from __future__ import annotations

from pathlib import Path

from agecli.core.worker_process import Limits
from agecli.prediction.estimator import open_model
from agecli.prediction.inputs import Images
from agecli.prediction.options import OVER_CONFIDENCE, Options
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
    over: float | None = None,
    over_confidence: float = OVER_CONFIDENCE,
    distribution: bool = False,
    every: float | str = "1s",
    per_person: bool = False,
    videos: bool = False,
    draw: str | Path | None = None,
    device: str = "auto",
    batch_size: int = 32,
    workers: int = 1,
    max_memory: float | None = None,
    timeout: float | None = None,
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
    over: an age in years; records get P(age >= over) as `p_over`, and a `decision`: "over" if it is at least
        `over_confidence`, else "challenge" (ask for a proof of age).
    distribution: add the probability of each year of age to the records.
    every: time between two frames of a video: "1s", "500ms", "2m", or seconds.
    per_person: videos give one record for each person, pooled over its frames, instead of one for each frame and face.
    videos: predict the videos in folders, too; those that are named are predicted in any case.
    draw: a folder for copies of the photos with boxes and ages on them; it is not searched for photos.
    batch_size: faces per batch.   workers: processes that read photos and find faces.
    max_memory, timeout: most GB for a process and seconds for a photo; a photo beyond either, or one that crashes its
        process, gets a record with the status "crashed". With None for both and one worker, photos are read in this
        process, which such a photo ends.
    null: names in lists and on stdin end with a null byte.

    Returns an iterator of Records, at least one per photo, with a method to save them: `.save("ages.csv", resume=True)`.
    Raises InputError or MissingError for options that cannot be used. A photo that cannot be read is no error but a
    record with another status than "ok".

    Example: `for record in agecli.predict("photo.jpg"): print(record.age, record.low, record.high)`
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
    estimator = open_model(model, device)
    return Predictions(
        estimator.predictor,
        estimator.model,
        photos,
        options,
        batch_size=batch_size,
        workers=workers,
        limits=Limits.of(max_memory, timeout),
        null=null,
        videos=videos,
        draw=draw,
    )
