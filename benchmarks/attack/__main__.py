"""The campaign: hostile inputs, kills and full disks against the real commands, and a table of what happened.

    python -m benchmarks.attack --minutes 2 --seed 0
    python -m benchmarks.attack --parts pictures=20000 names=1000 --log rounds.jsonl -o table.md
    python -m benchmarks.attack --parts kills=200 --log rounds.jsonl -o table.md     # the table is about all rounds in the log

Rounds of the parts take turns until the time is over, or until each part has tried as many as it was asked for. Each round
has a seed of its own, which is printed; `--seed` with that number and `--parts` with its part repeat it. The folder of a
round in which something was wrong is kept. Exit code 1 if anything was.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.attack.disks import can_mount, fill_disks
from benchmarks.attack.kills import try_kills, try_stops
from benchmarks.attack.mutations import Rng
from benchmarks.attack.results import Round, append_round, read_rounds, table
from benchmarks.attack.rounds import fuzz_pictures, fuzz_videos, try_huge, try_many, try_models, try_names

Attack = Callable[[Path, Rng, int], Round]
PARTS: dict[str, tuple[Attack, int, int]] = {  # what does it; how many in a round by time; most in a round by number
    "pictures": (fuzz_pictures, 150, 2000),
    "huge": (try_huge, 1, 10),
    "videos": (fuzz_videos, 12, 50),
    "names": (try_names, 50, 250),
    "models": (try_models, 5, 20),
    "kills": (try_kills, 3, 15),
    "stops": (try_stops, 2, 15),
    "disks": (fill_disks, 1, 4),
    "many": (try_many, 1000, 100_000),
}


def main() -> None:
    """Run the campaign; exit with 1 if anything was wrong."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends the command that is running, too
    options = _options()
    wanted = dict(_part(text) for text in options.parts)
    if "disks" in wanted and not _disks_work():
        print("disks: skipped, because only root can mount a tmpfs", flush=True)
        del wanted["disks"]
    rounds = read_rounds(options.log) if options.log else []
    done = dict.fromkeys(wanted, 0)
    end, seed = time.monotonic() + 60 * options.minutes, options.seed
    while names := [name for name in wanted if done[name] < (wanted[name] or sys.maxsize)]:
        for name in names:
            if time.monotonic() > end:
                break
            entry = _round(name, wanted[name] - done[name] if wanted[name] else None, seed)
            done[name] += max(1, entry.tried)
            rounds.append(entry)
            if options.log:
                append_round(options.log, entry)
            seed += 1
        if time.monotonic() > end:
            break
    text = table(rounds)
    print(text)
    if options.output:
        options.output.write_text(text + "\n")
    sys.exit(any(entry.wrong for entry in rounds))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1e9, help="no round begins after this time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--parts", nargs="+", default=list(PARTS), help=f"some of {', '.join(PARTS)}; with =N for a number"
    )
    parser.add_argument("--log", type=Path, help="append the rounds to this file; the table is about all in it")
    parser.add_argument("-o", "--output", type=Path, help="write the table to this file")
    options = parser.parse_args()
    unknown = {text.partition("=")[0] for text in options.parts} - PARTS.keys()
    if unknown:
        parser.error(f"unknown parts: {', '.join(unknown)}; there are: {', '.join(PARTS)}")
    if options.minutes == 1e9 and not all("=" in text for text in options.parts):
        options.minutes = 2.0
    return options


def _part(text: str) -> tuple[str, int]:
    """A part and how many it shall try; 0 if only time limits it."""
    name, _, number = text.partition("=")
    return name, int(number or 0)


def _disks_work() -> bool:
    with tempfile.TemporaryDirectory() as folder:
        return can_mount(Path(folder))


def _round(name: str, left: int | None, seed: int) -> Round:
    """Run one round in a folder of its own, which is deleted if all is well, and print a line."""
    attack, by_time, most = PARTS[name]
    folder = Path(tempfile.mkdtemp(prefix=f"attack-{name}-{seed}-"))
    began = time.monotonic()
    try:
        entry = attack(folder, np.random.default_rng(seed), by_time if left is None else min(left, most))
    except Exception as error:  # of the campaign itself, or a command that does not even start
        entry = Round(name, problems=[f"{type(error).__name__}: {error}"])
    entry.seconds = time.monotonic() - began
    state = f"WRONG, see {folder}" if entry.wrong else "ok"
    print(f"{name:<9} seed {seed:<6} tried {entry.tried:<7,} {entry.seconds:6.1f} s  {state}", flush=True)
    for problem in entry.problems[:20]:
        print(f"    {problem!s}".encode(errors="backslashreplace").decode(), flush=True)
    if not entry.wrong:
        shutil.rmtree(folder)
    return entry


if __name__ == "__main__":
    main()
