"""Videos decoded in a process of their own, with its limits: a hostile video costs its own frames only."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import islice

import cv2

from agecli.core.futures import result
from agecli.core.worker_process import Limits
from agecli.core.workers import CrashedError, Workers
from agecli.images.reading import UnreadableError
from agecli.images.video import Frame, count_frames, frames


@dataclass(frozen=True)
class FrameRequest:
    """The next frame of a video."""

    source: str
    every: float  # seconds between two frames
    start: int  # how many frames were given before


class VideoReader:
    """Reads videos in a worker process, which is started for the first video. Close it, or use it as a context manager.

    limits: memory of the process and seconds for a frame.   isolated: False reads in this process.

        with VideoReader(Limits(memory=10**9, seconds=60)) as videos:
            for frame in videos.frames("clip.mp4", 0.5): ...
    """

    def __init__(self, limits: Limits | None = None, isolated: bool = True) -> None:
        self.limits, self.isolated = limits, isolated
        self.workers: Workers | None = None

    def __enter__(self) -> VideoReader:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        if self.workers is not None:
            self.workers.close()
            self.workers = None

    def frames(self, name: str, every: float) -> Iterator[Frame]:
        """As `video.frames`; one frame is decoded ahead. Also raises CrashedError, for a video that ends its process."""
        if not self.isolated:
            yield from frames(name, every)
            return
        coming = self._submit(name, every, 0)
        start = 1
        while (frame := result(coming)) is not None:
            coming = self._submit(name, every, start)
            start += 1
            yield frame

    def count(self, name: str, every: float) -> int:
        """As `video.count_frames`."""
        if not self.isolated:
            return count_frames(name, every)
        try:
            return result(self._process().submit(_count, FrameRequest(name, every, 0)))
        except CrashedError:
            return 1

    def _submit(self, name: str, every: float, start: int) -> Future[Frame | None]:
        return self._process().submit(next_frame, FrameRequest(name, every, start))

    def _process(self) -> Workers:
        if self.workers is None:
            self.workers = Workers(1, self.limits)
        return self.workers


# In the worker process

_source: tuple[str, float] | None = None  # the video that is open
_given = 0  # frames of it that were given
_frames: Iterator[Frame] = iter(())  # the others


def next_frame(request: FrameRequest) -> Frame | None:
    """The frame after the first `start` ones; None at the end of the video.

    The video stays open for the next request. A process that replaces a crashed one decodes from the beginning.
    Raises what `video.frames` raises.
    """
    global _source, _given, _frames
    if (_source, _given) != ((request.source, request.every), request.start):
        _frames = islice(frames(request.source, request.every), request.start, None)
        _source, _given = (request.source, request.every), request.start
    try:
        frame = next(_frames, None)
    except cv2.error as error:
        if error.code == cv2.Error.StsNoMem:
            raise MemoryError(str(error)) from error
        raise UnreadableError(f"it is damaged: {error}") from error
    _given += 1
    return frame


def _count(request: FrameRequest) -> int:
    return count_frames(request.source, request.every)
