"""Drawn videos: every frame of a video with its faces marked, whose boxes move between the frames that were predicted."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image

from agecli.core.records import Box, Record
from agecli.core.worker_process import keep_alive
from agecli.images.video import VideoFile, frame_rate, frames
from agecli.prediction.marking import Held, mark_faces

Moment = dict[int, Record]  # the records of one frame by their tracks


def draw_video(source: str, records: Sequence[Record], path: Path, every: float) -> None:
    """Write an MP4 video of the same size and frame rate, without sound.

    records: of the whole video, with tracks, in order;   every: seconds between two predicted frames.
    Raises UnreadableError if the video can't be read, OSError if the drawing can't be written.
    """
    faces = FacesInTime(records, every)
    held: dict[int, Held] = {}
    with VideoFile(path, frame_rate(source)) as video:
        for frame in frames(source, 0.0):
            photo = Image.fromarray(frame.photo)
            mark_faces(photo, faces.at(frame.time), held)
            video.write(np.asarray(photo))
            keep_alive()


class FacesInTime:
    """The faces of a video at any time: between two predicted frames, boxes are interpolated.

    A face that is in one of the two frames only is shown in the half of the time that is nearer to it.
    """

    def __init__(self, records: Sequence[Record], every: float) -> None:
        moments: dict[float, Moment] = {}
        for record in records:
            moment = moments.setdefault(record.time or 0.0, {})
            if record.track is not None:
                moment[record.track] = record
        self.times, self.moments, self.every = list(moments), list(moments.values()), every

    def at(self, time: float) -> list[Record]:
        """The records at a time in seconds, with their boxes there, in the order of their tracks."""
        after = bisect_right(self.times, time + 1e-6)
        before = after - 1
        if before < 0:
            return []
        if after == len(self.times):  # the last predicted frame
            return list(self.moments[before].values()) if time - self.times[before] < self.every else []
        share = (time - self.times[before]) / (self.times[after] - self.times[before])
        old, new = self.moments[before], self.moments[after]
        both = {track: _between(old[track], new[track], share) for track in old.keys() & new.keys()}
        alone = {track: record for track, record in (old if share < 0.5 else new).items() if track not in both}
        shown = both | alone
        return [shown[track] for track in sorted(shown)]


def _between(old: Record, new: Record, share: float) -> Record:
    """The older record, with its box moved by a share of the way to the newer one."""
    if old.box is None or new.box is None:
        return old
    x, y, w, h = (round(a + share * (b - a)) for a, b in zip(old.box, new.box, strict=True))
    box: Box = (x, y, w, h)
    return replace(old, box=box)
