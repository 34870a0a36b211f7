"""From a picture file to the pixels a network sees: decoding and the crop. No torch here."""

from __future__ import annotations

import errno
import glob
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

Pixels = NDArray[np.uint8]
MOST_PIXELS = 120_000_000  # what phones make at most in one shot; it takes a gigabyte to open
SUFFIXES = frozenset(
    {".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".bmp", ".tif", ".tiff", ".gif", ".avif", ".heic", ".heif"}
)


@dataclass(frozen=True)
class PictureSpec:
    """How a face picture is cut for a network, and the colours that network was trained with."""

    size: int  # side of the network's input
    crop_share: float  # of the face picture's side
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    interpolation: str = "bilinear"

    @classmethod
    def read(cls, header: Mapping[str, Any]) -> PictureSpec:
        """As a model's file has it: JSON knows no tuples."""
        values: dict[str, Any] = {k: tuple(value) if isinstance(value, list) else value for k, value in header.items()}
        return cls(**values)

    @property
    def full(self) -> int:
        """The side that a face picture is resized to before it is cropped."""
        return max(self.size, round(self.size / self.crop_share))


class UnreadableError(Exception):
    """A file that is no picture, or not a whole one. The message is for people."""


def read_picture(path: Path) -> Image.Image:
    """The picture upright and in RGB: the first frame, 8 bits deep, on white where it is transparent."""
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise UnreadableError("it is no file but a device or a pipe")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd metadata, and of large pictures: our own limit is below
            with Image.open(path) as image:
                if image.width * image.height > MOST_PIXELS:
                    raise UnreadableError(f"it is too large, {image.width} x {image.height} pixels: shrink it first")
                image.load()
                return upright_rgb(image)
    except UnreadableError:
        raise
    except FileNotFoundError:
        raise UnreadableError(why_not_there(path)) from None
    except IsADirectoryError:
        raise UnreadableError("it is a folder without pictures") from None
    except PermissionError:
        raise UnreadableError("it may not be read: permission denied") from None
    except UnidentifiedImageError:
        heic = path.suffix.lower() in (".heic", ".heif")
        raise UnreadableError(
            "HEIC can't be read: convert it to JPEG" if heic else "it is not a picture, or of a kind that can't be read"
        ) from None
    except Image.DecompressionBombError:
        raise UnreadableError("it is too large: shrink it first") from None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise UnreadableError("it is a link that leads to itself") from None
        raise UnreadableError(f"it is damaged: {error}") from error
    except Exception as error:  # a damaged file can raise almost anything inside its decoder
        raise UnreadableError(f"it is damaged: {error}") from error


def why_not_there(path: Path) -> str:
    """For a name that is no file."""
    name = str(path)
    if re.match(r"https?:/", name):  # a path has one slash of the two left
        return "it is an address, not a file: download it first"
    return "no file matches this pattern" if glob.has_magic(name) else "there is no such file"


def upright_rgb(image: Image.Image) -> Image.Image:
    """The picture turned as its EXIF orientation says, in 8-bit RGB, on white where it is transparent."""
    return _to_rgb(ImageOps.exif_transpose(image))


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I"):  # 16 bits, or 16 bits kept in 32: Pillow would cut them off at 255
        deep = np.asarray(image, dtype=np.float32)
        return Image.fromarray((deep / (257 if deep.max() > 255 else 1)).clip(0, 255).astype(np.uint8)).convert("RGB")
    if "A" in image.mode or "transparency" in image.info:
        clear = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", clear.size, "white"), clear).convert("RGB")
    return image.convert("RGB")


def resize(image: Image.Image, spec: PictureSpec) -> Image.Image:
    """The square in the middle of the picture, `spec.full` pixels wide."""
    side = min(image.size)
    left, top = (image.width - side) / 2, (image.height - side) / 2
    square = (left, top, left + side, top + side)
    return image.resize((spec.full, spec.full), Image.Resampling[spec.interpolation.upper()], box=square)


def centre_crop(image: Image.Image, spec: PictureSpec) -> Image.Image:
    left, top = (image.width - spec.size) // 2, (image.height - spec.size) // 2
    return image.crop((left, top, left + spec.size, top + spec.size))


def to_pixels(image: Image.Image) -> Pixels:
    """(3, H, W)"""
    return np.ascontiguousarray(np.asarray(image, dtype=np.uint8).transpose(2, 0, 1))


def cut(image: Image.Image, spec: PictureSpec) -> Pixels:
    """The pixels of a face picture as a trained network wants them.   (3, size, size)"""
    return to_pixels(centre_crop(resize(image, spec), spec))
