"""One record per person of a video: the distributions of the frames of a track, averaged, and the interval of that.

The average is that of the probabilities (a linear pool). The mean of their logarithms, or their product, would treat
frames as independent evidence: its interval narrows with every frame. But frames of one video share their errors (the same
light, pose and person), so that it would be overconfident; the average is never narrower than its frames agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from agecli.core.ages import Floats
from agecli.core.records import Record
from agecli.model.card import Card
from agecli.prediction.estimation import records_of
from agecli.prediction.options import Options
from agecli.prediction.tracking import frames_of, is_next_frame

ESTIMATES = ("age", "std", "low", "high", "abstain", "over", "p_over", "decision", "distribution")  # what is pooled
FULL_SIDE = 112  # pixels; a face larger than that tells a network no more


@dataclass
class _Person:
    """The sums over the frames of one track."""

    best: Record  # of the frame with the largest face
    pmf: Floats  # weighted sum
    weight: float
    frames: int
    last: float
    first: float


def pool(records: Iterable[Record], card: Card, options: Options) -> Iterator[Record]:
    """The records of photos as they are, and one record for each track of a video, when the video ends.

    records: in order, with `track` and `distribution`;   card: of the model;   options: of the records that are returned.
    A person has the number of its track as `face` and `track`, no `time`, the box of its largest face, and `frames`,
    `first` and `last`: in how many frames it was seen, and from when to when in seconds. A video in which no face was found is one
    record.
    """
    persons: dict[int, _Person] = {}
    count, last = 0, None
    for frame in frames_of(records):
        first = frame[0]
        if last is not None and not is_next_frame(first, last):
            yield from _video_records(last, count, persons, card, options)
            persons, count, last = {}, 0, None
        if first.time is None:
            yield from (
                replace(record, distribution=record.distribution if options.distribution else None) for record in frame
            )
            continue
        count, last = count + 1, first
        for record in frame:
            _add(persons, record, card)
    if last is not None:
        yield from _video_records(last, count, persons, card, options)


def _add(persons: dict[int, _Person], record: Record, card: Card) -> None:
    """Add a face to the sums of its track."""
    if record.track is None or record.distribution is None or record.time is None or record.box is None:
        return
    weight = min(FULL_SIDE, *record.box[2:]) ** 2.0
    pmf = weight * np.array(record.distribution[card.grid.low :])
    person = persons.get(record.track)
    if person is None:
        persons[record.track] = _Person(record, pmf, weight, 1, record.time, record.time)
        return
    if person.best.box is not None and min(record.box[2:]) > min(person.best.box[2:]):
        person.best = record
    person.pmf, person.weight = person.pmf + pmf, person.weight + weight
    person.frames, person.last = person.frames + 1, record.time


def _video_records(
    last: Record, count: int, persons: dict[int, _Person], card: Card, options: Options
) -> Iterator[Record]:
    """The records of the persons of one video, in the order in which they appeared.   count: its frames"""
    if not persons:
        error = (
            last.error if count == 1 or last.status != "no_face" else f"no face was found in any of its {count} frames"
        )
        yield Record(last.source, status=last.status, error=error)
        return
    pmf = np.stack([person.pmf / person.pmf.sum() for person in persons.values()])
    for record, (track, person) in zip(records_of(pmf, card, options), persons.items(), strict=True):
        yield replace(
            person.best,
            **{name: getattr(record, name) for name in ESTIMATES},
            face=track,
            track=track,
            time=None,
            frames=person.frames,
            first=person.first,
            last=person.last,
        )
