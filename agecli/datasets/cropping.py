"""Cropping: one photo of a data set -> its aligned faces as JPEG files. This is what worker processes of `preprocess` do.

Nothing here imports pandas, which every worker would have to load.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from agecli.core.files import write_whole
from agecli.images.alignment import Alignment, Photo, align
from agecli.images.crops import FaceFinder, NoFaceError
from agecli.images.faces import Face
from agecli.images.reading import UnreadableError, read_picture

EYES = ("left_eye_x", "left_eye_y", "right_eye_x", "right_eye_y")
NOT_DETECTED = {**dict.fromkeys(EYES, ""), "detector": "", "score": ""}  # of a photo that is an aligned face already
JPEG_QUALITY = 95
# `source`, and either `faces` (rows of the manifest without labels) or `status` and `reason` (a row of failures.csv)
CropResult = dict[str, Any]


@dataclass(frozen=True)
class PhotoToCrop:
    """A photo of a data set, and where its crop goes."""

    source: str  # relative to the data set
    target: str  # of the first face, relative to the output folder
    has_age: bool

    def crop_path(self, face: int) -> str:
        """The path of the crop of a face, counted from 0: faces/a.jpg, more-faces/a.2.jpg, …"""
        return self.target if face == 0 else f"more-{self.target.removesuffix('.jpg')}.{face + 1}.jpg"


@dataclass(frozen=True)
class CropOptions:
    """How photos of a data set are cropped. Plain data, so that it can be sent to worker processes."""

    folder: Path  # the data set
    out: Path
    alignment: Alignment
    finder: FaceFinder
    detect: bool  # False: the photos are aligned faces already, and only resized
    labelled: bool  # photos without an age are failures

    def header(self) -> dict[str, Any]:
        """The options that results depend on, for the journal; the alignment is stored in alignment.toml."""
        header: dict[str, Any] = {
            "detector": self.finder.detector,
            "detect": self.detect,
            "all_faces": not self.finder.main_only,
            "labelled": self.labelled,
        }
        return header if self.detect else {**header, "size": self.alignment.size}  # which has no alignment.toml then


def crop_photo(options: CropOptions, photo: PhotoToCrop) -> CropResult:
    """Find the faces of a photo and write their crops, each whole or not at all, before the result is returned.

    Raises OSError if a crop can't be written; everything that is wrong with the photo is in the result.
    """
    pixels, result = _find(options, photo)
    for number, face in enumerate(result.get("faces", ())):
        face["path"] = photo.crop_path(number)
        crop = _aligned(pixels, face, options.alignment) if options.detect else _square(pixels, options.alignment.size)
        with write_whole(options.out / face["path"], sync=False) as part:
            Image.fromarray(crop).save(part, "JPEG", quality=JPEG_QUALITY, subsampling=0)
    return result


def find_in_photo(options: CropOptions, photo: PhotoToCrop) -> CropResult:
    """The result of `crop_photo` without writing crops, and so without their paths."""
    return _find(options, photo)[1]


def _find(options: CropOptions, photo: PhotoToCrop) -> tuple[Photo, CropResult]:
    """The pixels of a photo, (0, 0, 3) if it can't be read, and the faces in it."""
    pixels: Photo = np.zeros((0, 0, 3), np.uint8)
    if options.labelled and not photo.has_age:
        return pixels, _failure(photo, "no_age", "its age is not known")
    try:
        pixels = np.asarray(read_picture(options.folder / photo.source))
        faces = [_row(face) for face in options.finder.find(pixels)] if options.detect else [dict(NOT_DETECTED)]
    except UnreadableError as error:
        return pixels, _failure(photo, "unreadable", str(error))
    except NoFaceError as error:
        return pixels, _failure(photo, "no_face", f"{error}: is it visible, upright and not too small?")
    return pixels, {"source": photo.source, "faces": faces}


def _failure(photo: PhotoToCrop, status: str, reason: str) -> CropResult:
    """The result of a photo without a crop: a row of failures.csv."""
    return {"source": photo.source, "status": status, "reason": reason}


def _row(face: Face) -> dict[str, Any]:
    """The columns of the manifest that come from the detector; eyes in pixels, to two decimals."""
    eyes = (round(value, 2) for value in (*face.left_eye, *face.right_eye))
    return {**dict(zip(EYES, eyes, strict=True)), "detector": face.detector, "score": face.score}


def _aligned(photo: Photo, face: dict[str, Any], alignment: Alignment) -> Photo:
    """The crop of a face by its rounded eyes, so that the manifest alone tells how to make it again."""
    left_x, left_y, right_x, right_y = (face[name] for name in EYES)
    return align(photo, (left_x, left_y), (right_x, right_y), alignment)


def _square(photo: Photo, size: int) -> Photo:
    """The square in the middle of a photo, resized, as `predict --no-detect` takes it."""
    side = min(photo.shape[:2])
    top, left = ((length - side) // 2 for length in photo.shape[:2])
    resampling = Image.Resampling.BOX if side > size else Image.Resampling.BILINEAR
    square = Image.fromarray(photo[top : top + side, left : left + side])
    return np.asarray(square.resize((size, size), resampling))
