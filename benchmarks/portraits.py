"""How many photos the quick look accepts as portraits, and how many of the same photos turned, which it should not.

    python -m benchmarks.portraits DATA --photos 1000 --first 3     # DATA has folders such as aaf/, each with images/

Photos are taken evenly from each folder, from number `first` on; another number gives others, if a folder has enough.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import cv2
import numpy as np

from agecli.images.folders import photos_in
from agecli.images.portraits import portrait
from agecli.images.reading import read_picture

SETS = ("wiki", "appa", "aaf", "utkface", "fgnet")


def accepted(files: list[Path]) -> list[int]:
    """The number of photos that are accepted as they are, and after one, two and three quarter turns."""
    counts = [0] * 4
    for file in files:
        photo = np.asarray(read_picture(file))
        for turn in range(4):
            counts[turn] += portrait(np.ascontiguousarray(np.rot90(photo, turn))) is not None
    return counts


def main() -> None:
    """Print a row for each folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--photos", type=int, default=1000)
    parser.add_argument("--first", type=int, default=3)
    options = parser.parse_args()
    cv2.setNumThreads(1)
    print(f"{'':<8} {'photos':>6} {'accepted':>8} {'though turned by 90':>20} {'180':>4} {'270 degrees':>11}")
    for name in SETS:
        folder = options.data / name / "images"
        if not folder.is_dir():
            continue
        names = sorted(photos_in(folder))
        step = max(1, len(names) // options.photos)
        files = [folder / name for name in names[options.first % step :: step][: options.photos]]
        upright, *turned = accepted(files)
        print(
            f"{name:<8} {len(files):>6} {upright / max(1, len(files)):>8.1%} {turned[0]:>20} {turned[1]:>4} {turned[2]:>11}"
        )


if __name__ == "__main__":
    main()
