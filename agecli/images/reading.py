"""From an image file to the input of a network: decoding, resizing and cropping, without torch."""

from __future__ import annotations

import errno
import glob
import math
import re
import warnings
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps, UnidentifiedImageError

from agecli.images.opening import FORMATS, NotAPictureError, TooLargeError, open_picture
from agecli.images.opening import UnreadableError as UnreadableError

Pixels = NDArray[np.uint8]  # (3, H, W), RGB
MOST_PIXELS = 120_000_000  # of an image, as its header says; phones make up to 108 million
MOST_DECODED = 25_000_000  # pixels in which faces are searched: with them, a worker stays below a gigabyte
JPEG = ("JPEG", "MPO")  # decoded in a reduced size in a fraction of the time
WHOLE = 8_000_000  # pixels of an image that is converted at once
ORIENTATION = 0x0112  # EXIF tag
NOT_REACHED = {errno.ELOOP: "it is a link that leads to itself", errno.ENAMETOOLONG: "its name is too long"}
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


def read_picture(path: Path) -> Image.Image:
    """An image as 8-bit RGB, turned as its EXIF orientation says; the first frame, on white where it is transparent.

    Raises UnreadableError for any file that can't be decoded.

        read_picture(Path("photo.jpg")).size
    """
    try:
        return read_reduced(path, MOST_PIXELS)[0]
    except MemoryError:
        raise UnreadableError("there is not enough memory for it") from None


def read_reduced(
    source: Path | BinaryIO,
    most: int = MOST_DECODED,
    most_pixels: int = MOST_PIXELS,
    formats: Collection[str] = FORMATS,
    most_of_jpeg: int = MOST_PIXELS,
) -> tuple[Image.Image, float]:
    """As `read_picture`, with at most so many pixels, and the scale: sides of the photo / sides of the returned image.

    source: a path, or an open file;   most_pixels, formats: a picture with more pixels, as its header says, or in another
    format is not decoded;   most_of_jpeg: as `most`, for a JPEG.
    The sides are divided by the least whole number that is enough; a JPEG is decoded in its reduced size.
    Raises UnreadableError for any file that can't be decoded (TooLargeError, NotAPictureError if it was not tried), and
    MemoryError.

        image, scale = read_reduced(Path("photo.jpg"))
        box_in_photo = [value * scale for value in box_in_image]
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of odd metadata, and of large pictures: our own limit is below
            with open_picture(source, formats) as image:
                return _decode(image, min(most, most_of_jpeg) if image.format in JPEG else most, most_pixels)
    except (UnreadableError, MemoryError):
        raise
    except FileNotFoundError:
        raise UnreadableError(why_not_there(Path(str(source)))) from None
    except IsADirectoryError:
        raise UnreadableError("it is a folder without pictures") from None
    except PermissionError:
        raise UnreadableError("it may not be read: permission denied") from None
    except UnidentifiedImageError:
        kind = "an empty file" if _is_empty(source) else "not a picture, or of a kind that can't be read"
        raise NotAPictureError(f"it is {kind}") from None
    except Image.DecompressionBombError:
        raise TooLargeError("it is too large: shrink it first") from None
    except OSError as error:
        if error.errno in NOT_REACHED:
            raise UnreadableError(NOT_REACHED[error.errno]) from None
        raise UnreadableError(f"it is damaged: {error}") from error
    except Exception as error:  # a damaged file can raise almost anything inside its decoder
        raise UnreadableError(f"it is damaged: {error}") from error


def _is_empty(source: Path | BinaryIO) -> bool:
    """Whether a file that is named has no content."""
    with suppress(OSError):
        return isinstance(source, Path) and source.stat().st_size == 0
    return False


def why_not_there(path: Path) -> str:
    """The reason for the user why a path is not a file: a URL, a glob that matches nothing, or a missing file."""
    name = str(path)
    if re.match(r"https?:/", name):  # a path has one slash of the two left
        return "it is an address, not a file: `agecli predict` reads it, with the extra `remote`"
    return "no file matches this pattern" if glob.has_magic(name) else "there is no such file"


def upright_rgb(image: Image.Image) -> Image.Image:
    """An image turned as its EXIF orientation says, in 8-bit RGB, on white where it is transparent."""
    return _to_rgb(ImageOps.exif_transpose(image), _is_deep(image))


def _decode(image: Image.Image, most: int, most_pixels: int) -> tuple[Image.Image, float]:
    """Decode an opened image, upright and in RGB, with at most `most` pixels; and its scale."""
    width, height = image.size
    if width * height > most_pixels:
        raise TooLargeError(f"it is too large, {width} x {height} pixels: shrink it first")
    factor = math.ceil(math.sqrt(width * height / most))
    size = -(-width // factor), -(-height // factor)
    if factor > 1:
        image.draft(None, size)  # a JPEG is then decoded with sides of at least this size; no effect on others
    image.load()
    if image.size != (width, height):
        rgb = upright_rgb(image.resize(size, Image.Resampling.BOX))
    elif factor > 1 or width * height > WHOLE:
        rgb = _in_strips(image, factor)
    else:
        rgb = upright_rgb(image)
    return rgb, max(width, height) / max(rgb.size)


def _in_strips(image: Image.Image, factor: int) -> Image.Image:
    """`upright_rgb` of a large image, with its sides divided by `factor`; converted in strips, which takes less memory."""
    rgb = Image.new("RGB", (-(-image.width // factor), -(-image.height // factor)))
    rows, deep = 256 * factor, _is_deep(image)
    for top in range(0, image.height, rows):
        strip = image.crop((0, top, image.width, min(image.height, top + rows)))
        rgb.paste(_to_rgb(strip, deep).reduce(factor), (0, top // factor))
    orientation = image.getexif().get(ORIENTATION, 1)
    if orientation == 1:
        return rgb
    rgb.getexif()[ORIENTATION] = orientation
    return ImageOps.exif_transpose(rgb)


def _is_deep(image: Image.Image) -> bool:
    """Whether an image has values above 255: 16 bits, or 16 bits in 32."""
    return image.mode.startswith("I") and float(image.getextrema()[1]) > 255  # type: ignore[arg-type]


def _to_rgb(image: Image.Image, deep: bool) -> Image.Image:
    """An image of any mode as 8-bit RGB.   deep: its values are 16 bits, which Pillow would clip at 255."""
    if image.mode.startswith("I"):
        values = np.asarray(image, dtype=np.float32)
        return Image.fromarray((values / (257 if deep else 1)).clip(0, 255).astype(np.uint8)).convert("RGB")
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


def cut_aligned(face: NDArray[np.uint8], spec: PictureSpec) -> Pixels:
    """As `cut`, for an aligned face as an array (H, W, 3); one that has its size already is only cropped."""
    if face.shape[:2] != (spec.full, spec.full):
        return cut(Image.fromarray(face), spec)
    start = (spec.full - spec.size) // 2
    inside = slice(start, start + spec.size)
    return np.stack(cv2.split(face[inside, inside])).astype(np.uint8, copy=False)
