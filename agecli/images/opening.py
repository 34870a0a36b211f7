"""Opening of picture files: regular files only, and only the formats that photos come in.

Pillow knows some 40 formats by their content, whatever the name; one of them starts Ghostscript.
"""

from __future__ import annotations

import importlib
import os
import stat
from collections.abc import Collection, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import cache
from pathlib import Path
from typing import BinaryIO

from PIL import Image

from agecli.core.errors import MissingError
from agecli.images.heif import HEADER, is_heif, register_heif

# HEIF is known to Pillow after `pillow_heif.register_heif_opener()` only, AVIF from version 11.3 on
FORMATS = ("JPEG", "MPO", "PNG", "WEBP", "BMP", "GIF", "TIFF", "PPM", "JPEG2000", "AVIF", "HEIF")
PLUGINS = ("Jpeg", "Mpo", "Png", "WebP", "Bmp", "Gif", "Tiff", "Ppm", "Jpeg2K", "Avif")


class UnreadableError(Exception):
    """A file is missing, not an image, damaged or too large. The message is for the user."""


class NotAPictureError(UnreadableError):
    """Bytes of none of the formats that are accepted."""


class TooLargeError(UnreadableError):
    """A picture with more pixels than are accepted, as its header says."""


def open_regular(path: str | Path) -> BinaryIO:
    """Open a regular file to read. Never waits for the other end of a pipe, and does not open devices.

    A picture of a packed folder (`images.packs`) is opened by the path that it would have without a pack.
    Raises UnreadableError for pipes, sockets and devices, IsADirectoryError for a folder, other OSErrors as `open` does.

        with open_regular("photo.jpg") as file: ...
    """
    try:
        about = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        from agecli.images.packs import find_packed

        if packed := find_packed(path):
            return packed.open()
        raise
    if stat.S_ISDIR(_check_kind(about)):
        os.scandir(path).close()  # PermissionError is the better reason
        raise IsADirectoryError(path)
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    file = os.fdopen(handle, "rb")
    try:
        _check_kind(os.fstat(handle))  # it may have been replaced in the meantime
    except UnreadableError:
        file.close()
        raise
    return file


def state_of(path: str | Path) -> tuple[int, int]:
    """Size of a file in bytes and time of its last change in ns, those of its tar for a packed picture. Raises OSError."""
    try:
        about = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        from agecli.images.packs import find_packed

        if packed := find_packed(path):
            return packed.stat()
        raise
    return about.st_size, about.st_mtime_ns


def read_content(path: str | Path, most: int) -> bytes:
    """The bytes of a regular file, or of a packed picture. Raises UnreadableError if there are more than `most`, and OSError."""
    with open_regular(path) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise UnreadableError(f"it is too large: more than {most / 1e6:.0f} MB")
    return content


def _check_kind(info: os.stat_result) -> int:
    """The mode of a file or folder. Raises UnreadableError for anything else."""
    if not stat.S_ISREG(info.st_mode) and not stat.S_ISDIR(info.st_mode):
        raise UnreadableError("it is no file but a device or a pipe")
    return info.st_mode


@contextmanager
def open_picture(source: str | Path | BinaryIO, formats: Collection[str] = FORMATS) -> Iterator[Image.Image]:
    """A picture whose header was read, for the length of a `with` block.

    source: a file name, or an open file, which stays open;   formats: those of FORMATS that are accepted.
    Raises what `open_regular` raises, UnreadableError for a HEIC photo without its reader, and UnidentifiedImageError for
    a file of none of the formats.

        with open_picture("photo.jpg") as image:
            print(image.size)
    """
    _load_plugins()
    with open_regular(source) if isinstance(source, (str, Path)) else nullcontext(source) as file:
        if "HEIF" in formats:
            _prepare_heif(file)
        known = [name for name in formats if name in Image.OPEN]
        with Image.open(file, formats=known) as image:
            yield image


def _prepare_heif(file: BinaryIO) -> None:
    """Load the reader of HEIF files if this is one. Raises UnreadableError, with what to install, if there is none."""
    header = file.read(HEADER)
    file.seek(0)
    if not is_heif(header):
        return
    try:
        register_heif()
    except MissingError as error:
        raise UnreadableError(f"{error.message}: {error.hint}, or convert it to JPEG") from None


@cache
def _load_plugins() -> None:
    """Import the readers of FORMATS; Pillow would import those of all formats."""
    for name in PLUGINS:
        with suppress(ImportError):
            importlib.import_module(f"PIL.{name}ImagePlugin")
