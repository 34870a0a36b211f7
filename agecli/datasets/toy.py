"""Cartoon faces that age: a small data set that can be made anywhere, to try the commands and to test them.

Children have large eyes low in a round face; adults' faces are longer; wrinkles and grey hair come with the years. Each
subject keeps a skin, a hair colour and a face of their own through several ages.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from agecli.core.errors import InputError
from agecli.core.files import write_csv
from agecli.core.seeding import generator

SIDE = 160
FINE = 2  # drawn at twice the size, for smooth edges
FACES_PER_SUBJECT = 6
Colour = tuple[int, int, int]


def draw_faces(folder: Path, count: int, seed: int = 0) -> None:
    """`count` faces with a labels.csv beside them."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} is there already and not empty", hint="name a new folder for the drawn faces")
    (folder / "images").mkdir(parents=True, exist_ok=True)
    rows = []
    for number in range(count):
        subject, rank = divmod(number, FACES_PER_SUBJECT)
        age = int(generator(seed, "age", subject, rank).integers(1, 90))
        path = f"images/{subject:04d}_{rank}_{age:02d}.jpg"
        draw_face(age, generator(seed, "subject", subject), generator(seed, "photo", subject, rank)).save(
            folder / path, quality=90
        )
        rows.append({"path": path, "age": age, "subject": f"{subject:04d}"})
    write_csv(folder / "labels.csv", rows, ("path", "age", "subject"))


def draw_face(age: int, person: np.random.Generator, photo: np.random.Generator) -> Image.Image:
    """One face. `person` draws what a subject keeps, `photo` what changes from photo to photo."""
    skin = _blend((255, 224, 196), (120, 76, 50), person.random())
    hair = _blend(_blend((40, 26, 18), (190, 140, 70), person.random()), (225, 225, 225), _rise(age, 35, 75))
    iris = _blend((60, 40, 20), (90, 130, 170), person.random())
    width_of_face, nose = person.uniform(0.9, 1.1), person.uniform(0.8, 1.2)
    grown, old = _rise(age, 0, 20), _rise(age, 25, 85)
    scale = SIDE * FINE
    image = Image.new("RGB", (scale, scale), _blend((60, 90, 110), (200, 190, 170), photo.random()))
    draw = ImageDraw.Draw(image)
    x, y = scale * (0.5 + photo.uniform(-0.03, 0.03)), scale * (0.52 + photo.uniform(-0.03, 0.03))
    w, h = scale * 0.33 * width_of_face * (1 - 0.1 * grown), scale * (0.36 + 0.06 * grown)

    def oval(cx: float, cy: float, rx: float, ry: float, fill: Colour) -> None:
        draw.ellipse((cx - rx, cy - ry, cx + rx, cy + ry), fill=fill)

    oval(x, y - 0.12 * h, 1.12 * w, 1.05 * h, hair)
    oval(x, y, w, h, skin)
    eye_y, eye = y + h * (0.12 - 0.22 * grown), w * (0.26 - 0.12 * grown)
    dark = _blend(skin, (60, 30, 20), 0.45)
    for side in (-1, 1):
        ex = x + side * 0.42 * w
        oval(ex, eye_y, eye, eye * 0.7, (250, 250, 250))
        oval(ex, eye_y, eye * 0.5, eye * 0.6, iris)
        draw.arc(
            (ex - 1.4 * eye, eye_y - 2.2 * eye, ex + 1.4 * eye, eye_y + eye),
            200,
            340,
            fill=hair,
            width=int(4 + 6 * grown),
        )
        for fold in range(round(5 * old)):  # crow's feet and bags
            draw.arc((ex - eye, eye_y + fold * 5, ex + eye, eye_y + eye + fold * 7), 30, 150, fill=dark, width=2)
        if old > 0.2:
            draw.line(
                (x + side * 0.3 * w, y + 0.3 * h, x + side * 0.5 * w, y + 0.6 * h), fill=dark, width=1 + round(6 * old)
            )
    for line in range(round(7 * old)):  # the forehead
        top = y - h * (0.45 + 0.05 * line)
        draw.arc((x - 0.6 * w, top, x + 0.6 * w, top + 0.1 * h), 200, 340, fill=dark, width=2)
    draw.arc((x - 0.15 * w * nose, y, x + 0.15 * w * nose, y + 0.3 * h), 20, 160, fill=dark, width=5)
    mouth = w * (0.25 + 0.12 * grown)
    draw.chord((x - mouth, y + 0.42 * h, x + mouth, y + 0.62 * h), 10, 170, fill=_blend((200, 70, 80), skin, old))
    image = image.resize((SIDE, SIDE), Image.Resampling.LANCZOS).filter(ImageFilter.GaussianBlur(photo.uniform(0, 0.8)))
    pixels = np.asarray(image, dtype=np.float64) * photo.uniform(0.75, 1.15) + photo.normal(0, 6, (SIDE, SIDE, 3))
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


def _rise(age: float, start: float, end: float) -> float:
    return float(np.clip((age - start) / (end - start), 0, 1))


def _blend(a: Colour, b: Colour, share: float) -> Colour:
    return tuple(round(p + (q - p) * share) for p, q in zip(a, b, strict=True))  # type: ignore[return-value]
