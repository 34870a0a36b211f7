"""Uploaded photos in the worker processes: from the bytes of a file to the faces in it."""

from __future__ import annotations

import io
from dataclasses import dataclass

from agecli.images.crops import FaceCropper, PhotoFaces
from agecli.images.opening import NotAPictureError, TooLargeError, UnreadableError
from agecli.prediction.standard_input import NAME

FORMATS = (
    "JPEG",
    "MPO",
    "PNG",
    "WEBP",
    "BMP",
    "GIF",
    "AVIF",
    "HEIF",
)  # of cameras and browsers; each one is attack surface
ACCEPTED = "send a JPEG, PNG, WebP, AVIF, HEIC, GIF or BMP file"


@dataclass(frozen=True)
class Upload:
    """A photo as it was uploaded, and how its faces are found."""

    data: bytes
    cropper: FaceCropper
    most_pixels: int
    source: str = NAME  # what log messages call it: never the name that a client gave


@dataclass(frozen=True)
class Reading:
    """The faces of an upload; or why there are none, and the code of the refusal (`refusals.STATUSES`), if it is one."""

    faces: PhotoFaces
    refusal: str | None = None


def read_upload(upload: Upload) -> Reading:
    """Decode an upload and find its faces. Nothing is decoded of a photo with too many pixels. Raises MemoryError only."""
    try:
        faces = upload.cropper.crop_file(NAME, io.BytesIO(upload.data), upload.most_pixels, FORMATS)
    except UnreadableError as error:
        kinds = {NotAPictureError: "not_a_picture", TooLargeError: "too_large"}
        return Reading(PhotoFaces(NAME, status="unreadable", error=str(error)), kinds.get(type(error), "unreadable"))
    return Reading(faces, "unreadable" if faces.status == "unreadable" else None)
