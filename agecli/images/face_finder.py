"""The face finder: which faces of a photo are used. `predict` and `preprocess` share it."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

import cv2
import numpy as np

from agecli.images.alignment import Alignment, Photo
from agecli.images.detection import find_faces
from agecli.images.faces import Face
from agecli.images.opening import FORMATS
from agecli.images.reading import MOST_DECODED, MOST_PIXELS, UnreadableError, read_reduced

ENOUGH_PIXELS = 4_000_000  # of a JPEG: one of 12 megapixels is decoded at half of its sides, in a third of the time
ENOUGH_EYES = (
    2.0  # times the distance between the eyes in the aligned crop, which then shows no less than of the whole photo
)


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

    def find_in(
        self,
        source: Path | BinaryIO,
        alignment: Alignment,
        most_pixels: int = MOST_PIXELS,
        formats: Collection[str] = FORMATS,
    ) -> tuple[Photo, float, list[Face]]:
        """Read a photo and find its faces: the photo, its scale, and the faces in its pixels, as `find` returns them.

        A large JPEG is read in a reduced size if only its main face is wanted, and looked at as a whole if that shows no
        face, or one that is too small for the crop.
        alignment: of the crop;   source, most_pixels, formats, and the scale: as in `read_reduced`, whose errors are
        raised beside those of `find`.

            photo, scale, faces = FaceFinder(main_only=True).find_in(Path("photo.jpg"), Alignment())
        """
        if self.main_only and self.looks != "closer":
            image, scale = read_reduced(source, MOST_DECODED, most_pixels, formats, ENOUGH_PIXELS)
            photo = np.asarray(image)
            # no reduced JPEG; 1.1, because the sides of one are rounded up
            if scale == 1 or image.width * image.height > 1.1 * ENOUGH_PIXELS:
                return photo, scale, self._scaled(scale).find(photo)
            with suppress(NoFaceError, UnreadableError):
                faces = self._scaled(scale).find(photo)
                if faces[0].eye_distance >= ENOUGH_EYES * alignment.eye_distance * alignment.size:
                    return photo, scale, faces
            if not isinstance(source, Path):
                source.seek(0)
        image, scale = read_reduced(source, MOST_DECODED, most_pixels, formats)
        photo = np.asarray(image)
        return photo, scale, self._scaled(scale).find(photo)

    def _scaled(self, scale: float) -> FaceFinder:
        """The finder for a photo whose sides were divided by `scale`."""
        return self if scale == 1 else replace(self, min_face=math.ceil(self.min_face / scale))

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
