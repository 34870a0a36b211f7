"""Pictures without faces, drawn by code or cut from scikit-image's, to count false faces on. All are seeded."""

from __future__ import annotations

from collections.abc import Callable

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from skimage import data

from agecli.images.alignment import Photo

Rng = np.random.Generator
# astronaut and lfw_subset show faces; camera shows a man from afar, chelsea a cat, and both are left out as well
TEXTURES = (
    "brick",
    "cell",
    "coffee",
    "coins",
    "grass",
    "gravel",
    "hubble_deep_field",
    "moon",
    "retina",
    "rocket",
    "clock",
    "horse",
    "page",
    "text",
    "immunohistochemistry",
    "logo",
    "checkerboard",
    "motorcycle",
)
WORDS = ("the", "age", "of", "a", "face", "by", "deep", "random", "forests", "each", "leaf", "holds", "distributions")


def faceless(number: int, seed: int) -> tuple[str, Photo]:
    """The kind and the pixels (H, W, 3) of a picture without a face, 0.1 to 12 megapixels."""
    rng = np.random.default_rng((seed, number))
    kind = list(KINDS)[number % len(KINDS)]
    height, width = (int(side) for side in rng.choice([300, 480, 720, 1080, 1600, 3000], 2))
    return kind, KINDS[kind](rng, max(height, width // 2), max(width, height // 2))


def texture(rng: Rng, height: int, width: int) -> Photo:
    """A cut of one of scikit-image's pictures without faces, resized, perhaps mirrored and turned."""
    name = str(rng.choice(TEXTURES))
    picture = data.stereo_motorcycle()[0] if name == "motorcycle" else getattr(data, name)()  # type: ignore[no-untyped-call]
    pixels = np.asarray(Image.fromarray(np.asarray(picture)).convert("RGB"))
    share = rng.uniform(0.4, 1)
    h, w = (max(16, int(side * share)) for side in pixels.shape[:2])
    top, left = (int(rng.integers(0, side - part + 1)) for side, part in zip(pixels.shape[:2], (h, w), strict=True))
    cut = np.rot90(pixels[top : top + h, left : left + w], int(rng.integers(4)))
    return np.asarray(cv2.resize(cut[:, :: int(rng.choice([-1, 1]))], (width, height)), np.uint8)


def tiled(rng: Rng, height: int, width: int) -> Photo:
    """A texture repeated at its own size, as a wall or a meadow in a large photo is."""
    tile = texture(rng, *(int(side) for side in rng.integers(100, 512, 2)))
    repeats = (-(-height // tile.shape[0]), -(-width // tile.shape[1]), 1)
    return np.ascontiguousarray(np.tile(tile, repeats)[:height, :width])


def noise(rng: Rng, height: int, width: int) -> Photo:
    """Clouds: a sum of smoothed noise at several scales."""
    total = np.zeros((height, width, 3), np.float32)
    for octave in range(2, 9):
        coarse = rng.normal(size=(height // 2**octave + 2, width // 2**octave + 2, 3)).astype(np.float32)
        total += cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC) * 2 ** (octave / 2)
    return np.asarray(cv2.normalize(total, np.zeros(0), 0, 255, cv2.NORM_MINMAX), np.uint8)


def stripes(rng: Rng, height: int, width: int) -> Photo:
    """Stripes or a plaid of two colours at any angle."""
    y, x = np.mgrid[:height, :width].astype(np.float32)
    angle, period = rng.uniform(0, np.pi), rng.uniform(6, 120)
    wave = np.sin((x * np.cos(angle) + y * np.sin(angle)) * 2 * np.pi / period)
    if rng.random() < 0.5:
        wave = wave + np.sin((x * np.sin(angle) - y * np.cos(angle)) * 2 * np.pi / period)
    one, two = rng.integers(0, 256, (2, 3))
    share = (wave - wave.min()) / (wave.max() - wave.min())
    return np.asarray(one + share[..., None] * (two - one), np.uint8)


def text(rng: Rng, height: int, width: int) -> Photo:
    """A page of words in one size."""
    page = Image.new("RGB", (width, height), "white")
    canvas, size = ImageDraw.Draw(page), int(rng.integers(10, 60))
    font = ImageFont.load_default(size)
    for top in range(size, height - size, int(size * 1.4)):
        words = " ".join(rng.choice(WORDS, 3 + width // (5 * size)))
        canvas.text((size, top), words, fill=tuple(int(c) for c in rng.integers(0, 120, 3)), font=font)
    return np.asarray(page)


def smileys(rng: Rng, height: int, width: int) -> Photo:
    """Round cartoons with two dots or circles as eyes and an arc as mouth: no faces of people."""
    picture = Image.fromarray(_backdrop(rng, height, width))
    canvas = ImageDraw.Draw(picture)
    for _ in range(int(rng.integers(1, 8))):
        r = int(rng.integers(15, max(16, min(height, width) // 5)))
        x, y = int(rng.integers(r, width - r)), int(rng.integers(r, height - r))
        line, eye = max(1, r // 12), r * rng.uniform(0.08, 0.2)
        fill = tuple(int(c) for c in rng.choice([[255, 220, 60], [255, 255, 255], [240, 190, 150], [120, 200, 90]]))
        canvas.ellipse((x - r, y - r, x + r, y + r), fill=fill, outline="black", width=line)
        for side in (-1, 1):
            cx, cy = x + side * 0.38 * r, y - 0.25 * r
            canvas.ellipse((cx - eye, cy - 1.3 * eye, cx + eye, cy + 1.3 * eye), fill="black")
        if rng.random() < 0.5:
            canvas.line((x, y - 0.05 * r, x - 0.06 * r, y + 0.15 * r), fill="black", width=line)  # a nose
        mouth = (x - 0.5 * r, y - 0.2 * r, x + 0.5 * r, y + 0.6 * r)
        canvas.arc(mouth, 20, 160, fill="black", width=2 * line)
    return np.asarray(picture)


def dots(rng: Rng, height: int, width: int) -> Photo:
    """Discs of any colour and size on a coloured ground: buttons, balls, pebbles."""
    picture = Image.fromarray(_backdrop(rng, height, width))
    canvas = ImageDraw.Draw(picture)
    for _ in range(int(rng.integers(20, 300))):
        r = int(rng.integers(3, 60))
        x, y = int(rng.integers(width)), int(rng.integers(height))
        canvas.ellipse((x - r, y - r, x + r, y + r), fill=tuple(int(c) for c in rng.integers(0, 256, 3)))
    return np.asarray(picture)


def clothes(rng: Rng, height: int, width: int) -> Photo:
    """Skin-coloured ovals without eyes, below a hat's brim and above a collar with buttons."""
    picture = Image.fromarray(_backdrop(rng, height, width))
    canvas = ImageDraw.Draw(picture)
    for _ in range(int(rng.integers(1, 8))):
        r = int(rng.integers(15, max(16, min(height, width) // 6)))
        x, y = int(rng.integers(r, width - r)), int(rng.integers(r, height - r))
        skin, cloth = (
            tuple(int(c) for c in rng.integers((150, 100, 80), (240, 190, 160))),
            tuple(rng.integers(0, 160, 3).tolist()),
        )
        canvas.polygon(
            [
                (x - 1.6 * r, y + 2 * r),
                (x - r // 2, y + r),
                (x, y + 1.5 * r),
                (x + r // 2, y + r),
                (x + 1.6 * r, y + 2 * r),
            ],
            fill=cloth,
        )
        canvas.ellipse((x - 0.8 * r, y - r, x + 0.8 * r, y + 1.1 * r), fill=skin)
        canvas.ellipse((x - 1.3 * r, y - 0.9 * r, x + 1.3 * r, y - 0.5 * r), fill=cloth)
        canvas.rectangle((x - 0.8 * r, y - 1.5 * r, x + 0.8 * r, y - 0.7 * r), fill=cloth)
    blurred: NDArray[np.uint8] = np.asarray(
        cv2.GaussianBlur(np.asarray(picture), (0, 0), rng.uniform(0.5, 2)), np.uint8
    )
    return blurred


def _backdrop(rng: Rng, height: int, width: int) -> Photo:
    """A plain colour, clouds or a texture."""
    if rng.random() < 0.3:
        return np.full((height, width, 3), rng.integers(0, 256, 3), np.uint8)
    return (noise if rng.random() < 0.4 else tiled)(rng, height, width)


KINDS: dict[str, Callable[[Rng, int, int], Photo]] = {
    "texture": texture,
    "tiled": tiled,
    "noise": noise,
    "stripes": stripes,
    "text": text,
    "smileys": smileys,
    "dots": dots,
    "clothes": clothes,
}
