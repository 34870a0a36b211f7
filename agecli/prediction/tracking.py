"""Tracking: faces followed from frame to frame of a video, by overlap with where they are expected; no recognition.

A face is expected where its last velocity takes it. Detections are matched first by the IoU of their box with that place,
the best pairs first, and then, for faces that move fast between two frames, by the distance from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from agecli.core.records import Box, Record

LEAST_IOU = 0.2
REACH = 0.7, 0.9  # how far a face may be from where it is expected, in face widths: at once, and more for each second
MOST_REACH = 2.0  # face widths
MOST_RATIO = 1.8  # of the sizes of one face in two frames that are matched by distance
PATIENCE = 2.0  # seconds that a face may be hidden; at least as long as MISSES frames
MISSES = 2.5
NEW_VELOCITY = 0.7  # weight of the last step in the velocity
Vectors = NDArray[np.float64]


@dataclass
class Track:
    """A face that is followed."""

    number: int
    centre: Vectors  # (2,), pixels, where it was seen last
    size: Vectors  # (2,), width and height
    velocity: Vectors  # (2,), pixels per second
    seen: float  # seconds
    frames: int = 1

    def expected(self, time: float) -> Vectors:
        """The box at a time: left, top, right, bottom."""
        centre = self.centre + self.velocity * (time - self.seen)
        return np.concatenate((centre - self.size / 2, centre + self.size / 2))

    def see(self, time: float, centre: Vectors, size: Vectors) -> None:
        """Move to a detection."""
        step = (centre - self.centre) / max(time - self.seen, 1e-6)
        share = NEW_VELOCITY if self.frames > 1 else 1.0
        self.velocity = share * step + (1 - share) * self.velocity
        self.centre, self.size, self.seen, self.frames = centre, size, time, self.frames + 1


class Tracker:
    """Numbers the faces of one video: 0, 1, … in the order in which they appear.

    tracker = Tracker()
    for time, boxes in frames:
        numbers = tracker.update(time, boxes)
    """

    def __init__(self) -> None:
        self.tracks: list[Track] = []  # that may still be seen again
        self.count = 0
        self.time: float | None = None

    def update(self, time: float, boxes: Sequence[Box]) -> list[int]:
        """The track of each face of the next frame.

        time: seconds from the start, later than the last one;   boxes: x, y, width and height of the faces.
        """
        gap = 0.0 if self.time is None else time - self.time
        self.time = time
        patience = max(PATIENCE, MISSES * gap)
        self.tracks = [track for track in self.tracks if time - track.seen <= patience]
        sizes = np.array([box[2:] for box in boxes], float).reshape(-1, 2)
        centres = np.array([box[:2] for box in boxes], float).reshape(-1, 2) + sizes / 2
        found = self._match(time, centres, sizes)
        numbers = []
        for index in range(len(boxes)):
            if index in found:
                found[index].see(time, centres[index], sizes[index])
                numbers.append(found[index].number)
            else:
                numbers.append(self.count)
                self.tracks.append(Track(self.count, centres[index], sizes[index], np.zeros(2), time))
                self.count += 1
        return numbers

    def _match(self, time: float, centres: Vectors, sizes: Vectors) -> dict[int, Track]:
        """The track of each detection that has one, by the position of the detection."""
        if not self.tracks or not len(centres):
            return {}
        expected = np.array([track.expected(time) for track in self.tracks])  # (T, 4)
        overlap = iou(expected, np.concatenate((centres - sizes / 2, centres + sizes / 2), axis=1))  # (T, n)
        distance = self._distance(time, expected, centres, sizes)
        found: dict[int, Track] = {}
        for cost, most in ((1 - overlap, 1 - LEAST_IOU), (distance, 1.0)):
            for place in np.argsort(cost, axis=None, kind="stable"):
                row, column = divmod(int(place), len(centres))
                if cost[row, column] > most:
                    break
                if column not in found and not any(track is self.tracks[row] for track in found.values()):
                    found[column] = self.tracks[row]
        return found

    def _distance(self, time: float, expected: Vectors, centres: Vectors, sizes: Vectors) -> Vectors:
        """Distances of detections from where tracks are expected, in units of the reach; infinite for other sizes.   (T, n)"""
        before = np.array([track.size for track in self.tracks])
        width = np.sqrt(before.prod(-1))[:, None] / 2 + np.sqrt(sizes.prod(-1))[None] / 2  # the mean of both
        hidden = time - np.array([track.seen for track in self.tracks])
        reach = np.minimum(MOST_REACH, REACH[0] + REACH[1] * hidden)[:, None] * np.maximum(width, 1e-6)
        away = np.linalg.norm((expected[:, None, :2] + expected[:, None, 2:]) / 2 - centres[None], axis=-1)
        ratio = (
            np.abs(np.log(np.maximum(before.prod(-1), 1))[:, None] - np.log(np.maximum(sizes.prod(-1), 1))[None]) / 2
        )
        return np.where(ratio <= np.log(MOST_RATIO), away / reach, np.inf)


def iou(a: Vectors, b: Vectors) -> Vectors:
    """Intersection over union of boxes given as left, top, right, bottom.   (T, 4), (n, 4) -> (T, n)"""
    low, high = np.maximum(a[:, None, :2], b[None, :, :2]), np.minimum(a[:, None, 2:], b[None, :, 2:])
    common = np.clip(high - low, 0, None).prod(-1)
    areas = [(boxes[:, 2:] - boxes[:, :2]).prod(-1) for boxes in (a, b)]
    return np.asarray(common / np.maximum(areas[0][:, None] + areas[1][None] - common, 1e-9))


def frames_of(records: Iterable[Record]) -> Iterator[list[Record]]:
    """The records in lists: all those of a frame of a video; those of photos, at once, alone."""
    frame: list[Record] = []
    for record in records:
        if frame and not record.face:  # the first record of another photo or frame
            yield frame
            frame = []
        if record.time is None:
            yield [record]
        else:
            frame.append(record)
    if frame:
        yield frame


def is_next_frame(record: Record, last: Record | None) -> bool:
    """Whether a record is of a later frame of the video that the record before is of."""
    if last is None or last.time is None or record.time is None:
        return False
    return record.source == last.source and record.time > last.time


def follow(records: Iterable[Record]) -> Iterator[Record]:
    """The same records, with `track` set in those of videos. They are passed on frame by frame."""
    tracker = Tracker()
    last: Record | None = None
    for frame in frames_of(records):
        first = frame[0]
        if not is_next_frame(first, last):
            tracker = Tracker()
        last = first
        if first.time is None or first.box is None:
            yield from frame
            continue
        numbers = tracker.update(first.time, [record.box or (0, 0, 0, 0) for record in frame])
        yield from (replace(record, track=number) for record, number in zip(frame, numbers, strict=True))
