"""Parts: the results of one shard as a file of JSON lines or Parquet, with a footer that tells a whole part from a truncated one.

A part is written under a temporary name and renamed. That it exists, with its footer, means that its shard is done.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

from agecli.core import locks
from agecli.core.errors import InputError
from agecli.core.extras import require
from agecli.core.locks import LockedError
from agecli.scaling.places import Place, locked, names_in, write_text, write_whole
from agecli.scaling.plan import Plan
from agecli.scaling.run_files import OURS
from agecli.scaling.stored_values import is_count, is_duration, parse_json

MARK = "agecli_part"
PARQUET = ".parquet"
FOOTER_BYTES = 4096  # at the end of a part, which are looked at
TEMPORARY = re.compile(rf"\.{OURS}\.agecli-.{{8}}\.part")
LOCK = re.compile(rf"\.{OURS}\.agecli-lock")


@dataclass(frozen=True)
class Footer:
    """The last line of a part; in Parquet, an entry of the metadata. Lines are JSON there, too, as they are read back."""

    plan: str  # key of the plan
    shard: int
    inputs: int
    failed: int  # inputs without a result
    records: int  # lines before this one
    bytes: int  # of these lines
    sha256: str  # of these lines
    seconds: float  # that the shard took


def part_path(folder: Place, plan: Plan, number: int) -> Place:
    """The file of a shard: `part-00042.jsonl`, or `.parquet`."""
    return folder / f"part-{number:05d}.{plan.options.get('format', 'jsonl')}"


def read_footer(folder: Place, plan: Plan, number: int) -> Footer | None:
    """The footer of a shard's part; None if there is no part, or it is truncated, longer, or of another plan."""
    path = part_path(folder, plan, number)
    try:
        with _open(path) as file:
            about = _parquet().read_note(file, MARK) if path.suffix == PARQUET else _last_line(file)
        footer = Footer(**parse_json(about.decode("ascii"))[MARK])
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None
    return footer if _fits(footer, plan, number) else None


def _fits(footer: Footer, plan: Plan, number: int) -> bool:
    """Whether a footer, which may hold any JSON values, is one of this shard."""
    counts = (footer.shard, footer.inputs, footer.failed, footer.records, footer.bytes)
    return (
        all(is_count(count) for count in counts)
        and is_duration(footer.seconds)
        and footer.records <= footer.bytes
        and (footer.plan, footer.shard, footer.inputs) == (plan.key, number, plan.size(number))
    )


def _last_line(file: BinaryIO) -> bytes:
    """The last line of a part, if it is whole and says how many bytes are before it. Raises ValueError."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - FOOTER_BYTES))
    tail = file.read()
    line = tail[tail.rfind(b"\n", 0, -1) + 1 :]
    if not line.endswith(b"\n") or parse_json(line.decode("ascii"))[MARK]["bytes"] + len(line) != size:
        raise ValueError("truncated")
    return line


def _parquet() -> ModuleType:
    """The module of Parquet files. Raises MissingError without the extra `parquet`."""
    require("pyarrow", needed_by="parts in Parquet")
    from agecli.scaling import parquet_parts

    return parquet_parts


def read_footers(folder: Place, plan: Plan, numbers: Iterable[int]) -> Iterator[tuple[int, Footer | None]]:
    """The footer of each of some shards; None for those that are not done."""
    there = {name for name in names_in(folder) if name.startswith("part-")}
    for number in numbers:
        yield number, read_footer(folder, plan, number) if part_path(folder, plan, number).name in there else None


def read_part(folder: Place, plan: Plan, number: int) -> Iterator[bytes]:
    """The lines of a part, without its footer. Raises InputError at the end if they are not those that were written."""
    footer, path = read_footer(folder, plan, number), part_path(folder, plan, number)
    digest = hashlib.sha256()
    if footer is not None:
        with _open(path) as file:
            lines = _parquet().read_lines(file) if path.suffix == PARQUET else file
            for line in islice(lines, footer.records):
                digest.update(line)
                yield line
    if footer is None or digest.hexdigest() != footer.sha256:
        raise damaged(path)


def damaged(path: Place, why: str = "") -> InputError:
    """The error for a part that can't be used.   why: the reason, if it is known"""
    reason = f": {why}" if why else ""
    return InputError(f"{path} is damaged{reason}", hint=f"remove it, and run the same command again: rm {path}")


