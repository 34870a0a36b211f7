"""Results of the campaign: what a round of attacks found, and the table of all rounds."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from benchmarks.attack.watching import Run

MEMORY = 1e9  # bytes that a worker may use
MAXIMA = ("worker", "main", "slowest")  # all other numbers are added up
HEADINGS = (
    ("part", "part"),
    ("tried", "tried"),
    ("records", "records"),
    ("crashed", "crashed workers"),
    ("tracebacks", "tracebacks"),
    ("hangs", "hangs"),
    ("worker", "peak of a worker, MB"),
    ("main", "peak of the main process, MB"),
    ("slowest", "slowest to stop, s"),
    ("compared", "bytes equal"),
    ("hashed", "files changed"),
    ("problems", "other problems"),
)


@dataclass
class Round:
    """What one round of attacks found; the sums and maxima of several rounds have the same fields."""

    part: str
    tried: int = 0  # inputs, kills, names, files, … by the part
    records: int = 0  # inputs with a record, an error line, or a finished run after a kill
    crashed: int = 0  # records of photos that ended their worker: allowed, but of interest
    tracebacks: int = 0
    hangs: int = 0
    worker: int = 0  # bytes
    main: int = 0  # bytes
    slowest: float = 0.0  # seconds from SIGTERM or SIGINT to the end
    compared: int = 0  # outputs that were compared with those of an uninterrupted run
    equal: int = 0
    hashed: int = 0  # files of the user, hashed before and after
    changed: int = 0
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)

    def add(self, run: Run) -> None:
        """Count what every command may do wrong."""
        self.tracebacks += run.traceback
        self.hangs += run.hung
        self.worker, self.main = max(self.worker, run.worker), max(self.main, run.main)
        if run.worker > MEMORY:
            self.problems.append(f"a worker used {run.worker / 1e6:.0f} MB")
        if run.orphans:
            self.problems.append(f"{run.orphans} workers outlived their parent")
        if run.code < 0 and not run.hung and run.stopped is None:
            self.problems.append(f"the command was ended by signal {-run.code}")
        if run.traceback:
            self.problems.append(f"traceback: {run.stderr.strip().splitlines()[-1][:300]}")

    def compare(self, good: object, found: object, what: str) -> None:
        """Count one comparison."""
        self.compared += 1
        self.equal += good == found
        if good != found:
            self.problems.append(f"{what}: other bytes than without the interruption")

    @property
    def wrong(self) -> bool:
        """Whether anything was found that must not be."""
        missing = self.records != self.tried or self.equal != self.compared
        return bool(missing or self.tracebacks or self.hangs or self.changed or self.problems)


def total(rounds: Sequence[Round]) -> Round:
    """Sums and maxima of rounds of one part."""
    values = {}
    for name in (entry.name for entry in fields(Round) if entry.name != "part"):
        every = [getattr(entry, name) for entry in rounds]
        values[name] = max(every) if name in MAXIMA else sum(every, type(every[0])())
    return Round(rounds[0].part, **values)


def table(rounds: Iterable[Round]) -> str:
    """A Markdown table with a row for each part."""
    parts: dict[str, list[Round]] = {}
    for entry in rounds:
        parts.setdefault(entry.part, []).append(entry)
    lines = [_line([heading for _, heading in HEADINGS]), _line(["---"] * len(HEADINGS))]
    lines += [_line(_cells(total(every))) for every in parts.values()]
    return "\n".join(lines)


def _cells(row: Round) -> list[str]:
    """The text of each cell."""
    special = {
        "worker": f"{row.worker / 1e6:.0f}" if row.worker else "",
        "main": f"{row.main / 1e6:.0f}" if row.main else "",
        "slowest": f"{row.slowest:.1f}" if row.slowest else "",
        "compared": f"{row.equal:,} of {row.compared:,}" if row.compared else "",
        "hashed": f"{row.changed} of {row.hashed:,}" if row.hashed else "",
        "problems": str(len(row.problems)),
    }
    return [special[name] if name in special else _number(getattr(row, name)) for name, _ in HEADINGS]


def _number(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def append_round(path: Path, entry: Round) -> None:
    """Add a round to a log of JSON lines."""
    with path.open("a") as file:
        file.write(json.dumps(asdict(entry)) + "\n")


def read_rounds(path: Path) -> list[Round]:
    """The rounds of a log."""
    return [Round(**json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []


def hashes(folder: Path) -> dict[bytes, str]:
    """A hash of every regular file below a folder, the kind of anything else; links are not followed."""
    found: dict[bytes, str] = {}
    known: dict[tuple[int, int, int, int], str] = {}  # hard links are read once
    for place, folders, names in os.walk(os.fsencode(folder)):
        for name in (*names, *folders):
            path = os.path.join(place, name)
            about = os.lstat(path)
            key = (about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns)
            if not stat.S_ISREG(about.st_mode):
                found[path] = oct(stat.S_IFMT(about.st_mode))
                continue
            if key not in known:
                with open(path, "rb") as file:
                    known[key] = hashlib.sha256(file.read()).hexdigest()
            found[path] = known[key]
    return found


def contents(folder: Path, without: Sequence[str] = ()) -> dict[str, bytes]:
    """The bytes of all files below a folder, by their relative names."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in without
    }
