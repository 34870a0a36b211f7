"""The contact sheet: a sample of crops in one image, with crosses where the eyes should be."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from PIL import Image, ImageDraw

from agecli.core.files import write_bytes
from agecli.images.alignment import Alignment
from agecli.images.encoding import encode, kind_of_name
from agecli.images.opening import open_picture

TILE = 112  # side of a crop on the sheet, in pixels
COLUMNS, ROWS = 12, 8
GREEN = (0, 255, 160)


def draw_contact_sheet(crops: Iterable[Path], total: int, alignment: Alignment, path: Path) -> None:
    """Draw up to 96 of the crops, spread evenly over the set, and write them as PNG, JPEG or WebP, by the suffix of `path`.

    total: the number of crops.

        draw_contact_sheet(crops, len(crops), Alignment(), Path("sheet.png"))
    """
    chosen = list(islice(crops, 0, None, max(1, -(-total // (COLUMNS * ROWS)))))
    sheet = Image.new("RGB", (COLUMNS * TILE, -(-max(1, len(chosen)) // COLUMNS) * TILE), "white")
    for number, crop in enumerate(chosen):
        _draw_tile(sheet, crop, number % COLUMNS * TILE, number // COLUMNS * TILE, alignment)
    exif = Image.Exif()
    exif[0x0131] = "agecli contact sheet"  # the software, by which `core.outputs` knows that it may be replaced
    write_bytes(path, encode(sheet, kind_of_name(path), exif=exif))


def _draw_tile(sheet: Image.Image, path: Path, x: int, y: int, alignment: Alignment) -> None:
    """Paste one crop at x, y (pixels of the sheet) and mark where its eyes should be."""
    with open_picture(path) as crop:
        sheet.paste(crop.resize((TILE, TILE), Image.Resampling.BOX), (x, y))
    pen = ImageDraw.Draw(sheet)
    scale = TILE / alignment.size
    for eye in alignment.eyes:
        eye_x, eye_y = x + (eye[0] + 0.5) * scale, y + (eye[1] + 0.5) * scale
        pen.line((eye_x - 6, eye_y, eye_x + 6, eye_y), fill=GREEN)
        pen.line((eye_x, eye_y - 4, eye_x, eye_y + 4), fill=GREEN)
