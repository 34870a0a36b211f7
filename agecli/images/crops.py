"""Faces of photos: read, detect, choose, align and crop. `predict` and `preprocess` share this; worker processes run it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import cv2
import numpy as np
from PIL import Image

from agecli.core.records import Box
from agecli.core.workers import CrashedError
from agecli.images.alignment import Alignment, Photo, align
from agecli.images.detection import find_faces
from agecli.images.faces import Face
from agecli.images.isolated_video import VideoReader
from agecli.images.quality import sharpness
from agecli.images.reading import PictureSpec, Pixels, UnreadableError, cut, cut_aligned, read_reduced
from agecli.images.video import Frame, is_video


class NoFaceError(Exception):
    """No face was detected, or none passed the filters. The message is for the user."""


@dataclass(frozen=True)
class FaceFinder:
    """Which faces of a photo are used: the detector, filters, and all faces or the main one.

    detector: `auto` or a name in `detection.DETECTORS`.
    main_only: only the main face (`main_face`); small faces are then not searched for, which is faster.
    min_face: least side of a face's box, in pixels.
    min_score: least score of the detector, 0 to 1; None accepts all.
    looks: `auto`, `fast` or `closer`, as in `find_faces`.
    frontal_only: faces in profile are left out.
    """

    detector: str = "auto"
    main_only: bool = False
    min_face: int = 0
    min_score: float | None = None
    looks: str = "auto"
    frontal_only: bool = False

    def find(self, photo: Photo) -> list[Face]:
        """The faces of a photo (H, W, 3), RGB, the largest box first.

        Raises NoFaceError if no face is left, UnreadableError if the detector fails on the photo, and MemoryError.

            FaceFinder(main_only=True).find(photo)[0].box
        """
        try:
            found = find_faces(photo, self.detector, self.looks, self.main_only)
        except (RuntimeError, cv2.error) as error:  # dlib and OpenCV, on photos of extreme shapes
            if getattr(error, "code", None) == cv2.Error.StsNoMem:
                raise MemoryError(str(error)) from error
            raise UnreadableError(f"the detector failed on it: {error}") from error
        found = [face for face in found if face.left_eye != face.right_eye]  # they can't be aligned
        if not found:
            raise NoFaceError("no face was found")
        if self.frontal_only:
            found = [face for face in found if not face.profile]
            if not found:
                raise NoFaceError("a face was found in profile only, which shows too little of it to estimate an age")
        faces = [face for face in found if self._accepts(face)]
        if not faces:
            least = f"{self.min_face} pixels and a score of {self.min_score or 0:g}"
            raise NoFaceError(f"none of its {len(found)} faces has {least}")
        return [main_face(faces, photo)] if self.main_only else faces

    def _accepts(self, face: Face) -> bool:
        """Whether a face passes the filters on score and size."""
        sure = self.min_score is None or face.score >= self.min_score
        return sure and min(face.box[2:]) >= self.min_face


def main_face(faces: Sequence[Face], photo: Photo) -> Face:
    """The face that a photo is of: the largest product of the box's area and its closeness to the centre of the photo.

    Closeness is 1 - d, where d is the distance between the centres of box and photo, in units of the photo's width and
    height: 1 in the centre, 0.5 at the middle of an edge. So a large bystander cut off at the border does not win against
    a face of nearly the same size in the centre (measured in docs/detectors.md).

    faces: at least one.
    """
    height, width = photo.shape[:2]
    return max(faces, key=lambda face: face.size * _closeness(face, width, height))


def _closeness(face: Face, width: int, height: int) -> float:
    """1 for a box in the centre of a photo of this size; less the farther its centre is away."""
    x, y, w, h = face.box
    return 1 - math.hypot((x + w / 2) / width - 0.5, (y + h / 2) / height - 0.5)


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
            image, scale = read_reduced(Path(item))
        except UnreadableError as error:
            return PhotoFaces(item, status="unreadable", error=str(error))
        return self.crop_reduced(item, image, scale)

    def crop_reduced(self, name: str, image: Image.Image, scale: float) -> PhotoFaces:
        """As `crop`, for an image from `read_reduced`; boxes are in pixels of the whole photo."""
        if scale == 1:
            return self.crop(name, image)
        faces = replace(self, min_face=math.ceil(self.min_face / scale)).crop(name, image)
        return replace(faces, crops=tuple(crop.scaled(scale) for crop in faces.crops))

    def crop(self, name: str, image: Image.Image) -> PhotoFaces:
        """The faces of an upright RGB image; `name` becomes their source."""
        if self.alignment is None:
            box = (0, 0, image.width, image.height)
            sharp = sharpness(np.asarray(image))
            return PhotoFaces(name, (Crop(box, None, cut(image, self.spec), sharpness=sharp),))
        photo = np.asarray(image)
        try:
            finder = FaceFinder(self.detector, self.largest, self.min_face, self.min_score, self.looks, True)
            faces = finder.find(photo)
            return PhotoFaces(name, tuple(self._cut(photo, face, self.alignment) for face in faces))
        except NoFaceError as error:
            return PhotoFaces(name, status="no_face", error=str(error))
        except UnreadableError as error:
            return PhotoFaces(name, status="unreadable", error=str(error))
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
