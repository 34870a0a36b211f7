"""Cropping: one photo of a data set -> its aligned faces as JPEG files. This is what worker processes of `preprocess` do.

Nothing here imports pandas, which every worker would have to load.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from agecli.core.files import write_bytes
from agecli.images.alignment import Alignment, Photo, align
from agecli.images.encoding import encode
from agecli.images.face_finder import FaceFinder, NoFaceError
from agecli.images.faces import Face
from agecli.images.reading import UnreadableError, read_reduced

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
    no_age: str = "its age is not known"  # why it has none

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

    The size of each crop in `bytes` tells a resumed run whether the file is still whole. A name that can't be written, as
    it is too long or a folder has it, is a failure of this photo. Raises DiskFullError if there is no space.
    """
    result, crops = crop_in_memory(options, photo)
    for face, content in zip(result.get("faces", ()), crops, strict=True):
        try:
            write_bytes(options.out / face["path"], content, sync=False)
        except OSError as error:
            return _failure(photo, "not_written", f"its crop {face['path']} can't be written: {error.strerror}")
    return result


def crop_in_memory(options: CropOptions, photo: PhotoToCrop) -> tuple[CropResult, list[bytes]]:
    """The result of `crop_photo`, and the JPEG file of each of its faces, which is not written."""
    pixels, scale, result = _find(options, photo)
    crops = []
    for number, face in enumerate(result.get("faces", ())):
        face["path"] = photo.crop_path(number)
        size = options.alignment.size
        crop = _aligned(pixels, scale, face, options.alignment) if options.detect else _square(pixels, size)
        crops.append(encode(Image.fromarray(crop), "JPEG", quality=JPEG_QUALITY, subsampling=0))
        face["bytes"] = len(crops[-1])
    return result, crops


def crashed_in_memory(photo: PhotoToCrop, reason: str) -> tuple[CropResult, list[bytes]]:
    """The same for a photo whose worker process crashed."""
    return crashed_photo(photo, reason), []


def is_result(entry: Mapping[str, Any]) -> bool:
    """Whether an entry of a journal is a result of `crop_photo`: its fields are there, in the right types."""
    faces = entry.get("faces", [])
    if not isinstance(entry.get("source"), str) or not isinstance(faces, list) or ("status" in entry) == bool(faces):
        return False
    return all(
        isinstance(face, dict) and isinstance(face.get("path"), str) and isinstance(face.get("detector"), str)
        for face in faces
    ) and all(isinstance(entry.get(name, ""), str) for name in ("status", "reason"))


def is_whole(out: Path, result: CropResult) -> bool:
    """Whether the crops of a result are still there, in their size; others are made again.

    out: the output folder.   A result of an older version has no sizes; there, a crop must only exist.
    """
    try:
        return all(
            (out / face["path"]).stat().st_size == face.get("bytes", (out / face["path"]).stat().st_size)
            for face in result.get("faces", ())
        )
    except OSError:
        return False


def find_in_photo(options: CropOptions, photo: PhotoToCrop) -> CropResult:
    """The result of `crop_photo` without writing crops, and so without their paths."""
    return _find(options, photo)[2]


def crashed_photo(photo: PhotoToCrop, reason: str) -> CropResult:
    """The result of a photo whose worker process crashed or exceeded a limit."""
    return _failure(photo, "crashed", reason)


def _find(options: CropOptions, photo: PhotoToCrop) -> tuple[Photo, float, CropResult]:
    """The pixels of a photo, (0, 0, 3) if it can't be read; their scale (`read_reduced`); and the faces in it."""
    pixels: Photo = np.zeros((0, 0, 3), np.uint8)
    scale = 1.0
    if options.labelled and not photo.has_age and not (options.folder / photo.source).is_dir():
        return pixels, scale, _failure(photo, "no_age", photo.no_age)
    try:
        place = options.folder / photo.source
        if options.detect:
            pixels, scale, found = options.finder.find_in(place, options.alignment)
            faces = [_row(face, scale) for face in found]
        else:
            image, scale = read_reduced(place)
            pixels, faces = np.asarray(image), [dict(NOT_DETECTED)]
    except UnreadableError as error:
        return pixels, scale, _failure(photo, "unreadable", str(error))
    except NoFaceError as error:
        return pixels, scale, _failure(photo, "no_face", f"{error}: is it visible, upright and not too small?")
    return pixels, scale, {"source": photo.source, "faces": faces}


def _failure(photo: PhotoToCrop, status: str, reason: str) -> CropResult:
    """The result of a photo without a crop: a row of failures.csv."""
    return {"source": photo.source, "status": status, "reason": reason}


def _row(face: Face, scale: float) -> dict[str, Any]:
    """The columns of the manifest that come from the detector; eyes in pixels of the photo, to two decimals."""
    eyes = (round(value * scale, 2) for value in (*face.left_eye, *face.right_eye))
    return {**dict(zip(EYES, eyes, strict=True)), "detector": face.detector, "score": face.score}


def _aligned(pixels: Photo, scale: float, face: dict[str, Any], alignment: Alignment) -> Photo:
    """The crop of a face by its rounded eyes, so that the manifest alone tells how to make it again."""
    left_x, left_y, right_x, right_y = (face[name] / scale for name in EYES)
    return align(pixels, (left_x, left_y), (right_x, right_y), alignment)


def _square(photo: Photo, size: int) -> Photo:
    """The square in the middle of a photo, resized, as `predict --no-detect` takes it."""
    side = min(photo.shape[:2])
    top, left = ((length - side) // 2 for length in photo.shape[:2])
    resampling = Image.Resampling.BOX if side > size else Image.Resampling.BILINEAR
    square = Image.fromarray(photo[top : top + side, left : left + side])
    return np.asarray(square.resize((size, size), resampling))
