"""Counting: how many photos and frames a prediction has before it, for the time left."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from agecli.images.members import kind_of_container
from agecli.images.remote import is_url
from agecli.images.video import count_frames, is_video
from agecli.prediction.inputs import Images, source_of
from agecli.prediction.paths import SkippedVideos, expand


def count_items(
    images: Images,
    null: bool,
    skip: str | Path | None,
    videos: bool,
    every: float,
    done: int = 0,
    count: Callable[[str, float], int] = count_frames,
) -> int | None:
    """The photos and frames of some inputs, or None if they can't be counted without waiting: iterators, and "-".

    images, null, skip, videos: as in `inputs.read_inputs`;   every: seconds between two frames;   done: the number of
    first inputs that are left out;   count: the frames of a video, from its name and `every`.

    Example: `count_items(["photos/", "film.mp4"], False, None, False, 1.0)`
    """
    alone = isinstance(images, (str, os.PathLike, Image.Image, np.ndarray))
    given: Any = [images] if alone else images
    if not isinstance(given, Sequence) or any(_must_wait(image) for image in given):
        return None
    names = _names(given, null, skip, None if videos else SkippedVideos())
    return sum(count(name, every) if is_video(name) else 1 for name in islice(names, done, None))


def _must_wait(image: Any) -> bool:
    """Whether an input is read from a stream, an archive or an address."""
    if not isinstance(image, str):
        return False
    return (
        image == "-"
        or is_url(image)
        or kind_of_container(image) is not None
        or (image.startswith("@") and not os.path.exists(image) and not os.path.isfile(image[1:]))
    )


def _names(given: Sequence[Any], null: bool, skip: str | Path | None, skipped: SkippedVideos | None) -> Iterator[str]:
    """A name for each input; empty for pictures in memory."""
    for image in given:
        if isinstance(image, (str, os.PathLike)):
            yield from map(source_of, expand([os.fspath(image)], null, None, skip, skipped))
        else:
            yield ""
