"""Fuzzed pictures and videos: good files of every format that is read, each with a face, and mutations of them."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from PIL import Image

from agecli.images.heif import register_heif
from benchmarks.attack.mutations import Rng, mutate

EXAMPLE = Path(__file__).parent.parent.parent / "docs/example.jpg"
FACE = (150, 40, 310, 200)  # of the example: the face with some of its surroundings
SIDES = (48, 100, 160)  # pixels
OTHER_ENDING = 0.1  # share of files with the ending of another format
ENCODINGS: dict[str, tuple[str, str, str, dict[str, Any]]] = {  # name -> ending, Pillow's format, mode, options
    "jpeg": (".jpg", "JPEG", "RGB", {}),
    "jpeg, progressive": (".jpeg", "JPEG", "RGB", {"progressive": True, "quality": 95}),
    "jpeg, grey": (".jpg", "JPEG", "L", {}),
    "jpeg, CMYK": (".jpg", "JPEG", "CMYK", {}),
    "png": (".png", "PNG", "RGB", {}),
    "png, transparent": (".png", "PNG", "RGBA", {}),
    "png, palette": (".png", "PNG", "P", {}),
    "png, 16 bits": (".png", "PNG", "I;16", {}),
    "gif": (".gif", "GIF", "P", {}),
    "webp": (".webp", "WEBP", "RGB", {}),
    "webp, lossless": (".webp", "WEBP", "RGBA", {"lossless": True}),
    "bmp": (".bmp", "BMP", "RGB", {}),
    "tiff": (".tif", "TIFF", "RGB", {}),
    "tiff, LZW": (".tiff", "TIFF", "RGB", {"compression": "tiff_lzw"}),
    "tiff, deflate": (".tif", "TIFF", "L", {"compression": "tiff_adobe_deflate"}),
    "tiff, JPEG": (".tif", "TIFF", "RGB", {"compression": "jpeg"}),
    "tiff, packbits": (".tif", "TIFF", "RGB", {"compression": "packbits"}),
    "ppm": (".png", "PPM", "RGB", {}),
    "jpeg 2000": (".jpg", "JPEG2000", "RGB", {}),
    "mpo": (".jpg", "MPO", "RGB", {"save_all": True}),
    "avif": (".avif", "AVIF", "RGB", {}),
    "heif": (".heic", "HEIF", "RGB", {}),
}
HUGE: tuple[tuple[str, str, str, dict[str, Any]], ...] = (  # ending, Pillow's format, mode, options
    (".png", "PNG", "1", {}),
    (".png", "PNG", "RGB", {"compress_level": 1}),
    (".png", "PNG", "RGBA", {"compress_level": 1}),
    (".png", "PNG", "I;16", {"compress_level": 1}),
    (".jpg", "JPEG", "RGB", {}),
    (".jpg", "JPEG", "RGB", {"progressive": True}),
    (".jpg", "JPEG", "CMYK", {}),
    (".tif", "TIFF", "RGB", {"compression": "tiff_lzw"}),
    (".tif", "TIFF", "RGB", {"compression": "tiff_adobe_deflate"}),
    (".gif", "GIF", "P", {}),
    (".bmp", "BMP", "1", {}),
)
MOST_PIXELS = 119_000_000  # of a huge picture; beyond 120 million it is refused
VIDEOS = {".mp4": "mp4v", ".avi": "MJPG", ".mkv": "mp4v", ".mov": "mp4v"}  # ending -> codec


@cache
def pictures() -> dict[str, tuple[str, bytes]]:
    """Good pictures: name -> ending and content, every encoding in every size."""
    register_heif()
    found = {}
    with Image.open(EXAMPLE) as example:
        face = example.convert("RGB").crop(FACE)
    for side in SIDES:
        small = face.resize((side, side))
        for name, (ending, kind, mode, options) in ENCODINGS.items():
            image = small.convert("L").convert("I").convert("I;16") if mode == "I;16" else small.convert(mode)
            more = {"append_images": [image.copy()]} if kind in ("GIF", "MPO") else {}
            content = io.BytesIO()
            image.save(content, kind, **options, **more)
            found[f"{name}, {side}"] = ending, content.getvalue()
    return found


@cache
def videos() -> dict[str, tuple[str, bytes]]:
    """Good videos of a second, in which a face moves: name -> ending and content, for each codec that can be written."""
    with Image.open(EXAMPLE) as example:
        pixels = np.asarray(example.convert("RGB").crop((100, 0, 350, 250)).resize((160, 160)))[:, :, ::-1]
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for ending, codec in VIDEOS.items():
            path = Path(folder) / f"video{ending}"
            writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*codec), 10, (160, 160))
            for shift in range(10):
                writer.write(np.ascontiguousarray(np.roll(pixels, shift, axis=1)))
            writer.release()
            if path.exists() and path.stat().st_size:
                found[ending] = ending, path.read_bytes()
    return found


def write_fuzzed(folder: Path, good: dict[str, tuple[str, bytes]], count: int, rng: Rng) -> list[Path]:
    """Write so many mutated files, with names that sort in their order; every 20th is a good one."""
    folder.mkdir(parents=True, exist_ok=True)
    return [_write(folder, number, content) for number, content in enumerate(_fuzzed(good, count, rng))]


def write_huge(folder: Path, number: int, rng: Rng) -> Path:
    """Write a picture with many pixels of a few colours: plain, or with a face in it."""
    ending, kind, mode, options = HUGE[int(rng.integers(len(HUGE)))]
    width = int(rng.integers(3000, 30_000))
    size = width, int(min(width * 4, MOST_PIXELS // width) * rng.uniform(0.3, 1))
    image = Image.new("RGB", size, tuple(int(value) for value in rng.integers(0, 256, 3)))
    if rng.random() < 0.5:
        with Image.open(EXAMPLE) as example:
            image.paste(example.convert("RGB"), (size[0] // 3, size[1] // 3))
    path = folder / f"{number:06}{ending}"
    converted = image.convert("L").convert("I").convert("I;16") if mode == "I;16" else image.convert(mode)
    converted.save(path, kind, **options)
    return path


def _write(folder: Path, number: int, file: tuple[str, bytes]) -> Path:
    path = folder / f"{number:06}{file[0]}"
    path.write_bytes(file[1])
    return path


def _fuzzed(good: dict[str, tuple[str, bytes]], count: int, rng: Rng) -> Iterator[tuple[str, bytes]]:
    """Endings and contents."""
    names, contents = list(good), [content for _, content in good.values()]
    for number in range(count):
        ending, content = good[names[number % len(names)] if number < len(names) else str(rng.choice(names))]
        if rng.random() < OTHER_ENDING:
            ending = good[str(rng.choice(names))][0]
        yield ending, content if number % 20 == 19 else mutate(content, contents, rng)
