"""Start-up time of `agecli --help`, relative to `python -c "import typer"`, in one run.

python -m benchmarks.startup
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

COMMANDS = {
    "import typer": [sys.executable, "-c", "import typer"],
    "agecli --help": [sys.executable, "-m", "agecli", "--help"],
    "agecli --version": [sys.executable, "-m", "agecli", "--version"],
    "import torch": [sys.executable, "-c", "import torch"],
}
TURNS = 7


def main() -> None:
    """Print the median time of each command, and its ratio to importing typer."""
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(TURNS):
        for name, command in COMMANDS.items():
            begin = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            times[name].append(time.perf_counter() - begin)
    floor = statistics.median(times["import typer"])
    for name, values in times.items():
        print(f"{name:<18} {statistics.median(values):6.3f} s  {statistics.median(values) / floor:5.2f} x import typer")


if __name__ == "__main__":
    main()
