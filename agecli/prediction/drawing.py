"""Drawing: copies of photos and videos with a box around each face, its age and its interval, in files of their own."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from agecli.core.errors import InputError
from agecli.core.records import Record
from agecli.images.reading import UnreadableError, read_picture
from agecli.images.video import parse_every
from agecli.prediction.drawing_files import drawing_path, free_path, write_drawing, write_drawn_video
from agecli.prediction.marking import draw
from agecli.prediction.tracking import is_next_frame

log = logging.getLogger("agecli")


class Drawer:
    """Passes records through and writes a drawing when all faces of a photo, or all frames of a video, are known.

    folder: for the drawings, created at once;   every: time between frames of videos, as given to `predict`.
    `failed` counts the photos that could not be drawn. Raises InputError if the folder cannot be created.

        drawer = Drawer(Path("drawn"), "1s")
        records = list(drawer(agecli.predict("photos/")))
    """

    def __init__(self, folder: Path, every: float | str) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"--draw {folder}: {error.strerror}", hint="name a folder that can be written") from error
        self.folder, self.every = folder, parse_every(str(every))
        self.failed = 0

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
        source, path = faces[0].source, drawing_path(self.folder, faces[0])
        if path.exists() and path.samefile(source):
            raise InputError(f"--draw {self.folder} would overwrite the photo {path}", hint="name another folder")
        try:
            path = free_path(self.folder, faces[0])
            if faces[0].time is None:
                write_drawing(path, draw(read_picture(Path(source)), faces), faces[0])
            else:
                write_drawn_video(path, faces, self.every)
        except UnreadableError as error:  # it could be read a moment ago
            self.failed += 1
            log.warning("%s could not be read again and is not drawn: %s", source, error)
        except OSError as error:
            self.failed += 1
            log.warning("%s could not be drawn: %s", source, error)
