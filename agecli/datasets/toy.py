"""Cartoon faces that age: a small data set that can be made anywhere, to try the commands and to test them.

Children have large eyes low in a round face; adults' faces are longer; wrinkles and grey hair come with the years. Each
subject keeps a skin colour, a hair colour and a face shape through several ages.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from agecli.core.errors import InputError
from agecli.core.files import write_bytes, write_csv
from agecli.core.seeding import generator
from agecli.images.encoding import encode

SIDE = 160  # pixels
FINE = 2  # drawn at twice the size, for smooth edges
FACES_PER_SUBJECT = 6
WHITE = (250, 250, 250)
Colour = tuple[int, int, int]


class _Shape(NamedTuple):
    """Where a face is on its canvas, in pixels, and what its age did to it."""

    x: float  # centre
    y: float
    w: float  # half the width
    h: float  # half the height
    grown: float  # 0 a baby, 1 an adult
    old: float  # 0 young, 1 old


class _Colours(NamedTuple):
    """The colours of a face, RGB."""

    skin: Colour
    hair: Colour
    iris: Colour
    lines: Colour


def draw_faces(folder: Path, count: int, seed: int = 0) -> None:
    """Draw `count` faces into `folder/images`, six per subject, with a labels.csv (path, age, subject) in the folder.

    Raises InputError if the folder is not empty.

        draw_faces(Path("toy"), 600)
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} exists and is not empty", hint="name a new folder for the drawn faces")
    rows = []
    for number in range(count):
        subject, photo = divmod(number, FACES_PER_SUBJECT)
        age = int(generator(seed, "age", subject, photo).integers(1, 90))
        path = f"images/{subject:04d}_{photo}_{age:02d}.jpg"
        face = draw_face(age, generator(seed, "subject", subject), generator(seed, "photo", subject, photo))
        write_bytes(folder / path, encode(face, "JPEG", quality=90), sync=False)
        rows.append({"path": path, "age": age, "subject": f"{subject:04d}"})
    write_csv(folder / "labels.csv", rows, ("path", "age", "subject"))


def draw_face(age: int, person: np.random.Generator, photo: np.random.Generator) -> Image.Image:
    """One face of an age in years, 160 x 160 pixels, RGB.

    person: draws what a subject keeps: colours and shape.   photo: draws what differs between photos: place, light, noise.
    """
    skin = _blend((255, 224, 196), (120, 76, 50), person.random())
    hair = _blend(_blend((40, 26, 18), (190, 140, 70), person.random()), (225, 225, 225), _rise(age, 35, 75))
    iris = _blend((60, 40, 20), (90, 130, 170), person.random())
    width, nose = person.uniform(0.9, 1.1), person.uniform(0.8, 1.2)
    colours = _Colours(skin, hair, iris, _blend(skin, (60, 30, 20), 0.45))
    grown, old = _rise(age, 0, 20), _rise(age, 25, 85)
    canvas = SIDE * FINE
    image = Image.new("RGB", (canvas, canvas), _blend((60, 90, 110), (200, 190, 170), photo.random()))
    draw = ImageDraw.Draw(image)
    x, y = canvas * (0.5 + photo.uniform(-0.03, 0.03)), canvas * (0.52 + photo.uniform(-0.03, 0.03))
    face = _Shape(x, y, canvas * 0.33 * width * (1 - 0.1 * grown), canvas * (0.36 + 0.06 * grown), grown, old)
    _oval(draw, x, y - 0.12 * face.h, 1.12 * face.w, 1.05 * face.h, hair)
    _oval(draw, x, y, face.w, face.h, skin)
    for side in (-1, 1):
        _draw_half(draw, face, side, colours)
    _draw_middle(draw, face, nose, colours)
    image = image.resize((SIDE, SIDE), Image.Resampling.LANCZOS).filter(ImageFilter.GaussianBlur(photo.uniform(0, 0.8)))
    pixels = np.asarray(image, dtype=np.float64) * photo.uniform(0.75, 1.15) + photo.normal(0, 6, (SIDE, SIDE, 3))
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


def _draw_half(draw: ImageDraw.ImageDraw, face: _Shape, side: int, colours: _Colours) -> None:
    """Eye, brow and wrinkles of one half: side -1 is left, 1 right."""
    x, y, w, h, grown, old = face
    eye_x, eye_y, eye = x + side * 0.42 * w, y + h * (0.12 - 0.22 * grown), w * (0.26 - 0.12 * grown)
    _oval(draw, eye_x, eye_y, eye, eye * 0.7, WHITE)
    _oval(draw, eye_x, eye_y, eye * 0.5, eye * 0.6, colours.iris)
    brow = (eye_x - 1.4 * eye, eye_y - 2.2 * eye, eye_x + 1.4 * eye, eye_y + eye)
    draw.arc(brow, 200, 340, fill=colours.hair, width=int(4 + 6 * grown))
    for fold in range(round(5 * old)):  # crow's feet and bags
        bag = (eye_x - eye, eye_y + fold * 5, eye_x + eye, eye_y + eye + fold * 7)
        draw.arc(bag, 30, 150, fill=colours.lines, width=2)
    if old > 0.2:
        cheek = (x + side * 0.3 * w, y + 0.3 * h, x + side * 0.5 * w, y + 0.6 * h)
        draw.line(cheek, fill=colours.lines, width=1 + round(6 * old))


def _draw_middle(draw: ImageDraw.ImageDraw, face: _Shape, nose: float, colours: _Colours) -> None:
    """Forehead, nose and mouth."""
    x, y, w, h, grown, old = face
    for line in range(round(7 * old)):
        top = y - h * (0.45 + 0.05 * line)
        draw.arc((x - 0.6 * w, top, x + 0.6 * w, top + 0.1 * h), 200, 340, fill=colours.lines, width=2)
    draw.arc((x - 0.15 * w * nose, y, x + 0.15 * w * nose, y + 0.3 * h), 20, 160, fill=colours.lines, width=5)
    mouth = w * (0.25 + 0.12 * grown)
    lips = _blend((200, 70, 80), colours.skin, old)
    draw.chord((x - mouth, y + 0.42 * h, x + mouth, y + 0.62 * h), 10, 170, fill=lips)


def _oval(draw: ImageDraw.ImageDraw, x: float, y: float, rx: float, ry: float, fill: Colour) -> None:
    """A filled ellipse around x, y with the radii rx and ry, in pixels."""
    draw.ellipse((x - rx, y - ry, x + rx, y + ry), fill=fill)


def _rise(age: float, start: float, end: float) -> float:
    """0 up to one age, 1 from another on, linear between them."""
    return float(np.clip((age - start) / (end - start), 0, 1))


def _blend(a: Colour, b: Colour, share: float) -> Colour:
    """The colour between a (share 0) and b (share 1)."""
    return tuple(round(p + (q - p) * share) for p, q in zip(a, b, strict=True))  # type: ignore[return-value]
