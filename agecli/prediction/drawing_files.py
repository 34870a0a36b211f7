"""Files of drawings: a name for each photo that no other file has, and a mark by which a later run knows its own."""

from __future__ import annotations

import hashlib
import itertools
import os
import stat
from pathlib import Path, PurePath

from PIL import Image

from agecli.core.files import write_bytes
from agecli.core.records import Record
from agecli.images.encoding import KINDS, encode

SOFTWARE = 0x0131  # the EXIF tag that holds the mark
NEAR = 4096  # bytes at both ends of a file in which EXIF data of this size is found


def drawing_path(folder: Path, record: Record) -> Path:
    """The file for the drawing of a record's photo: the photo's own path below `folder`, ".." as "_".

    Frames of a video go into a folder named after the video, by their time. See `free_path` for names that are taken.
    """
    source = PurePath(record.source)
    parts = ["_" if part == ".." else part for part in source.parts if part != source.anchor]
    path = folder.joinpath(*parts)
    if record.time is not None:
        return path / f"{record.time:010.3f}s.jpg"
    return path if path.suffix.lower() in KINDS else path.with_name(f"{path.name}.jpg")


def free_path(folder: Path, record: Record) -> Path:
    """`drawing_path`, or with ~2, ~3, … in its name: the first that is free, or holds an earlier drawing of this photo.

    So no file but a drawing of the same photo is replaced, and no two photos share a drawing. Raises OSError if a link
    below `folder` leads out of it.
    """
    first = drawing_path(folder, record)
    if not Path(os.path.realpath(first.parent)).is_relative_to(os.path.realpath(folder)):
        raise OSError(f"{first.parent} leads out of {folder}")
    mark = mark_of(record)
    names = itertools.chain([first.name], (f"{first.stem}~{number}{first.suffix}" for number in itertools.count(2)))
    paths = (first.with_name(name) for name in names)
    return next(path for path in paths if not os.path.lexists(path) or _has_mark(path, mark))


def mark_of(record: Record) -> str:
    """The mark of the drawings of a photo or frame: a hash of its path, which a shared drawing does not give away."""
    place = f"{os.path.abspath(record.source)}\0{record.time}"
    return f"agecli drawing {hashlib.sha256(os.fsencode(place)).hexdigest()[:16]}"


def write_drawing(path: Path, drawing: Image.Image, record: Record) -> None:
    """Write a drawing with its mark, whole or not at all, and not through a link. Raises DiskFullError or OSError."""
    exif = Image.Exif()
    exif[SOFTWARE] = mark_of(record)
    content = encode(drawing, KINDS[path.suffix.lower()], quality=92, exif=exif)
    write_bytes(path, content, sync=False, follow=False)


def _has_mark(path: Path, mark: str) -> bool:
    """Whether a path is a regular file, not a link, with this mark."""
    try:
        about = path.lstat()
        if not stat.S_ISREG(about.st_mode):
            return False
        with path.open("rb") as file:
            start = file.read(NEAR)
            file.seek(max(0, about.st_size - NEAR))
            return mark.encode() in start or mark.encode() in file.read(NEAR)
    except OSError:
        return False
