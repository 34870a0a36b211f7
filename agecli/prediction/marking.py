"""Marking: boxes, ages and intervals drawn on a photo or a frame, readable on any background."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from PIL import Image, ImageDraw, ImageFont

from agecli.core.ages import span
from agecli.core.records import Box, Record
from agecli.prediction.labels import Label, Rectangle, place_labels

TEXT, SOFT_TEXT, BACKGROUND = (255, 255, 255), (200, 204, 212), (20, 24, 33)
ACCENT, ABSTAINED = (255, 196, 61), (170, 170, 170)
Colour = tuple[int, int, int]
Font = ImageFont.FreeTypeFont | ImageFont.ImageFont
Held = tuple[Label, Rectangle]  # a label, and the box of its face


def draw(photo: Image.Image, records: Sequence[Record]) -> Image.Image:
    """A copy of a photo, in RGB, with all its faces marked.

    photo: upright, as `box` is in pixels of the upright photo.   records: of this photo; those without an age are
    ignored. Labels are as large as the faces and the photo allow. They shrink and step aside so that no face and no other
    label is covered, where there is room.

    Example: `agecli.draw(image, list(estimator.predict(image))).save("drawn.jpg")`
    """
    drawn = photo.convert("RGB")
    mark_faces(drawn, records, {})
    return drawn


def mark_faces(photo: Image.Image, records: Sequence[Record], held: dict[int, Held]) -> None:
    """Draw on a photo in RGB.   held: by track, where labels were in the last frame of a video; updated."""
    canvas = ImageDraw.Draw(photo)
    width = max(2 if min(photo.size) >= 150 else 1, round(min(photo.size) / 250))
    faces = [record for record in records if record.box is not None and record.age is not None]
    boxes = [_rectangle(record.box, 2 * width) for record in faces if record.box is not None]
    texts = [_variants(record, photo.size) for record in faces]
    sizes = [[text.size for text in variants] for variants in texts]
    before = [
        _moved(held.get(record.track), box) if record.track is not None else None
        for record, box in zip(faces, boxes, strict=True)
    ]
    labels = place_labels(photo.size, boxes, sizes, width, before)
    for record in faces:
        assert record.box is not None
        thin = max(1, min(width, round(record.box[2] / 20)))  # the box of a small face leaves it visible
        for margin, colour, line in ((thin, BACKGROUND, 3 * thin), (0, _colour(record), thin)):  # visible on both
            canvas.rounded_rectangle(_rectangle(record.box, margin), 4 * thin, outline=colour, width=line)
    held.clear()
    for record, box, variants, label in zip(faces, boxes, texts, labels, strict=True):
        _draw_label(canvas, record, box, variants[label.variant], label.place, width)
        if record.track is not None:
            held[record.track] = (label, box)


def _rectangle(box: Box, margin: float) -> Rectangle:
    x, y, w, h = box
    return x - margin, y - margin, x + w + margin, y + h + margin


def _moved(held: Held | None, box: Rectangle) -> Label | None:
    """A label moved as its face has moved."""
    if held is None:
        return None
    label, old = held
    dx, dy = (box[0] + box[2] - old[0] - old[2]) / 2, (box[1] + box[3] - old[1] - old[3]) / 2
    left, top, right, bottom = label.place
    return Label((left + dx, top + dy, right + dx, bottom + dy), label.variant)


def _colour(record: Record) -> Colour:
    return ABSTAINED if record.abstain else ACCENT


@dataclass(frozen=True)
class Text:
    """What a label says, and how large: the age, and beside it, smaller, the interval, which may be empty."""

    age: str
    interval: str
    font_size: int

    @property
    def padding(self) -> float:
        """The space around the text, in pixels."""
        return self.font_size * 0.3

    @property
    def fonts(self) -> tuple[Font, Font]:
        """The fonts of the age and the interval."""
        return _font(self.font_size), _font(round(self.font_size * 0.72))

    @property
    def widths(self) -> tuple[float, float]:
        """The widths of the age and the interval, in pixels."""
        large, small = self.fonts
        return large.getlength(self.age), small.getlength(self.interval) if self.interval else 0.0

    @property
    def size(self) -> tuple[float, float]:
        """The width and height of the label."""
        return sum(self.widths) + (3 if self.interval else 2) * self.padding, self.font_size * 1.35


@lru_cache(maxsize=64)
def _font(size: int) -> Font:
    return ImageFont.load_default(size)


def _variants(record: Record, size: tuple[int, int]) -> list[Text]:
    """The label of a record in several sizes, the preferred one first; the last ones have no interval.

    The preferred size depends on the face, within limits that depend on the photo: when the whole photo is looked at, on a
    screen of a thousand pixels say, the smallest text is still legible.
    """
    assert record.box is not None
    assert record.low is not None
    assert record.high is not None
    age, interval = f"{record.age:.0f}{'?' if record.abstain else ''}", span(record.low, record.high)
    least = max(10, round(max(size) / 90))
    preferred = max(least, min(max(13, max(size) // 55, round(record.box[2] / 4.5)), max(13, min(size) // 11)))
    sizes = sorted({preferred, *(max(least, round(preferred * share)) for share in (0.8, 0.64, 0.0))}, reverse=True)
    return [*(Text(age, interval, each) for each in sizes), *(Text(age, "", each) for each in sizes)]


def _draw_label(
    canvas: ImageDraw.ImageDraw, record: Record, box: Rectangle, text: Text, place: Rectangle, width: int
) -> None:
    """Write the age and its interval on a dark rectangle; a line leads to the face if the label is away from it."""
    left, top, right, bottom = place
    near = (min(max((left + right) / 2, box[0]), box[2]), min(max((top + bottom) / 2, box[1]), box[3]))  # on the box
    ours = (min(max(near[0], left), right), min(max(near[1], top), bottom))
    if abs(near[0] - ours[0]) + abs(near[1] - ours[1]) > 2 * width:
        for colour, line in ((BACKGROUND, 3 * width), (_colour(record), width)):
            canvas.line((*near, *ours), colour, line)
    canvas.rounded_rectangle(place, text.padding, fill=BACKGROUND, outline=_colour(record), width=max(1, width // 2))
    (large, small), middle = text.fonts, (top + bottom) / 2
    canvas.text((left + text.padding, middle), text.age, TEXT, large, anchor="lm")
    if text.interval:
        canvas.text((left + 2 * text.padding + text.widths[0], middle), text.interval, SOFT_TEXT, small, anchor="lm")
