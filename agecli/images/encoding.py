"""Pictures as the bytes of a file: encoded in memory, because Pillow does not notice that a disk is full."""

from __future__ import annotations

import io
from pathlib import PurePath
from typing import Any

from PIL import Image

from agecli.core.errors import InputError

KINDS = {".jpg": "JPEG", ".jpeg": "JPEG", ".png": "PNG", ".webp": "WEBP"}  # what Pillow calls them


def encode(image: Image.Image, kind: str, **options: Any) -> bytes:
    """The bytes of an image file.   kind: JPEG, PNG or WEBP;   options: those of Pillow's `Image.save`.

    Example: `write_bytes(Path("a.jpg"), encode(image, "JPEG", quality=95))`
    """
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def kind_of_name(path: PurePath) -> str:
    """The kind of picture that a file name asks for. Raises InputError for an unknown suffix."""
    if kind := KINDS.get(path.suffix.lower()):
        return kind
    raise InputError(f"{path}: a picture can't be written as `{path.suffix}`", hint=f"use {', '.join(KINDS)}")
