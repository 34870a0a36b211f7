"""Drawing: copies of photos and videos with a box around each face, its age and its interval, in files of their own."""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePath

from agecli.core.errors import InputError
from agecli.core.files import write_whole
from agecli.core.records import Record
from agecli.images.reading import UnreadableError, read_picture
from agecli.images.video import parse_every
from agecli.prediction.drawn_video import draw_video
from agecli.prediction.marking import draw
from agecli.prediction.tracking import is_next_frame

log = logging.getLogger("agecli")
SUFFIXES = {".jpg", ".jpeg", ".png", ".webp"}  # drawings of photos with these keep the name; others add .jpg


def drawing_path(folder: Path, record: Record) -> Path:
    """The file for the drawing of a record's photo: the photo's own path below `folder`, ".." as "_".

    The drawing of a video is a video, in an MP4 file.
    """
    source = PurePath(record.source)
    parts = ["_" if part == ".." else part for part in source.parts if part != source.anchor]
    path = folder.joinpath(*parts)
    if record.time is not None:
        return path if path.suffix.lower() == ".mp4" else path.with_name(f"{path.name}.mp4")
    return path if path.suffix.lower() in SUFFIXES else path.with_name(f"{path.name}.jpg")


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
        """The same records. Raises InputError if a drawing would overwrite its photo, OSError if the disk is full."""
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
            with write_whole(path, sync=False) as part:
                if faces[0].time is None:
                    kind = {".png": "PNG", ".webp": "WEBP"}.get(path.suffix.lower(), "JPEG")
                    draw(read_picture(Path(source)), faces).save(part, kind, quality=92)
                else:
                    draw_video(source, faces, part, self.every)
        except UnreadableError as error:  # it could be read a moment ago
            self.failed += 1
            log.warning("%s could not be read again and is not drawn: %s", source, error)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise
            self.failed += 1
            log.warning("%s could not be drawn: %s", source, error)
