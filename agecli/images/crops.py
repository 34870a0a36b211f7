"""Crops: the faces of a photo, found, turned and cut as a model wants them. This is what worker processes do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import cv2
import numpy as np
from PIL import Image

from agecli.images.alignment import Alignment, Photo, align
from agecli.images.detection import find_faces
from agecli.images.reading import PictureSpec, Pixels, UnreadableError, cut, read_picture
from agecli.images.video import Frame, frames, is_video

Box = tuple[int, int, int, int]  # x, y, w, h in the upright photo


@dataclass(frozen=True)
class Crop:
    """A face cut for the network, and where it was."""

    box: Box
    score: float | None  # the detector's
    pixels: Pixels  # (3, H, W)


@dataclass(frozen=True)
class Seen:
    """What was found in a photo: its faces by size, or why there are none."""

    source: str
    crops: tuple[Crop, ...] = ()
    status: str = "ok"  # or no_face, unreadable
    error: str | None = None
    time: float | None = None  # seconds, of a frame of a video


@dataclass(frozen=True)
class Look:
    """How to look at photos. It travels to worker processes, so it is plain data."""

    spec: PictureSpec
    alignment: Alignment | None  # None: the whole picture is a face already
    detector: str = "auto"
    largest: bool = False
    min_face: int = 0  # pixels, of the shorter side of a face's box
    min_score: float | None = None

    def __call__(self, item: str | Frame | Seen) -> Seen:
        """What is in a photo, given by its name, or in a frame; what is known already is handed back."""
        if isinstance(item, Seen):
            return item
        if isinstance(item, Frame):
            return replace(self.at(item.source, Image.fromarray(item.photo)), time=item.time)
        try:
            return self.at(item, read_picture(Path(item)))
        except UnreadableError as error:
            return Seen(item, status="unreadable", error=str(error))

    def at(self, name: str, image: Image.Image) -> Seen:
        if self.alignment is None:
            return Seen(name, (Crop((0, 0, image.width, image.height), None, cut(image, self.spec)),))
        try:
            return self.find(name, np.asarray(image), self.alignment)
        except (RuntimeError, MemoryError, cv2.error) as error:  # dlib and OpenCV, on pictures of odd shapes
            return Seen(name, status="unreadable", error=f"the detector failed on it: {error}")

    def find(self, name: str, photo: Photo, alignment: Alignment) -> Seen:
        """Every face that is asked for, aligned as the model knows faces."""
        found = [
            face for face in find_faces(photo, self.detector, close=not self.largest) if face.left_eye != face.right_eye
        ]
        sure = [face for face in found if self.min_score is None or face.score >= self.min_score]
        faces = [face for face in sure if min(face.box[2:]) >= self.min_face]
        if not faces:
            why = (
                "no face was found"
                if not found
                else f"none of its {len(found)} faces has {self.min_face} pixels and a score of {self.min_score or 0:g}"
            )
            return Seen(name, status="no_face", error=why)
        crops = []
        for face in faces[:1] if self.largest else faces:
            crop = Image.fromarray(align(photo, face.left_eye, face.right_eye, alignment))
            x, y, w, h = (round(value) for value in face.box)
            crops.append(Crop((x, y, w, h), face.score, cut(crop, self.spec)))
        return Seen(name, tuple(crops))


def items(names: Iterable[str], every: float) -> Iterator[str | Frame | Seen]:
    """What there is to look at: photos by their names, videos frame by frame."""
    for name in names:
        if not is_video(name):
            yield name
            continue
        try:
            yield from frames(name, every)
        except UnreadableError as error:
            yield Seen(name, status="unreadable", error=str(error))