def _open(path: Place) -> BinaryIO:
    """A part to read. Raises ValueError for a pipe, a device or a folder, FileNotFoundError if it is not there."""
    if isinstance(path, Path) and path.exists() and not path.is_file():
        raise ValueError("no file")
    return path.open("rb")


class Tally:
    """What a shard's work counts while its lines are written."""

    def __init__(self) -> None:
        self.failed = 0
        self.seconds = 0.0


Work = Callable[[int, Iterator[Any], Tally], Iterable[bytes]]  # number, inputs, tally -> lines


def do_shard(folder: Place, plan: Plan, number: int, work: Work) -> Footer | None:
    """Make the part of a shard, unless it is there; None if another process is making it.

    work: computes the lines of a shard.
    Raises DiskFullError, and what the work raises; the part is then not there, and nothing is left of it.
    """
    if footer := read_footer(folder, plan, number):
        return footer
    path = part_path(folder, plan, number)
    try:
        with locked(path, patience=0):
            if footer := read_footer(folder, plan, number):
                return footer
            with _failure_noted(error_path(folder, number)):
                return _write(path, plan, number, work, plan.entries(folder, number))
    except LockedError:
        return None


def error_path(folder: Place, number: int) -> Place:
    """The file that says why the last attempt at a shard failed; it is removed when the shard is done."""
    return folder / f"part-{number:05d}.error"


@contextmanager
def _failure_noted(path: Place) -> Iterator[None]:
    """Write the reason of an error to a file, if there is space for it; remove that of an earlier attempt otherwise."""
    try:
        yield
    except Exception as error:
        with suppress(Exception):
            write_text(path, f"{type(error).__name__}: {error}\n")
        raise
    with suppress(FileNotFoundError):
        path.unlink()


def _write(path: Place, plan: Plan, number: int, work: Work, entries: Iterator[Any]) -> Footer:
    """Write the lines of a shard and its footer, whole or not at all."""
    digest, tally = hashlib.sha256(), Tally()
    records = size = 0
    with (
        write_whole(path) as temporary,
        _open_part(temporary, path) as file,
        _closed(work(number, entries, tally)) as lines,
    ):
        for line in lines:
            written = file.write_line(line)
            digest.update(written)
            records, size = records + 1, size + len(written)
        footer = Footer(
            *(plan.key, number, plan.size(number), tally.failed, records, size),
            *(digest.hexdigest(), round(tally.seconds, 2)),
        )
        file.close(json.dumps({MARK: asdict(footer)}))
    return footer


class LineWriter:
    """A part that is written as JSON lines. Use it as a context manager."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("wb")

    def __enter__(self) -> LineWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.file.close()

    def write_line(self, line: bytes) -> bytes:
        """Add a record; the line as it is read back."""
        self.file.write(line)
        return line

    def close(self, note: str) -> None:
        """Add the footer."""
        self.file.write(note.encode() + b"\n")


def _open_part(temporary: Path, path: Place) -> Any:
    """A writer with the methods of LineWriter, by the ending of the part."""
    return _parquet().ParquetPart(temporary, MARK) if path.suffix == PARQUET else LineWriter(temporary)


@contextmanager
def _closed(lines: Iterable[bytes]) -> Iterator[Iterable[bytes]]:
    """Close a generator at the end of a `with` block, so that a work that failed removes its own temporary files."""
    try:
        yield lines
    finally:
        if isinstance(lines, Generator):
            lines.close()


def clean(folder: Place) -> None:
    """Remove what killed processes left in a local folder: temporary files and locks that nobody holds."""
    if not isinstance(folder, Path):
        return
    names = [name for name in names_in(folder) if name.startswith(".")]
    for name in sorted({match[1] for name in names if (match := TEMPORARY.fullmatch(name) or LOCK.fullmatch(name))}):
        with suppress(LockedError), locks.locked(folder / name, patience=0):  # which removes the lock file at its end
            _remove_temporaries(folder, name)


def _remove_temporaries(folder: Path, name: str) -> None:
    """Remove temporary files of one file of a run, whose lock this process holds."""
    for entry in list(os.scandir(folder)):
        match = TEMPORARY.fullmatch(entry.name)
        if match and match[1] == name:
            with suppress(FileNotFoundError):
                os.unlink(entry.path)
