"""Inputs of a prediction: file names, members of archives, PIL images and numpy arrays, alone or in any iterable."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from agecli.core.errors import InputError
from agecli.images.containers import load, open_member
from agecli.images.crops import FaceCropper, PhotoFaces, photos_and_frames
from agecli.images.isolated_video import VideoReader
from agecli.images.members import Blob, Member
from agecli.images.reading import Pixels, UnreadableError, upright_rgb
from agecli.images.remote import fetched
from agecli.images.video import Frame
from agecli.prediction.paths import SkippedVideos, expand
from agecli.prediction.standard_input import NAME, StoredPicture, picture_or_names

ImageLike = str | os.PathLike[str] | Image.Image | NDArray[Any] | Member
Images = ImageLike | Iterable[ImageLike]


@dataclass(frozen=True)
class Picture:
    """A picture in memory."""

    source: str  # its name in the records
    pixels: Pixels  # (H, W, 3), RGB, upright


class Listed(str):
    """A file name or an address that is not expanded any more."""


# a file name or address, a member of an archive, a picture in memory or from stdin, or the record of one that failed
Input = str | Member | Picture | StoredPicture | PhotoFaces
Item = str | Member | Blob | Frame | Picture | StoredPicture | PhotoFaces  # what a worker processes at a time


@dataclass(frozen=True)
class InputCropper:
    """Finds and cuts the faces of one input. Plain data, because it is sent to worker processes."""

    cropper: FaceCropper

    def __call__(self, item: Item) -> PhotoFaces:
        """The faces of a file, a video frame or a picture in memory."""
        if isinstance(item, Picture):
            return self.cropper.crop(item.source, Image.fromarray(item.pixels))
        if isinstance(item, StoredPicture):
            return replace(self.cropper(item.path), source=item.source)
        if isinstance(item, (Member, Blob)):
            return self._encoded(item)
        return self.cropper(item)

    def _encoded(self, item: Member | Blob) -> PhotoFaces:
        """The faces of a picture in an archive, or whose bytes are given."""
        try:
            if item.error:
                raise UnreadableError(item.error)
            data = open_member(item) if isinstance(item, Member) else io.BytesIO(item.data)
            return self.cropper.crop_file(item.source, data)
        except UnreadableError as error:
            return PhotoFaces(item.source, status="unreadable", error=str(error))


def read_inputs(
    images: Images,
    null: bool = False,
    skip: str | Path | None = None,
    videos: bool = False,
    stdin: BinaryIO | None = None,
) -> Iterator[Input]:
    """One input after the other, without reading ahead.

    images: file names, folders, globs, "@list" and "-" (see `paths.expand`), PIL images, or arrays (H, W, 3) of RGB
    in uint8; one of them or an iterable.   null: names in lists end with a null byte.   skip: a folder to leave out.
    videos: those in folders, too; otherwise a warning counts them.   stdin: a binary stream, None for standard input.
    "-" is one picture or a list of names (see `standard_input`).

    A PIL image that was opened from a file keeps its file name as `source`; other pictures are called "image 0",
    "image 1", … by their position. Raises InputError for anything else.
    """
    alone = isinstance(images, (str, os.PathLike, Image.Image, np.ndarray))
    skipped = SkippedVideos() if not videos else None
    for number, image in enumerate([images] if alone else images):  # type: ignore[arg-type]
        if isinstance(image, Listed | Member):
            yield image
        elif isinstance(image, str) and image == NAME:
            found = picture_or_names(stdin or sys.stdin.buffer)
            if isinstance(found, (PhotoFaces, StoredPicture)):
                yield found
            else:
                yield from expand([NAME], null, found, skip, skipped)
        elif isinstance(image, (str, os.PathLike)):
            yield from expand([os.fspath(image)], null, skip=skip, skipped=skipped)
        elif isinstance(image, Image.Image):
            yield _from_pil(image, f"image {number}")
        else:
            check_rgb(image, f"image {number}")
            yield Picture(f"image {number}", np.array(image, order="C"))  # a copy: the caller may reuse its buffer
    if skipped:
        skipped.warn()


def read_items(inputs: Iterable[Input], every: float, videos: VideoReader) -> Iterator[Item]:
    """What `InputCropper` takes: photos by their names, the frames of videos (`every` seconds), pictures as they are."""
    for item, data in fetched(_loaded(inputs)):
        if isinstance(item, str) and data is None:
            yield from photos_and_frames([item], every, videos)
        elif isinstance(item, str):
            failed = isinstance(data, UnreadableError)
            yield PhotoFaces(item, status="unreadable", error=str(data)) if failed else Blob(item, data)  # type: ignore[arg-type]
        else:
            yield item


def _loaded(inputs: Iterable[Input]) -> Iterator[Input | Blob]:
    """The same inputs; members that worker processes can't read by themselves with their bytes."""
    for inside, group in groupby(inputs, key=lambda item: isinstance(item, Member)):
        yield from load(cast("Iterator[Member]", group)) if inside else group  # noqa: B031 (one of both)


def crashed_photo(item: Item, reason: str) -> PhotoFaces:
    """The result of an item whose worker process crashed or exceeded a limit."""
    if isinstance(item, str):
        return PhotoFaces(item, status="crashed", error=reason)
    return PhotoFaces(item.source, status="crashed", error=reason, time=item.time if isinstance(item, Frame) else None)


def names_only(inputs: Iterable[Input], purpose: str) -> Iterator[str]:
    """The same inputs, all of them file names. Raises InputError at the first picture in memory.

    purpose: the option that needs files, for the message.
    """
    for item in inputs:
        if not isinstance(item, str):
            place = "in an archive" if isinstance(item, Member) else "in memory"
            raise InputError(f"{purpose} needs files, and `{item.source}` is {place}", hint="pass file names instead")
        yield item


def stored_only(inputs: Iterable[Input], purpose: str) -> Iterator[str | Member]:
    """The same inputs, all of them file names, addresses or members. Raises InputError at the first picture in memory."""
    for item in inputs:
        yield item if isinstance(item, Member) else next(names_only([item], purpose))


def source_of(item: str | Member) -> str:
    """The name of an input in the records."""
    return item if isinstance(item, str) else item.source


def check_rgb(image: Any, name: str, batch: bool = False) -> None:
    """Raises InputError unless `image` is an RGB array in uint8: (H, W, 3), or (n, H, W, 3) with `batch`.

    name: what the message calls it.
    """
    shape = "(n, H, W, 3)" if batch else "(H, W, 3)"
    if not isinstance(image, np.ndarray):
        raise InputError(
            f"{name} is a {type(image).__name__}",
            hint=f"pass a file name, a PIL image, or a numpy array of shape {shape}",
        )
    if image.dtype != np.uint8 or image.ndim != 3 + batch or image.shape[-1] != 3 or 0 in image.shape[-3:]:
        raise InputError(
            f"{name} is an array of shape {image.shape} and type {image.dtype}",
            hint=f"pass RGB values as uint8 (0 to 255) in shape {shape}",
        )


def _from_pil(image: Image.Image, default: str) -> Picture | PhotoFaces:
    """Decoded, upright and in RGB, as a file would be."""
    name = getattr(image, "filename", None)
    source = name if isinstance(name, str) and name else default
    try:
        return Picture(source, np.asarray(upright_rgb(image), dtype=np.uint8))
    except Exception as error:  # a damaged file can raise almost anything inside its decoder
        return PhotoFaces(source, status="unreadable", error=f"it is damaged: {error}")
