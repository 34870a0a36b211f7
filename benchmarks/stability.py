"""How much the age of one face moves under eight mild changes of its photo, through the whole pipeline.

    python -m benchmarks.stability FOLDER [--model MODEL] [--faces 200] [--least 150]

For each photo with a face of at least LEAST pixels: the std of the age over the photo and its eight variants (JPEG 75,
75 % and 50 % of the size, mirrored, turned by 5 degrees each way, 20 % lighter and darker), and for each variant the mean
absolute difference to the photo itself. Detection and alignment are done anew for each variant.
"""

from __future__ import annotations

import argparse
import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image, ImageEnhance

from agecli.core import ages
from agecli.images.crops import FaceCropper
from agecli.images.reading import UnreadableError, read_picture
from agecli.model.bundled import named
from agecli.model.predictors import Predictor, load_predictor
from agecli.prediction.paths import expand

Change = Callable[[Image.Image], Image.Image]


def as_jpeg(photo: Image.Image, quality: int) -> Image.Image:
    file = io.BytesIO()
    photo.save(file, "JPEG", quality=quality)
    return Image.open(file).convert("RGB")


def resized(photo: Image.Image, share: float) -> Image.Image:
    width, height = (max(1, round(length * share)) for length in photo.size)
    return photo.resize((width, height), Image.Resampling.LANCZOS)


def turned(photo: Image.Image, degrees: float) -> Image.Image:
    return photo.rotate(degrees, Image.Resampling.BICUBIC, fillcolor=(128, 128, 128))


VARIANTS: dict[str, Change] = {
    "JPEG 75": lambda photo: as_jpeg(photo, 75),
    "75 % size": lambda photo: resized(photo, 0.75),
    "50 % size": lambda photo: resized(photo, 0.5),
    "mirrored": lambda photo: photo.transpose(Image.Transpose.FLIP_LEFT_RIGHT),
    "+5 degrees": lambda photo: turned(photo, 5),
    "-5 degrees": lambda photo: turned(photo, -5),
    "+20 % light": lambda photo: ImageEnhance.Brightness(photo).enhance(1.2),
    "-20 % light": lambda photo: ImageEnhance.Brightness(photo).enhance(0.8),
}


def age_of(photo: Image.Image, look: FaceCropper, model: Predictor) -> float:
    """The age of the largest face; NaN if none is found."""
    crops = look.crop("", photo).crops
    if not crops:
        return float("nan")
    pmf = model.pmf(crops[0].pixels[None])
    return float(ages.read(pmf, model.card.readout, model.card.grid)[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="+")
    parser.add_argument("--model", help="the bundled one if none is named")
    parser.add_argument("--faces", type=int, default=200)
    parser.add_argument("--least", type=int, default=150, help="pixels, of the shorter side of a face's box")
    asked = parser.parse_args()
    model = load_predictor(named(asked.model, ".onnx"))
    look = FaceCropper(model.card.picture, model.card.alignment, largest=True)
    large = FaceCropper(model.card.picture, model.card.alignment, largest=True, min_face=asked.least)
    files = sorted(map(str, expand(asked.folder)))
    rows: list[list[float]] = []
    for file in np.random.default_rng(0).permutation(np.array(files)):
        try:
            photo = read_picture(Path(str(file)))
        except UnreadableError:
            continue
        if not large.crop("", photo).crops:
            continue
        rows.append([age_of(photo, look, model)] + [age_of(change(photo), look, model) for change in VARIANTS.values()])
        if len(rows) == asked.faces:
            break
    if not rows:
        raise SystemExit(f"no photo there has a face of {asked.least} pixels")
    said = np.array(rows)  # (faces, 1 + variants)
    lost = int(np.isnan(said).sum())
    print(f"{len(said)} faces of at least {asked.least} pixels; no face found in {lost} of {said[:, 1:].size} variants")
    print(f"mean std over the variants: {np.nanmean(np.nanstd(said, axis=1)):.2f} years")
    for name, column in zip(VARIANTS, said[:, 1:].T, strict=True):
        apart = np.abs(column - said[:, 0])
        print(f"{name:12s} mean {np.nanmean(apart):.2f}  95 % {np.nanpercentile(apart, 95):.2f}")


if __name__ == "__main__":
    main()
