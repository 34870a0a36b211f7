"""Append-only journals in JSON lines: a killed command resumes after the last result that was written whole."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from agecli.core.errors import InputError
from agecli.core.files import FULL, disk_full, write_all

Entry = Mapping[str, Any]
J = TypeVar("J", bound="JournalFile")
LONGEST_LINE = 1 << 20  # bytes of a header


class JournalFile:
    """A file whose first line is a header and whose other lines are results, one JSON object each.

    The header holds the options that the results depend on. To resume, the new options must equal them. Every line is
    flushed as soon as it is added, so a kill loses at most the line being written; resuming truncates that line.

    path: the journal. Its parent folder is created.
    header: options by name, as JSON values.
    resume: continue an existing journal; without it, a journal that holds results is an error.
    option_names: what the user calls an option, where it is not `--name-of-the-key`.
    start_over: what the user can do instead of resuming, for error messages.
    valid: whether an entry has the fields that are used of it; a file with others is no journal of this command.

    Raises InputError if the file holds results and `resume` is false, was begun with other options, or is no journal.

        with JournalFile(folder / "run.jsonl", {"detector": "haar"}, resume=True) as journal:
            done = list(journal.entries())
            journal.append({"source": "a.jpg", "faces": 1})
    """

    def __init__(
        self,
        path: Path,
        header: Mapping[str, Any],
        resume: bool,
        option_names: Mapping[str, str] | None = None,
        start_over: str = "",
        valid: Callable[[dict[str, Any]], bool] = lambda entry: True,
    ) -> None:
        self.path, self.valid = path, valid
        self.start_over = start_over or f"remove it to start over: rm {path}"
        path.parent.mkdir(parents=True, exist_ok=True)
        self._check_file()
        stored = self._read_header(header)
        if stored is not None and not resume and any(self.entries()):
            raise InputError(
                f"{path} has the results of an interrupted run", hint=f"resume it with --resume, or {self.start_over}"
            )
        begun = resume and stored is not None
        if begun:
            self._compare(header, stored or {}, option_names or {})
            self._truncate_partial_line()
        self.file: BinaryIO = open(path, "ab", buffering=0, opener=_open_no_link)  # noqa: SIM115 (closed in __exit__)
        if not begun:
            self.file.truncate(0)
            self._write(header)

    def __enter__(self: J) -> J:
        return self

    def __exit__(self, *error: object) -> None:
        """Close the file; a journal without results is removed."""
        self.file.close()
        if self.path.exists() and not any(self.entries()):
            self.path.unlink()

    def append(self, entry: Entry) -> None:
        """Write one result and hand it to the operating system at once. Raises DiskFullError."""
        self._write(entry)

    def _write(self, entry: Entry) -> None:
        try:
            write_all(self.file, _encode(entry))
        except OSError as error:
            raise disk_full(self.path, error) if error.errno in FULL else error from error

    def entries(self) -> Iterator[dict[str, Any]]:
        """The results in order, without a last line that was cut off. Raises InputError for a line that is not JSON."""
        return (entry for _, entry in self.entries_with_offsets())

    def entries_with_offsets(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """The results, each with the position of its line in the file, in bytes."""
        with self.path.open("rb") as file:
            offset = len(file.readline())
            for line in file:
                if not line.endswith(b"\n"):
                    return
                if not self.valid(entry := self._decode(line)):
                    raise self._foreign()
                yield offset, entry
                offset += len(line)

    def truncate(self, offset: int) -> None:
        """Drop all lines from a position on."""
        os.truncate(self.path, offset)

    def remove(self) -> None:
        """Close and delete the journal: its results are stored elsewhere."""
        self.file.close()
        self.path.unlink()

    def _check_file(self) -> None:
        """Raise InputError for a link, a pipe, a folder: only a regular file, or none, can be a journal."""
        if os.path.lexists(self.path) and not stat.S_ISREG(self.path.lstat().st_mode):
            raise self._foreign()

    def _read_header(self, header: Mapping[str, Any]) -> dict[str, Any] | None:
        """The first line; None if there is none, or a part of the header that a kill cut off.

        header: of this run, to recognise the file. Raises InputError for a file that is no journal with such a header.
        """
        if not self.path.exists():
            return None
        with self.path.open("rb") as file:
            line = file.readline(LONGEST_LINE)
        if not line.endswith(b"\n"):
            if _encode(header).startswith(line):
                return None
            raise self._foreign()
        stored = self._decode(line)
        if not stored.keys() & header.keys():
            raise self._foreign()
        return stored

    def _compare(self, header: Mapping[str, Any], stored: Mapping[str, Any], option_names: Mapping[str, str]) -> None:
        """Raise InputError with the names of the options that differ from the stored header."""
        different = [name for name in header if stored.get(name) != header[name]]
        if different:
            options = " and ".join(option_names.get(name, f"--{name.replace('_', '-')}") for name in different)
            raise InputError(
                f"{self.path} was begun with other options: {options}",
                hint=f"use the same options, or {self.start_over}",
            )

    def _truncate_partial_line(self) -> None:
        """Drop what a kill left of the last line."""
        with self.path.open("rb") as file:
            whole = sum(len(line) for line in file if line.endswith(b"\n"))
        self.truncate(whole)

    def _decode(self, line: bytes) -> dict[str, Any]:
        """A line as a JSON object with finite numbers. Raises InputError if it is anything else."""
        try:
            entry = json.loads(line, parse_constant=_no_number)
        except (ValueError, RecursionError):
            entry = None
        if not isinstance(entry, dict):
            raise self._foreign()
        return entry

    def _foreign(self) -> InputError:
        return InputError(f"{self.path} is not a journal of agecli", hint="rename it, or remove it if it is not needed")


def _no_number(name: str) -> None:
    """What JSON's NaN and Infinity are: an error."""
    raise ValueError(f"{name} is no number")


def _open_no_link(path: str, flags: int) -> int:
    """Open a file for `open`, but not through a symbolic link."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)


def _encode(entry: Entry) -> bytes:
    """One line of ASCII: names that are not UTF-8 are escaped."""
    return json.dumps(entry).encode("ascii") + b"\n"
