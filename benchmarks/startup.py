"""Start-up time of `agecli --help` and of `agecli predict` with one photo, relative to `import typer` and `import torch`.

python -m benchmarks.startup
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

PHOTO = Path(__file__).parent.parent / "docs" / "example.jpg"
COMMANDS = {
    "import typer": [sys.executable, "-c", "import typer"],
    "agecli --help": [sys.executable, "-m", "agecli", "--help"],
    "agecli --version": [sys.executable, "-m", "agecli", "--version"],
    "predict a photo": [sys.executable, "-m", "agecli", "predict", str(PHOTO)],
    "import torch": [sys.executable, "-c", "import torch"],
}
TURNS = 7


def main() -> None:
    """Print the median time of each command, and its ratios to importing typer and torch."""
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(TURNS):
        for name, command in COMMANDS.items():
            begin = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            times[name].append(time.perf_counter() - begin)
    typer, torch = (statistics.median(times[f"import {name}"]) for name in ("typer", "torch"))
    for name, values in times.items():
        middle = statistics.median(values)
        print(f"{name:<18} {middle:6.3f} s  {middle / typer:5.2f} x import typer  {middle / torch:5.2f} x import torch")


if __name__ == "__main__":
    main()
