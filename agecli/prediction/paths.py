"""The file names that arguments stand for: files, folders, globs, @lists and standard input, in order."""

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
    """The file names of some arguments, in order, without reading ahead.

    arguments: a file; a folder (all pictures below it, sorted); a glob, `**` included; "@FILE" for names in a file,
        one per line; "-" for names on `stdin`. Names that match nothing are kept, so that they get a record, too.
    null: names in lists and on stdin end with a null byte instead of a line break.
    stdin: a binary stream; None is standard input.
    skip: a folder that is left out of other folders.

    Raises MissingError for a list that is not there, InputError for null bytes without `null`.

    Example: `list(expand(["photos/", "more/*.jpg"]))`
    """
    for argument in arguments:
        if argument == "-":
            yield from _expand_folders(_read_names(stdin or sys.stdin.buffer, null), skip)
        elif argument.startswith("@") and not os.path.exists(argument):
            path = Path(argument[1:])
            if not path.is_file():
                raise MissingError(f"there is no list {path}", hint="@FILE reads names from FILE, one per line")
            with path.open("rb") as file:
                yield from _expand_folders(_read_names(file, null), skip)
        elif os.path.isdir(argument):
            yield from _pictures_below(argument, skip)
        elif not os.path.exists(argument) and glob.has_magic(argument):
            yield from _expand_folders(sorted(glob.glob(argument, recursive=True)) or [argument], skip)
        else:
            yield argument


def _expand_folders(names: Iterable[str], skip: str | Path | None) -> Iterator[str]:
    for name in names:
        yield from _pictures_below(name, skip) if os.path.isdir(name) else [name]


def _read_names(stream: BinaryIO, null: bool) -> Iterator[str]:
    """Names that end with a line break, or with a null byte. They need not be UTF-8; empty ones are ignored."""
    if not null:
        for line in stream:
            if b"\0" in line:
                raise InputError("the list of names has null bytes", hint="use -0 for names that end with one")
            if name := line.rstrip(b"\r\n"):
                yield os.fsdecode(name)
        return
    rest = b""
    while block := stream.read(65536):
        *names, rest = (rest + block).split(b"\0")
        yield from (os.fsdecode(name) for name in names if name)
    if rest:
        yield os.fsdecode(rest)


def _pictures_below(folder: str, skip: str | Path | None) -> Iterator[str]:
    """The pictures below a folder, in the order of their paths; the folder itself if it has none, for its error record."""
    empty = True
    for name in photos_in(folder, skip):
        empty = False
        yield os.path.join(folder, name)
    if empty:
        yield folder
