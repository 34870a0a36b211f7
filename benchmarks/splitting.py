"""Time to recognise and split a data set of MORPH's size, relative to listing its files and reading its table.

python -m benchmarks.splitting
"""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.datasets import trees


def floor(folder: Path) -> int:
    """List the files and read the table: a lower bound."""
    files = [name for _, _, names in os.walk(folder) for name in names]
    with (folder / "morph_2008.csv").open(newline="") as file:
        return len(files) + len(list(csv.DictReader(file)))


def main() -> None:
    """Print the time of `agecli split` for several setups."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "morph"
        names = trees.morph(folder, trees.morph_rows())
        began = time.monotonic()
        floor(folder)
        least = time.monotonic() - began
        for setup in ("I", "II", "III", "subject"):
            command = [sys.executable, "-m", "agecli", "split", str(folder), "--setup", setup, "-q"]
            began = time.monotonic()
            subprocess.run(command, cwd=place, check=True, stdout=subprocess.DEVNULL)
            took = time.monotonic() - began
            print(f"{len(names)} photos, setup {setup}: {took:.1f} s, {took / least:.0f} times the lower bound")


if __name__ == "__main__":
    main()
