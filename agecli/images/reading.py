"""From an image file to the input of a network: decoding, resizing and cropping, without torch."""

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

from agecli.core.errors import MissingError
from agecli.images.heif import HEADER, is_heif, register_heif

Pixels = NDArray[np.uint8]  # (3, H, W), RGB
MOST_PIXELS = 120_000_000  # of an image; phones make up to 108 million, and decoding them takes a gigabyte
SUFFIXES = frozenset(
    {".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".bmp", ".tif", ".tiff", ".gif", ".avif", ".heic", ".heif"}
)


@dataclass(frozen=True)
class PictureSpec:
    """How an aligned face becomes the input of a network: its size, crop and normalisation."""

    size: int  # side of the network's input, in pixels
    crop_share: float  # share of the aligned face's side that the network sees
    mean: tuple[float, float, float]  # of the channels R, G, B, for pixels from 0 to 1
    std: tuple[float, float, float]
    interpolation: str = "bilinear"

    @classmethod
    def read(cls, header: Mapping[str, Any]) -> PictureSpec:
        """A spec from the header of a model file, in which tuples are lists."""
        values: dict[str, Any] = {k: tuple(value) if isinstance(value, list) else value for k, value in header.items()}
        return cls(**values)

    @property
    def full(self) -> int:
        """The side in pixels that an aligned face is resized to before the centre crop."""
        return max(self.size, round(self.size / self.crop_share))


class UnreadableError(Exception):
    """A file is missing, not an image, damaged or too large. The message is for the user."""


def read_picture(path: Path) -> Image.Image:
    """An image as 8-bit RGB, turned as its EXIF orientation says; the first frame, on white where it is transparent.

    Raises UnreadableError for any file that can't be decoded.

        read_picture(Path("photo.jpg")).size
    """
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise UnreadableError("it is no file but a device or a pipe")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd metadata, and of large pictures: our own limit is below
            _prepare_heif(path)
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
        raise UnreadableError("it is not a picture, or of a kind that can't be read") from None
    except Image.DecompressionBombError:
        raise UnreadableError("it is too large: shrink it first") from None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise UnreadableError("it is a link that leads to itself") from None
        raise UnreadableError(f"it is damaged: {error}") from error
    except Exception as error:  # a damaged file can raise almost anything inside its decoder
        raise UnreadableError(f"it is damaged: {error}") from error


def _prepare_heif(path: Path) -> None:
    """Load the reader of HEIF files if this is one. Raises UnreadableError, with what to install, if there is none."""
    with path.open("rb") as file:
        if not is_heif(file.read(HEADER)):
            return
    try:
        register_heif()
    except MissingError as error:
        raise UnreadableError(f"{error.message}: {error.hint}, or convert it to JPEG") from None


def why_not_there(path: Path) -> str:
    """The reason for the user why a path is not a file: a URL, a glob that matches nothing, or a missing file."""
    name = str(path)
    if re.match(r"https?:/", name):  # a path has one slash of the two left
        return "it is an address, not a file: download it first"
    return "no file matches this pattern" if glob.has_magic(name) else "there is no such file"


def upright_rgb(image: Image.Image) -> Image.Image:
    """An image turned as its EXIF orientation says, in 8-bit RGB, on white where it is transparent."""
    return _to_rgb(ImageOps.exif_transpose(image))


def _to_rgb(image: Image.Image) -> Image.Image:
    """An image of any mode as 8-bit RGB."""
    if image.mode.startswith("I"):  # 16 bits, or 16 bits in 32: Pillow would clip them at 255
        deep = np.asarray(image, dtype=np.float32)
        return Image.fromarray((deep / (257 if deep.max() > 255 else 1)).clip(0, 255).astype(np.uint8)).convert("RGB")
    if "A" in image.mode or "transparency" in image.info:
        clear = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", clear.size, "white"), clear).convert("RGB")
    return image.convert("RGB")


def resize(image: Image.Image, spec: PictureSpec) -> Image.Image:
    """The central square of an image, resized to `spec.full` x `spec.full` pixels."""
    side = min(image.size)
    left, top = (image.width - side) / 2, (image.height - side) / 2
    square = (left, top, left + side, top + side)
    return image.resize((spec.full, spec.full), Image.Resampling[spec.interpolation.upper()], box=square)


def centre_crop(image: Image.Image, spec: PictureSpec) -> Image.Image:
    """The central `spec.size` x `spec.size` pixels of an image."""
    left, top = (image.width - spec.size) // 2, (image.height - spec.size) // 2
    return image.crop((left, top, left + spec.size, top + spec.size))


def to_pixels(image: Image.Image) -> Pixels:
    """An RGB image as an array with the channels first, (3, H, W) uint8."""
    return np.ascontiguousarray(np.asarray(image, dtype=np.uint8).transpose(2, 0, 1))


def cut(image: Image.Image, spec: PictureSpec) -> Pixels:
    """The input of a network from an aligned face: `resize`, `centre_crop`, `to_pixels`.   (3, size, size) uint8"""
    return to_pixels(centre_crop(resize(image, spec), spec))
