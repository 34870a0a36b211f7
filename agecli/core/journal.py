"""Append-only journals in JSON lines: a killed command resumes after the last result that was written whole."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from agecli.core.errors import InputError

Entry = Mapping[str, Any]
J = TypeVar("J", bound="JournalFile")


class JournalFile:
    """A file whose first line is a header and whose other lines are results, one JSON object each.

    The header holds the options that the results depend on. To resume, the new options must equal them. Every line is
    flushed as soon as it is added, so a kill loses at most the line being written; resuming truncates that line.

    path: the journal. Its parent folder is created.
    header: options by name, as JSON values.
    resume: continue an existing journal; without it, a journal that holds results is an error.
    option_names: what the user calls an option, where it is not `--name-of-the-key`.
    start_over: what the user can do instead of resuming, for error messages.

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
    ) -> None:
        self.path = path
        self.start_over = start_over or f"remove it to start over: rm {path}"
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not resume and any(self.entries()):
            raise InputError(
                f"{path} has the results of an interrupted run", hint=f"resume it with --resume, or {self.start_over}"
            )
        if resume and self._read_header() is not None:
            self._compare(header, option_names or {})
            self._truncate_partial_line()
        else:
            path.write_bytes(_encode(header))
        self.file: BinaryIO = path.open("ab")

    def __enter__(self: J) -> J:
        return self

    def __exit__(self, *error: object) -> None:
        """Close the file; a journal without results is removed."""
        self.file.close()
        if self.path.exists() and not any(self.entries()):
            self.path.unlink()

    def append(self, entry: Entry) -> None:
        """Write one result and hand it to the operating system at once."""
        self.file.write(_encode(entry))
        self.file.flush()

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
                yield offset, self._decode(line)
                offset += len(line)

    def truncate(self, offset: int) -> None:
        """Drop all lines from a position on."""
        os.truncate(self.path, offset)

    def remove(self) -> None:
        """Close and delete the journal: its results are stored elsewhere."""
        self.file.close()
        self.path.unlink()

    def _read_header(self) -> dict[str, Any] | None:
        """The first line; None if there is none, or only a part of it."""
        if not self.path.exists():
            return None
        with self.path.open("rb") as file:
            line = file.readline()
        return self._decode(line) if line.endswith(b"\n") else None

    def _compare(self, header: Mapping[str, Any], option_names: Mapping[str, str]) -> None:
        """Raise InputError with the names of the options that differ from the stored header."""
        stored = self._read_header() or {}
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
        """A line as a JSON object. Raises InputError if it is anything else."""
        try:
            entry = json.loads(line)
        except ValueError:
            entry = None
        if not isinstance(entry, dict):
            raise InputError(
                f"{self.path} is not a journal of agecli", hint="rename it, or remove it if it is not needed"
            )
        return entry


def _encode(entry: Entry) -> bytes:
    """One line of ASCII: names that are not UTF-8 are escaped."""
    return json.dumps(entry).encode("ascii") + b"\n"
