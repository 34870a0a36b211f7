"""Crops: the faces of a photo as inputs of a network. Worker processes run this."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

import cv2
import numpy as np
from PIL import Image

from agecli.core.records import Box
from agecli.core.workers import CrashedError
from agecli.images.alignment import Alignment, Photo, align
from agecli.images.face_finder import FaceFinder, NoFaceError
from agecli.images.faces import Face
from agecli.images.isolated_video import VideoReader
from agecli.images.opening import FORMATS
from agecli.images.quality import sharpness
from agecli.images.reading import MOST_PIXELS, PictureSpec, Pixels, UnreadableError, cut, cut_aligned, read_reduced
from agecli.images.video import Frame, is_video


@dataclass(frozen=True)
class Crop:
    """A face as the input of a network, and where it was found."""

    box: Box
    score: float | None  # of the detector; None for a photo that was taken as an aligned face
    pixels: Pixels  # (3, size, size)
    eyes: float | None = None  # distance between the pupils, in pixels of the photo
    sharpness: float | None = None  # of the aligned face (`quality.sharpness`)

    def scaled(self, scale: float) -> Crop:
        """The crop of a face in a photo whose sides are so many times as long."""
        x, y, w, h = (round(value * scale) for value in self.box)
        return replace(self, box=(x, y, w, h), eyes=self.eyes * scale if self.eyes is not None else None)


@dataclass(frozen=True)
class PhotoFaces:
    """The crops of a photo or of a frame of a video, the largest face first; or the reason why there are none."""

    source: str
    crops: tuple[Crop, ...] = ()
    status: str = "ok"  # or no_face, unreadable, crashed
    error: str | None = None
    time: float | None = None  # seconds from the start of the video


@dataclass(frozen=True)
class FaceCropper:
    """Reads photos and crops their faces for a network. Plain data, so that it can be sent to worker processes.

    spec: size and crop of the network's input.
    alignment: of the faces the network was trained on; None takes the whole photo as an aligned face.
    detector, largest, min_face, min_score, looks: as in FaceFinder; `largest` is its `main_only`.

        FaceCropper(spec, Alignment(), largest=True)("photo.jpg").crops[0].pixels
    """

    spec: PictureSpec
    alignment: Alignment | None
    detector: str = "auto"
    largest: bool = False
    min_face: int = 0
    min_score: float | None = None
    looks: str = "auto"

    def __call__(self, item: str | Frame | PhotoFaces) -> PhotoFaces:
        """The faces of a photo given by its path, or of a frame; a PhotoFaces is returned as it is.

        Boxes are in pixels of the photo, also if it was reduced when it was read. Raises nothing but MemoryError.
        """
        if isinstance(item, PhotoFaces):
            return item
        if isinstance(item, Frame):
            return replace(self.crop(item.source, Image.fromarray(item.photo)), time=item.time)
        if not item:
            return PhotoFaces(item, status="unreadable", error="its name is empty")
        try:
            return self.crop_file(item, Path(item))
        except UnreadableError as error:
            return PhotoFaces(item, status="unreadable", error=str(error))

    def crop_file(
        self,
        name: str,
        source: Path | BinaryIO,
        most_pixels: int = MOST_PIXELS,
        formats: Collection[str] = FORMATS,
    ) -> PhotoFaces:
        """The faces of a file; `name` becomes their source, and boxes are in pixels of the photo.

        source, most_pixels, formats: as in `read_reduced`. Raises UnreadableError and MemoryError.

            cropper.crop_file("a.jpg", io.BytesIO(data))
        """
        if self.alignment is None:
            image, scale = read_reduced(source, most_pixels=most_pixels, formats=formats)
            return PhotoFaces(name, (self._whole(image).scaled(scale),))
        try:
            photo, scale, faces = self.finder.find_in(source, self.alignment, most_pixels, formats)
            return self._faces(name, photo, faces, self.alignment, scale)
        except NoFaceError as error:
            return PhotoFaces(name, status="no_face", error=str(error))

    def crop(self, name: str, image: Image.Image) -> PhotoFaces:
        """The faces of an upright RGB image; `name` becomes their source."""
        if self.alignment is None:
            return PhotoFaces(name, (self._whole(image),))
        photo = np.asarray(image)
        try:
            return self._faces(name, photo, self.finder.find(photo), self.alignment)
        except NoFaceError as error:
            return PhotoFaces(name, status="no_face", error=str(error))
        except UnreadableError as error:
            return PhotoFaces(name, status="unreadable", error=str(error))

    @property
    def finder(self) -> FaceFinder:
        """Which faces are cropped."""
        return FaceFinder(self.detector, self.largest, self.min_face, self.min_score, self.looks, frontal_only=True)

    def _whole(self, image: Image.Image) -> Crop:
        """An image that is an aligned face."""
        box = (0, 0, image.width, image.height)
        return Crop(box, None, cut(image, self.spec), sharpness=sharpness(np.asarray(image)))

    def _faces(
        self, name: str, photo: Photo, faces: Iterable[Face], alignment: Alignment, scale: float = 1
    ) -> PhotoFaces:
        """The crops of faces; boxes are in pixels of a photo whose sides are `scale` times as long."""
        try:
            return PhotoFaces(name, tuple(self._cut(photo, face, alignment).scaled(scale) for face in faces))
        except cv2.error as error:
            return PhotoFaces(name, status="unreadable", error=f"it can't be aligned: {error}")

    def _cut(self, photo: Photo, face: Face, alignment: Alignment) -> Crop:
        """Align one face and crop it for the network."""
        aligned = align(photo, face.left_eye, face.right_eye, alignment)
        x, y, w, h = (round(value) for value in face.box)
        return Crop(
            (x, y, w, h), face.score, cut_aligned(aligned, self.spec), round(face.eye_distance, 1), sharpness(aligned)
        )


def photos_and_frames(names: Iterable[str], every: float, videos: VideoReader) -> Iterator[str | Frame | PhotoFaces]:
    """The work for a FaceCropper: photos by their names, and videos frame by frame, one `every` so many seconds.

    A video that can't be read is a PhotoFaces that says so; so is the frame at which one ended its process, its last.
    """
    for name in names:
        if not is_video(name):
            yield name
            continue
        last = None
        try:
            for frame in videos.frames(name, every):
                last = frame.time
                yield frame
        except UnreadableError as error:
            yield PhotoFaces(name, status="unreadable", error=str(error))
        except CrashedError as error:
            time = None if last is None else round(last + every, 3)  # later than all its other frames
            yield PhotoFaces(name, status="crashed", error=str(error), time=time)
