"""Records: a labelled face (`Sample`, what goes into training) and a prediction (`Record`, what `predict` gives)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Box = tuple[int, int, int, int]  # x, y, width, height in pixels of the upright photo
SCHEMA = 1  # of a prediction record as JSON or CSV
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
    "track",
    "eyes",
    "sharpness",
)
OPTIONAL_COLUMNS = (
    "frames",
    "first",
    "last",
    "abstain",
    "shift",
    "over",
    "p_over",
    "decision",
    "distribution",
)  # only if they were requested, or the model tells them


@dataclass(frozen=True)
class Sample:
    """One labelled face. Unknown values are empty."""

    path: str  # relative to the manifest
    age: float  # years
    subject: str = ""
    sex: str = ""
    race: str = ""
    split: str = ""
    rank: str = ""
    source: str = ""  # the photo it was cut from, relative to the original data set
    weight: float = 1.0  # how often it is drawn in training, relative to other faces


@dataclass(frozen=True)
class Record:
    """The prediction for one face; or, with another status than "ok", why a photo has none.

    Ages are in years. Fields without a value are None. Every photo gives at least one record.

    Example: `for record in agecli.predict("photos/"): print(record.source, record.age, record.low, record.high)`
    """

    source: str  # file name as it was given; "image 0", "image 1", … for pictures in memory
    status: str = "ok"  # ok, no_face, unreadable or crashed
    face: int | None = None  # 0, 1, … by size, largest first
    age: float | None = None  # point estimate: mean, median or mode of the distribution
    std: float | None = None  # standard deviation of the distribution
    low: float | None = None  # lower end of the prediction interval
    high: float | None = None  # upper end of the prediction interval
    coverage: float | None = None  # nominal coverage of the interval, 0.9
    box: Box | None = None  # x, y, width, height in pixels of the upright photo
    score: float | None = None  # confidence of the face detector
    error: str | None = None  # the reason, if the status is not ok
    interval: str | None = None  # conformal: calibrated; mixture: uncalibrated quantiles of the distribution
    time: float | None = None  # seconds from the start of a video
    track: int | None = None  # 0, 1, …: the same face in all frames of a video
    frames: int | None = None  # of a video in which a person was seen (`per_person`)
    first: float | None = None  # when a person was first seen, in seconds
    last: float | None = None  # when a person was last seen, in seconds
    eyes: float | None = None  # distance between the pupils, in pixels of the photo
    sharpness: float | None = None  # of the aligned face (`agecli.images.quality.sharpness`)
    abstain: bool | None = None  # whether the interval is wider than `abstain_above`
    shift: float | None = None  # how unlike the calibration faces it looks: above 1 for one in a hundred of those
    over: float | None = None  # the age of `over`, in years
    p_over: float | None = None  # predicted probability that the person is that old
    decision: str | None = None  # over: p_over is at least `over_confidence`; challenge: ask for a proof of age
    distribution: list[float] | None = None  # probability of each age in whole years, from 0 on

    def row(self) -> dict[str, Any]:
        """The record as JSON has it: `schema` and all fields; `OPTIONAL_COLUMNS` only if they have a value."""
        optional = {name: getattr(self, name) for name in OPTIONAL_COLUMNS if getattr(self, name) is not None}
        return {"schema": SCHEMA, **{name: getattr(self, name) for name in RECORD_COLUMNS[1:]}, **optional}
