"""Files of drawings: a name for each photo that no other file has, and a mark by which a later run knows its own."""

from __future__ import annotations

import hashlib
import itertools
import os
import stat
from collections.abc import Sequence
from pathlib import Path, PurePath

from PIL import Image

from agecli.core.files import write_all, write_bytes, write_whole
from agecli.core.records import Record
from agecli.images.encoding import KINDS, encode
from agecli.prediction.drawn_video import draw_video

SOFTWARE = 0x0131  # the EXIF tag that holds the mark
NEAR = 4096  # bytes at both ends of a file in which EXIF data of this size is found


def drawing_path(folder: Path, record: Record) -> Path:
    """The file for the drawing of a record's photo: the photo's own path below `folder`, ".." as "_".

    The drawing of a video is a video, in an MP4 file. See `free_path` for names that are taken.
    """
    source = PurePath(record.source)
    parts = ["_" if part == ".." else part for part in source.parts if part != source.anchor]
    path = folder.joinpath(*parts)
    if record.time is not None:
        return path if path.suffix.lower() == ".mp4" else path.with_name(f"{path.name}.mp4")
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
    """The mark of the drawings of a photo or video: a hash of its path, which a shared drawing does not give away."""
    return f"agecli drawing {hashlib.sha256(os.fsencode(os.path.abspath(record.source))).hexdigest()[:16]}"


def write_drawing(path: Path, drawing: Image.Image, record: Record) -> None:
    """Write a drawing with its mark, whole or not at all, and not through a link. Raises DiskFullError or OSError."""
    exif = Image.Exif()
    exif[SOFTWARE] = mark_of(record)
    content = encode(drawing, KINDS[path.suffix.lower()], quality=92, exif=exif)
    write_bytes(path, content, sync=False, follow=False)


def write_drawn_video(path: Path, records: Sequence[Record], every: float) -> None:
    """Draw a video, given all its records, as an MP4 file with its mark, whole or not at all, and not through a link.

    every: seconds between two predicted frames. The mark is in a box of the type `free` at the end, which players skip.
    Raises UnreadableError if the video can't be read, DiskFullError or OSError if the drawing can't be written.
    """
    mark = mark_of(records[0]).encode()
    with write_whole(path, sync=False, follow=False) as part:
        draw_video(records[0].source, records, part, every)
        with part.open("ab") as file:
            write_all(file, (len(mark) + 8).to_bytes(4, "big") + b"free" + mark)


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
