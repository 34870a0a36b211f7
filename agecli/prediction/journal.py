"""The journal of a prediction into a file: its records so far, so that a killed run can go on.

The file itself appears when all is done. Until then `FILE.unfinished` has a line about the run, and a line for each record.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from agecli.core.errors import InputError

Row = Mapping[str, Any]


class Journal:
    """Beside `output`. `about` says what its records depend on: a run that goes on must agree with it."""

    def __init__(self, output: Path, about: Mapping[str, Any], resume: bool) -> None:
        self.path = self.beside(output)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.inputs = 0  # that are done
        if self.path.exists() and not resume and any(_lines(self.path)):
            raise InputError(
                f"{self.path} has the records of a run that was stopped",
                hint=f"go on with it by --resume, or remove it to start over: rm {self.path}",
            )
        if self.path.exists() and resume:
            self._cut(about)
        else:
            self.path.write_bytes(_line(about))
        self.file: BinaryIO = self.path.open("ab")

    @staticmethod
    def beside(output: Path) -> Path:
        return output.with_name(f"{output.name}.unfinished")

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *error: object) -> None:
        """A run that failed before its first record leaves nothing behind."""
        self.file.close()
        if self.path.exists() and not any(_lines(self.path)):
            self.path.unlink()

    def _cut(self, about: Mapping[str, Any]) -> None:
        """Keep what is surely whole: the last input may have been written in part."""
        with self.path.open("rb") as file:
            first = file.readline()
        if not first.endswith(b"\n"):  # killed in its first line: nothing is lost
            self.path.write_bytes(_line(about))
            return
        was = _read(first, self.path)
        if different := [name for name in about if was.get(name) != about[name]]:
            raise InputError(
                f"{self.path} was begun with other options: {' and '.join(map(_option, different))}",
                hint=f"use the same options, or remove it to start over: rm {self.path}",
            )
        keep, previous = len(first), None
        for offset, row in _lines(self.path):
            if begins(row, previous):
                keep, self.inputs = offset, self.inputs + 1
            previous = row
        self.inputs = max(0, self.inputs - 1)
        os.truncate(self.path, keep)

    def done(self) -> Iterator[str]:
        """The names of the inputs that are done, in order."""
        previous = None
        for _, row in _lines(self.path) if self.inputs else ():
            if begins(row, previous):
                yield row["source"]
            previous = row

    def add(self, row: Row) -> None:
        self.file.write(_line(row))
        self.file.flush()  # a kill loses nothing that was handed to the system

    def finish(self) -> None:
        self.file.close()
        self.path.unlink()

    def rows(self) -> Iterator[Row]:
        return (row for _, row in _lines(self.path))


def begins(row: Row, previous: Row | None) -> bool:
    """Whether a record is the first of its input: a photo has several faces, a video several times."""
    if row["face"]:
        return False
    if previous is None or row["source"] != previous["source"] or row["time"] is None or previous["time"] is None:
        return True
    return bool(row["time"] <= previous["time"])


class Tally:
    """Counts inputs, and those without any age, while their records pass by."""

    def __init__(self) -> None:
        self.inputs = self.failed = 0
        self.first = ""  # of those that failed, and why

    def __call__(self, rows: Iterable[Row]) -> Iterator[Row]:
        """An input has failed when none of its records has an age: a video may have frames without a face."""
        bad: Row | None = None
        previous: Row | None = None
        for row in rows:
            if begins(row, previous):
                self._note(bad)
                self.inputs, bad = self.inputs + 1, row
            if row["status"] == "ok":
                bad = None
            previous = row
            yield row
        self._note(bad)

    def __str__(self) -> str:
        if self.inputs == 1:
            return self.first
        more = ", …" if self.failed > 1 else ""
        return f"{self.failed} of {self.inputs} inputs gave no age: {self.first}{more}"

    def _note(self, bad: Row | None) -> None:
        if bad:
            self.failed += 1
            self.first = self.first or f"{bad['source']}: {bad['error']}"


def left_out(names: Iterator[str], done: Iterable[str]) -> Iterator[str]:
    """The names after those that are done, which must be the first ones."""
    for before in done:
        if (name := next(names, None)) != before:
            now = "there are no more of them" if name is None else f"it is {name} now"
            raise InputError(
                f"the photos are not those of the run that was stopped: {before} was one, and {now}",
                hint="name the same photos in the same order, or write to another file",
            )
    yield from names


def _line(row: Row) -> bytes:
    return json.dumps(row).encode() + b"\n"


def _read(line: bytes, path: Path) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError:
        row = None
    if not isinstance(row, dict):
        raise InputError(f"{path} is no journal of agecli", hint="rename it, or remove it if nobody needs it")
    return row


def _option(name: str) -> str:
    more = " (which a table has, too)" if name == "distribution" else ""
    return f"--{name.replace('_', '-')}{more}"


def _lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The records, each with its place in the file; a line that was cut off is not there."""
    with path.open("rb") as file:
        offset = len(file.readline())
        for line in file:
            if not line.endswith(b"\n"):
                return
            yield offset, _read(line, path)
            offset += len(line)
