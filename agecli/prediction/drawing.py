"""Drawing: copies of photos with a box around each face, its age and its interval, readable on any background."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from agecli.core.ages import span
from agecli.core.errors import InputError
from agecli.core.records import Record
from agecli.images.reading import UnreadableError, read_picture
from agecli.images.video import Frame, frames, parse_every
from agecli.prediction.drawing_files import drawing_path, free_path, write_drawing

log = logging.getLogger("agecli")
TEXT, SOFT_TEXT, BACKGROUND = (255, 255, 255), (200, 204, 212), (20, 24, 33)
ACCENT, ABSTAINED = (255, 196, 61), (170, 170, 170)
Colour = tuple[int, int, int]
Rectangle = tuple[float, float, float, float]  # left, top, right, bottom


def draw(photo: Image.Image, records: Sequence[Record]) -> Image.Image:
    """A copy of a photo, in RGB, with all its faces marked.

    photo: upright, as `box` is in pixels of the upright photo.   records: of this photo; those without an age are
    ignored. The font size depends on the size of the photo, so that the labels of small faces are legible, too.

    Example: `agecli.draw(image, list(estimator.predict(image))).save("drawn.jpg")`
    """
    drawn = photo.convert("RGB")
    canvas = ImageDraw.Draw(drawn)
    width = max(2, round(min(drawn.size) / 250))
    faces = [(record, record.box) for record in records if record.box is not None and record.age is not None]
    for record, (x, y, w, h) in faces:
        for margin, colour, line in ((width, BACKGROUND, 3 * width), (0, _colour(record), width)):  # visible on both
            box = (x - margin, y - margin, x + w + margin, y + h + margin)
            canvas.rounded_rectangle(box, 4 * width, outline=colour, width=line)
    labels: list[Rectangle] = []
    for record, _ in faces:
        labels.append(_label(canvas, drawn.size, record, width, labels))
    return drawn


def _colour(record: Record) -> Colour:
    return ABSTAINED if record.abstain else ACCENT


def _label(
    canvas: ImageDraw.ImageDraw, size: tuple[int, int], record: Record, width: int, others: Sequence[Rectangle]
) -> Rectangle:
    """Write the age and its interval on a dark rectangle beside the face, clear of other labels if possible.

    size: of the photo, (width, height);   width: of lines, in pixels.   Returns the rectangle.
    """
    assert record.box is not None
    assert record.low is not None
    assert record.high is not None
    font_size = min(max(13, round(min(size) / 28), round(record.box[2] / 8)), max(13, min(size) // 12))
    large, small = ImageFont.load_default(font_size), ImageFont.load_default(round(font_size * 0.72))
    age, interval = f"{record.age:.0f}{'?' if record.abstain else ''}", span(record.low, record.high)
    padding = font_size * 0.3
    age_width, interval_width = canvas.textlength(age, large), canvas.textlength(interval, small)
    label = (age_width + interval_width + 3 * padding, font_size * 1.35)
    left, top, right, bottom = place = _label_place(record.box, label, size, width, others)
    canvas.rounded_rectangle(place, padding, fill=BACKGROUND, outline=_colour(record), width=max(1, width // 2))
    middle = top + (bottom - top) / 2
    canvas.text((left + padding, middle), age, TEXT, large, anchor="lm")
    canvas.text((left + 2 * padding + age_width, middle), interval, SOFT_TEXT, small, anchor="lm")
    return left, top, right, bottom


def _label_place(
    box: tuple[int, int, int, int],
    label: tuple[float, float],
    size: tuple[int, int],
    width: int,
    others: Sequence[Rectangle],
) -> Rectangle:
    """Where a label of this (width, height) goes: above the face, below it, or inside; never outside the photo."""
    x, y, w, h = box
    label_width, label_height = label
    tops = (y - label_height - width, y + h + width, y + width * 3, y + h - label_height - width * 3)
    left = min(max(0, x + w / 2 - label_width / 2), max(0, size[0] - label_width))
    places = [(left, top, left + label_width, top + label_height) for top in tops if 0 <= top <= size[1] - label_height]
    free = [place for place in places if not any(_overlap(place, other) for other in others)]
    return (free or places or [(left, 0, left + label_width, label_height)])[0]


def _overlap(a: Rectangle, b: Rectangle) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


class Drawer:
    """Passes records through and writes a drawing when all faces of a photo are known.

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
        self.frame = Frame("", 0.0, np.zeros((0, 0, 3), np.uint8))  # the last frame that was read
        self.video: Iterator[Frame] = iter(())  # the frames after it

    def __call__(self, records: Iterable[Record]) -> Iterator[Record]:
        """The same records. Raises InputError if a drawing would overwrite its photo, DiskFullError."""
        faces: list[Record] = []
        for record in records:
            if not record.face:  # the first record of another photo
                self._write(faces)
                faces = []
            yield record
            faces += [record] if record.status == "ok" else []
        self._write(faces)

    def _write(self, faces: Sequence[Record]) -> None:
        """Draw one photo, given all its faces; none if there are none."""
        if not faces:
            return
        source, path = faces[0].source, drawing_path(self.folder, faces[0])
        if path.exists() and path.samefile(source):
            raise InputError(f"--draw {self.folder} would overwrite the photo {path}", hint="name another folder")
        try:
            photo = self._read(faces[0])
            write_drawing(free_path(self.folder, faces[0]), draw(photo, faces), faces[0])
        except (UnreadableError, StopIteration):  # it could be read a moment ago
            self.failed += 1
            log.warning("%s could not be read again and is not drawn", source)
        except OSError as error:
            self.failed += 1
            log.warning("%s could not be drawn: %s", source, error)

    def _read(self, record: Record) -> Image.Image:
        """The photo, or the frame of a video. Videos are decoded a second time, because all frames would fill memory."""
        if record.time is None:
            return read_picture(Path(record.source))
        if self.frame.source != record.source or self.frame.time > record.time:
            self.video = frames(record.source, self.every)
            self.frame = next(self.video)
        while self.frame.time < record.time:
            self.frame = next(self.video)
        return Image.fromarray(self.frame.photo)
