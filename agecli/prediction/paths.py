"""Which photos are meant: files, folders, globs, @lists and standard input, one name after the other."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from agecli.core.errors import InputError, MissingError
from agecli.images.folders import photos_in


def expand(
    arguments: Iterable[str], null: bool = False, stdin: BinaryIO | None = None, skip: str | Path | None = None
) -> Iterator[str]:
    """The names that the arguments stand for, in order, without reading ahead; of folders, but for one to skip."""
    for argument in arguments:
        if argument == "-":
            yield from _in_folders(_lines(stdin or sys.stdin.buffer, null), skip)
        elif argument.startswith("@") and not os.path.exists(argument):
            path = Path(argument[1:])
            if not path.is_file():
                raise MissingError(f"there is no list {path}", hint="@FILE reads names from FILE, one to a line")
            with path.open("rb") as file:
                yield from _in_folders(_lines(file, null), skip)
        elif os.path.isdir(argument):
            yield from _photos(argument, skip)
        elif not os.path.exists(argument) and glob.has_magic(argument):
            yield from _in_folders(sorted(glob.glob(argument, recursive=True)) or [argument], skip)
        else:
            yield argument  # also one that is not there: every argument gets a record, and that one says so


def _in_folders(names: Iterable[str], skip: str | Path | None) -> Iterator[str]:
    for name in names:
        yield from _photos(name, skip) if os.path.isdir(name) else [name]


def _lines(stream: BinaryIO, null: bool) -> Iterator[str]:
    if not null:
        for line in stream:
            if b"\0" in line:
                raise InputError("the names hold null bytes", hint="use -0 for names that end with one")
            if name := line.rstrip(b"\r\n"):
                yield os.fsdecode(name)
        return
    rest = b""
    while block := stream.read(65536):
        *names, rest = (rest + block).split(b"\0")
        yield from (os.fsdecode(name) for name in names if name)
    if rest:
        yield os.fsdecode(rest)


def _photos(folder: str, skip: str | Path | None) -> Iterator[str]:
    """The photos below a folder, in the order of their paths; the folder itself if it has none, for its error record."""
    empty = True
    for name in photos_in(folder, skip):
        empty = False
        yield os.path.join(folder, name)
    if empty:
        yield folder
