"""Videos: sample frames at a fixed interval."""

from __future__ import annotations

import errno
import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import cv2
import numpy as np

from agecli.core.errors import InputError
from agecli.core.worker_process import keep_alive
from agecli.images.alignment import Photo
from agecli.images.reading import UnreadableError, why_not_there

SUFFIXES = frozenset({".mp4", ".m4v", ".mov", ".avi", ".mkv", ".webm", ".mpg", ".mpeg", ".wmv"})
UNITS = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "min": 60.0}
os.environ.setdefault(
    "OPENCV_FFMPEG_LOGLEVEL", "-8"
)  # errors of a damaged video are reported by us, not printed by ffmpeg


@dataclass(frozen=True)
class Frame:
    """One frame of a video."""

    source: str
    time: float  # seconds from the start
    photo: Photo  # (H, W, 3), RGB


def is_video(name: str) -> bool:
    """Whether a name has the suffix of a video: `is_video("a.MP4")`."""
    return os.path.splitext(name)[1].lower() in SUFFIXES


def parse_every(text: str) -> float:
    """An interval as seconds, from `1s`, `500ms`, `2m` or plain seconds. Raises InputError for anything else, and for 0."""
    match = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*(ms|s|m|min|)\s*", text)
    seconds = float(match[1]) * UNITS[match[2]] if match else 0.0
    if seconds <= 0:
        raise InputError(f"--every {text} is not an interval", hint="write --every 1s, 500ms or 2m")
    return seconds


def count_frames(name: str, every: float) -> int:
    """About how many frames `frames` will give, by the header of the video; 1 if it has none that can be read."""
    if not os.path.isfile(name) or not _is_utf8(name):
        return 1
    video = cv2.VideoCapture(name)
    try:
        count, rate = video.get(cv2.CAP_PROP_FRAME_COUNT), video.get(cv2.CAP_PROP_FPS)
    finally:
        video.release()
    if not (0 < count < 1e9 and 0 < rate < 1e6):
        return 1
    return max(1, round(min(count, math.ceil(count / rate / every)) if every else count))


def frame_rate(name: str) -> float:
    """The frames per second of a video, by its header; 25 if it does not say, or something absurd."""
    video = cv2.VideoCapture(name)
    try:
        rate = float(video.get(cv2.CAP_PROP_FPS))
    finally:
        video.release()
    return rate if 0.1 <= rate <= 1000 else 25.0


class VideoFile:
    """An MP4 file that frames are written to, as (H, W, 3) arrays of RGB; the first one determines the size.

    path: a file name, with any ending;   rate: frames per second. Raises OSError if frames can't be written.

        with VideoFile(Path("out.mp4"), 25.0) as video:
            video.write(photo)
    """

    def __init__(self, path: Path, rate: float) -> None:
        self.path, self.rate, self.count = path, rate, 0
        self.temporary = path.with_name(f"{path.name}.mp4")  # OpenCV chooses the kind of file by the ending
        self.writer: cv2.VideoWriter | None = None

    def __enter__(self) -> VideoFile:
        return self

    def write(self, photo: Photo) -> None:
        """Append one frame."""
        height, width = photo.shape[:2]
        if self.writer is None:
            if not _is_utf8(str(self.temporary)):
                raise OSError("the name of its drawing is not UTF-8")
            self.writer = cv2.VideoWriter(
                str(self.temporary), cv2.VideoWriter.fourcc(*"mp4v"), self.rate, (width, height)
            )
            if not self.writer.isOpened():
                raise OSError(f"a video of {width} x {height} pixels can't be written")
        self.writer.write(np.ascontiguousarray(photo[:, :, ::-1]))
        self.count += 1

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        """Finish the file. OpenCV does not say if the disk is full, so that the frames are counted again."""
        try:
            if self.writer is not None:
                self.writer.release()
            if kind is None:
                written = count_frames(str(self.temporary), 0.0)
                if written != self.count:
                    raise OSError(errno.ENOSPC, f"only {written} of {self.count} frames were written")
                os.replace(self.temporary, self.path)
        finally:
            self.temporary.unlink(missing_ok=True)


def _is_utf8(name: str) -> bool:
    """Whether OpenCV can be given this name: it aborts the process for others."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def frames(name: str, every: float) -> Iterator[Frame]:
    """The first frame at or after 0, `every`, 2 `every`, … seconds; all frames if `every` is 0.

    Raises UnreadableError if the file is missing, a pipe, or not a video that OpenCV can decode.

        for frame in frames("clip.mp4", 0.5): ...
    """
    if not os.path.isfile(name):  # OpenCV would wait for a pipe
        there = os.path.exists(name)
        raise UnreadableError("it is no file but a device or a pipe" if there else why_not_there(Path(name)))
    if not _is_utf8(name):  # OpenCV would abort the process
        raise UnreadableError("its name is not UTF-8: rename it")
    video = cv2.VideoCapture(name)
    try:
        rate = video.get(cv2.CAP_PROP_FPS) or 25.0
        due, found = 0.0, 0
        for number in count():
            keep_alive()
            if not video.grab():
                break
            time = max(0.0, video.get(cv2.CAP_PROP_POS_MSEC) / 1000)
            if number and time <= 0:  # a container without timestamps
                time = number / rate
            if time + 1e-6 < due:
                continue
            good, photo = video.retrieve()
            if good:
                found += 1
                yield Frame(name, round(time, 3), np.asarray(photo[:, :, ::-1], dtype=np.uint8))
            if every:
                due = (time // every + 1) * every if time >= due + every else due + every
        if not found:
            raise UnreadableError("it is not a video, or of a kind that can't be read")
    finally:
        video.release()
