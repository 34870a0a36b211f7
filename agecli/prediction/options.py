"""Options of a prediction: which faces are used, and what their records contain."""

from __future__ import annotations

from dataclasses import dataclass

from agecli.core.ages import READOUTS
from agecli.core.errors import InputError
from agecli.core.records import OPTIONAL_COLUMNS, RECORD_COLUMNS
from agecli.images.detection import check_detector, check_looks
from agecli.images.video import parse_every

OVER_CONFIDENCE = 0.95


@dataclass(frozen=True)
class Options:
    """All that the records depend on, beside the photos and the model. A resumed prediction must have the same.

    Raises InputError for values that cannot be used.   Example: `Options(largest=True, every="500ms")`
    """

    no_detect: bool = False  # the photos are aligned faces already, as `agecli preprocess` makes them
    detector: str = "auto"  # auto, yunet-dlib, yunet, hog, cnn or haar
    largest: bool = False  # only the main face of each photo (`face_finder.main_face`)
    min_face: int = 0  # pixels; faces whose box has a shorter side than this are left out
    min_score: float | None = None  # 0 to 1; faces with a lower detector score are left out
    readout: str | None = None  # point estimate: mean, median or mode; None is what the model was trained for
    abstain_above: float | None = None  # years; records with a wider interval have abstain=True
    over: float | None = None  # years; records have P(age >= over) and a decision
    over_confidence: float = (
        OVER_CONFIDENCE  # the decision is "over" if that probability is at least this, else "challenge"
    )
    distribution: bool = False  # records contain the probability of each year of age
    every: float | str = "1s"  # time between two frames of a video: "1s", "500ms", "2m", or seconds
    per_person: bool = False  # videos give one record for each person instead of one for each frame and face
    looks: str = "auto"  # how closely large photos are searched for small faces: auto, fast or closer

    def __post_init__(self) -> None:
        if self.readout is not None and self.readout not in READOUTS:
            raise InputError(f"unknown readout `{self.readout}`", hint=f"choose one of: {', '.join(READOUTS)}")
        check_detector(self.detector)
        check_looks(self.looks)
        if self.over is not None and not 0 < self.over <= 120:
            raise InputError(f"{self.over:g} is no age to check", hint="write an age in years, as in --over 18")
        if not 0 < self.over_confidence <= 1:
            raise InputError(
                f"{self.over_confidence:g} is no probability", hint="--over-confidence is above 0, at most 1"
            )
        parse_every(str(self.every))

    @property
    def seconds(self) -> float:
        """The time between two frames of a video, in seconds."""
        return parse_every(str(self.every))

    def columns(self, shift: bool) -> tuple[str, ...]:
        """The fields of the records, in the order of files.   shift: whether the model has a shift reference"""
        persons = dict.fromkeys(("frames", "first", "last"), self.per_person)
        checks = dict.fromkeys(("over", "p_over", "decision"), self.over is not None)
        single = {"abstain": self.abstain_above is not None, "shift": shift, "distribution": self.distribution}
        requested = {**persons, **checks, **single}
        return (*RECORD_COLUMNS, *(name for name in OPTIONAL_COLUMNS if requested[name]))


def check_batch_size(batch_size: int) -> None:
    """Raises InputError for a batch size below 1."""
    if batch_size < 1:
        raise InputError(f"batch size {batch_size} is too small", hint="--batch-size must be at least 1")
