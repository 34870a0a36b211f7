"""Drawing: copies of photos and videos with a box around each face, its age and its interval, in files of their own."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from PIL import Image

from agecli.core.errors import InputError
from agecli.core.files import remove_parts_of
from agecli.core.records import Record
from agecli.core.workers import CrashedError, Workers, call
from agecli.images.reading import UnreadableError, read_reduced
from agecli.images.video import parse_every
from agecli.prediction.drawing_files import drawing_path, free_path, write_drawing, write_drawn_video
from agecli.prediction.marking import draw
from agecli.prediction.tracking import is_next_frame

log = logging.getLogger("agecli")


@dataclass(frozen=True)
class Drawing:
    """A drawing that is to be made. Plain data, because it is sent to a worker process."""

    folder: Path
    records: tuple[Record, ...]  # all of one photo or video
    every: float  # seconds between two predicted frames of a video

    @property
    def source(self) -> str:
        """The photo or video."""
        return self.records[0].source


class Drawer:
    """Passes records through and writes a drawing when all faces of a photo, or all frames of a video, are known.

    folder: for the drawings, created at once;   every: time between frames of videos, as given to `predict`.
    workers: processes in which photos are read again and drawn; None draws in this one.
    `failed` counts the photos that could not be drawn. Raises InputError if the folder cannot be created.

        drawer = Drawer(Path("drawn"), "1s")
        records = list(drawer(agecli.predict("photos/")))
    """

    def __init__(self, folder: Path, every: float | str, workers: Workers | None = None) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"--draw {folder}: {error.strerror}", hint="name a folder that can be written") from error
        self.folder, self.every, self.workers = folder, parse_every(str(every)), workers
        self.failed = self.drawn = 0

    def __call__(self, records: Iterable[Record]) -> Iterator[Record]:
        """The same records. Raises InputError if a drawing would overwrite its photo, DiskFullError."""
        faces: list[Record] = []
        for record in records:
            if not record.face and not (
                faces and is_next_frame(record, faces[-1])
            ):  # the first record of another input
                self._write(faces)
                faces = []
            yield record
            faces.append(record)
        self._write(faces)

    def _write(self, faces: Sequence[Record]) -> None:
        """Draw one photo or video, given all its records; nothing if no face was found."""
        if not any(record.status == "ok" for record in faces):
            return
        drawing = Drawing(self.folder, tuple(replace(record, distribution=None) for record in faces), self.every)
        path = drawing_path(self.folder, faces[0])
        if path.exists() and path.samefile(drawing.source):
            raise InputError(f"--draw {self.folder} would overwrite the photo {path}", hint="name another folder")
        try:
            if self.drawn == 0:
                self._remove_parts(faces[0])  # a killed run was drawing the photo with which a resumed one begins
            problem = call(write, drawing, self.workers)
        except CrashedError as error:
            problem = f"could not be drawn: {error}"
            self._remove_parts(faces[0])
        self.drawn += 1
        if problem:
            self.failed += 1
            log.warning("%s %s", drawing.source, problem)

    def _remove_parts(self, record: Record) -> None:
        """Remove what a process that was killed left of the drawing of a record's photo."""
        with suppress(OSError):
            remove_parts_of(free_path(self.folder, record))


def write(drawing: Drawing) -> str | None:
    """Read a photo or video again and write its drawing. Returns why it can't be, for the user. Raises DiskFullError."""
    first = drawing.records[0]
    try:
        path = free_path(drawing.folder, first)
        if first.time is None:
            write_drawing(path, _draw(drawing), first)
        else:
            write_drawn_video(path, drawing.records, drawing.every)
    except UnreadableError as error:  # it could be read a moment ago
        return f"could not be read again and is not drawn: {error}"
    except OSError as error:
        return f"could not be drawn: {error}"
    return None


def _draw(drawing: Drawing) -> Image.Image:
    """The photo with its faces marked; one that was reduced to find its faces is as small in the drawing."""
    photo, scale = read_reduced(Path(drawing.source))
    return draw(photo, [_scaled(record, 1 / scale) for record in drawing.records])


def _scaled(record: Record, scale: float) -> Record:
    """A record whose box is in pixels of a photo with sides so many times as long."""
    if scale == 1 or record.box is None:
        return record
    x, y, w, h = (round(value * scale) for value in record.box)
    return replace(record, box=(x, y, w, h))
