"""Drawing: the photo with a box around each face, its age and its interval, readable on any background."""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePath

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from agecli.core.ages import span
from agecli.core.errors import InputError
from agecli.core.files import write_whole
from agecli.images.reading import UnreadableError, read_picture
from agecli.images.video import Frame, frames, parse_every
from agecli.prediction.predict import Record

log = logging.getLogger("agecli")
INK, PAPER, ACCENT = (255, 255, 255), (20, 24, 33), (255, 196, 61)
KEPT = {".jpg", ".jpeg", ".png", ".webp"}  # endings that a drawing keeps; others get a .jpg behind them


def draw(photo: Image.Image, records: Sequence[Record]) -> Image.Image:
    """A copy of the photo with all its faces marked. Letters grow with the photo, not with the face: all must be read."""
    drawn = photo.convert("RGB")
    pen = ImageDraw.Draw(drawn)
    width = max(2, round(min(drawn.size) / 250))
    boxes = []
    for record in records:
        if record.box is None or record.age is None:
            continue
        x, y, w, h = record.box
        colour = ACCENT if not record.abstain else (170, 170, 170)
        radius = 4 * width
        for out, ink, line in ((width, PAPER, 3 * width), (0, colour, width)):  # light on dark: seen on both
            pen.rounded_rectangle((x - out, y - out, x + w + out, y + h + out), radius, outline=ink, width=line)
        boxes.append((record, colour))
    taken: list[tuple[float, float, float, float]] = []
    for record, colour in boxes:
        _label(pen, drawn.size, record, colour, width, taken)
    return drawn


def _label(
    pen: ImageDraw.ImageDraw,
    size: tuple[int, int],
    record: Record,
    colour: tuple[int, int, int],
    width: int,
    taken: list[tuple[float, float, float, float]],
) -> None:
    """The age, large, and its interval, on a dark plate beside the face where there is room."""
    assert record.box is not None
    assert record.low is not None
    assert record.high is not None
    x, y, w, h = record.box
    letters = min(max(13, round(min(size) / 28), round(w / 8)), max(13, min(size) // 12))
    big, small = ImageFont.load_default(letters), ImageFont.load_default(round(letters * 0.72))
    age, within = f"{record.age:.0f}", span(record.low, record.high)
    if record.abstain:
        age += "?"
    pad = letters * 0.3
    first, second = pen.textlength(age, big), pen.textlength(within, small)
    plate_w, plate_h = first + second + 3 * pad, letters * 1.35
    tops = (y - plate_h - width, y + h + width, y + width * 3, y + h - plate_h - width * 3)
    left = min(max(0, x + w / 2 - plate_w / 2), max(0, size[0] - plate_w))
    places = [(left, top, left + plate_w, top + plate_h) for top in tops if 0 <= top <= size[1] - plate_h]
    free = [place for place in places if not any(_overlap(place, other) for other in taken)]
    place = (free or places or [(left, 0, left + plate_w, plate_h)])[0]
    taken.append(place)
    left, top = place[:2]
    pen.rounded_rectangle(place, pad, fill=PAPER, outline=colour, width=max(1, width // 2))
    base = top + plate_h / 2
    pen.text((left + pad, base), age, INK, big, anchor="lm")
    pen.text((left + 2 * pad + first, base), within, (200, 204, 212), small, anchor="lm")


def _overlap(a: tuple[float, float, float, float], b: tuple[float, float, float, float]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def place(folder: Path, record: Record) -> Path:
    """Where the drawing of a photo goes: under its own name, with the folders it was named with."""
    source = PurePath(record.source)
    parts = ["_" if part == ".." else part for part in source.parts if part != source.anchor]
    path = folder.joinpath(*parts)
    if record.time is not None:
        return path / f"{record.time:010.3f}s.jpg"
    return path if path.suffix.lower() in KEPT else path.with_name(f"{path.name}.jpg")


class Drawer:
    """Passes records on, and writes a picture when all faces of a photo are known."""

    def __init__(self, folder: Path, every: float | str) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)  # before the first photo, not after a thousand
        except OSError as error:
            raise InputError(f"--draw {folder}: {error.strerror}", hint="name a folder that can be written") from error
        self.folder, self.every = folder, parse_every(str(every))
        self.failed = 0  # photos that could not be drawn
        self.frame = Frame("", 0.0, np.zeros((0, 0, 3), np.uint8))  # the last one that was read
        self.video: Iterator[Frame] = iter(())  # what follows it

    def __call__(self, records: Iterable[Record]) -> Iterator[Record]:
        faces: list[Record] = []
        for record in records:
            if not record.face:  # the first of another photo
                self.write(faces)
                faces = []
            yield record
            faces += [record] if record.status == "ok" else []
        self.write(faces)

    def write(self, faces: Sequence[Record]) -> None:
        if not faces:
            return
        path = place(self.folder, faces[0])
        kind = {".png": "PNG", ".webp": "WEBP"}.get(path.suffix.lower(), "JPEG")
        if path.exists() and path.samefile(faces[0].source):
            raise InputError(f"--draw {self.folder} would write over {path}", hint="name another folder")
        try:
            photo = self.read(faces[0])
            with write_whole(path, sync=False) as part:
                draw(photo, faces).save(part, kind, quality=92)
        except (UnreadableError, StopIteration):  # it was there a moment ago
            self.failed += 1
            log.warning("%s could not be read again, and is not drawn", faces[0].source)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise
            self.failed += 1
            log.warning("%s could not be drawn: %s", faces[0].source, error)

    def read(self, record: Record) -> Image.Image:
        """The photo again. Videos are read a second time, too: keeping all frames would need too much memory."""
        if record.time is None:
            return read_picture(Path(record.source))
        if self.frame.source != record.source or self.frame.time > record.time:
            self.video = frames(record.source, self.every)
            self.frame = next(self.video)
        while self.frame.time < record.time:
            self.frame = next(self.video)
        return Image.fromarray(self.frame.photo)
