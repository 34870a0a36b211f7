"""The file names that arguments stand for: files, folders, globs, @lists and standard input, in order."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from agecli.core.errors import InputError, MissingError
from agecli.images.reading import SUFFIXES


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
    skipped = os.path.realpath(skip) if skip else None
    for argument in arguments:
        if argument == "-":
            yield from _expand_folders(_read_names(stdin or sys.stdin.buffer, null), skipped)
        elif argument.startswith("@") and not os.path.exists(argument):
            path = Path(argument[1:])
            if not path.is_file():
                raise MissingError(f"there is no list {path}", hint="@FILE reads names from FILE, one per line")
            with path.open("rb") as file:
                yield from _expand_folders(_read_names(file, null), skipped)
        elif os.path.isdir(argument):
            yield from _pictures_below(argument, skipped)
        elif not os.path.exists(argument) and glob.has_magic(argument):
            yield from _expand_folders(sorted(glob.glob(argument, recursive=True)) or [argument], skipped)
        else:
            yield argument


def _expand_folders(names: Iterable[str], skipped: str | None) -> Iterator[str]:
    for name in names:
        yield from _pictures_below(name, skipped) if os.path.isdir(name) else [name]


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


def _pictures_below(folder: str, skipped: str | None) -> Iterator[str]:
    """The pictures below a folder, by their suffixes, sorted; the folder itself if it has none."""
    empty = True
    for here, folders, files in os.walk(folder):
        folders.sort()
        if skipped:
            folders[:] = [name for name in folders if os.path.realpath(os.path.join(here, name)) != skipped]
        # a folder called face.jpg is probably a mistake: it gets a record that says so
        odd = [name for name in folders if _is_picture(name) and _is_empty(os.path.join(here, name))]
        for name in sorted([*filter(_is_picture, files), *odd]):
            empty = False
            yield os.path.join(here, name)
    if empty:
        yield folder


def _is_empty(folder: str) -> bool:
    try:
        return not os.listdir(folder)
    except OSError:
        return True


def _is_picture(name: str) -> bool:
    return os.path.splitext(name)[1].lower() in SUFFIXES
