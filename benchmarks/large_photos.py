"""Large portraits: the CPU time per photo with the main face's reduced reading and without, and by how much ages differ.

    python -m benchmarks.large_photos FOLDER [--photos 100] [--megapixels 12]

Each photo of the folder is enlarged to so many megapixels and saved as a JPEG of quality 92. Measured are `FaceCropper`, which decodes
it, finds the main face and aligns it, as `predict --largest` does, and the ages of both crops.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from pathlib import Path
from unittest import mock

import numpy as np
from PIL import Image

from agecli.core import ages
from agecli.images import face_finder
from agecli.images.crops import FaceCropper
from agecli.images.reading import MOST_PIXELS
from agecli.model.bundled import named
from agecli.model.predictors import load_predictor
from agecli.prediction.paths import expand


def main() -> None:
    """Measure, and print a line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--photos", type=int, default=100)
    parser.add_argument("--megapixels", type=float, default=12)
    asked = parser.parse_args()
    model = load_predictor(named(None, ".onnx"))
    cropper = FaceCropper(model.card.picture, model.card.alignment, largest=True)
    names = [str(name) for name in expand([str(asked.folder)])]
    seconds = np.zeros(2)
    rows: list[list[float]] = []
    with tempfile.TemporaryDirectory() as folder:
        large = Path(folder) / "large.jpg"
        for name in names[:: max(1, len(names) // asked.photos)][: asked.photos]:
            with Image.open(name) as photo:
                factor = math.sqrt(asked.megapixels * 1e6 / (photo.width * photo.height))
                size = round(photo.width * factor), round(photo.height * factor)
                photo.convert("RGB").resize(size, Image.Resampling.BICUBIC).save(large, quality=92)
            row = []
            for number, enough in enumerate((MOST_PIXELS, face_finder.ENOUGH_PIXELS)):
                with mock.patch.object(face_finder, "ENOUGH_PIXELS", enough):
                    began = time.process_time()
                    crops = cropper(str(large)).crops
                    seconds[number] += time.process_time() - began
                if crops:
                    pmf = model.pmf(crops[0].pixels[None])
                    row.append(float(ages.read(pmf, model.card.readout, model.card.grid)[0]))
            if len(row) == 2:
                rows.append(row)
    whole, reduced = np.array(rows).T
    change = np.abs(whole - reduced)
    print(
        f"{len(rows)} faces: {seconds[0] / len(rows) * 1e3:.0f} ms as a whole, {seconds[1] / len(rows) * 1e3:.0f} ms reduced"
        f" ({seconds[1] / seconds[0]:.2f}); ages differ by {change.mean():.2f} years on average, {change.max():.1f} at most"
    )


if __name__ == "__main__":
    main()
