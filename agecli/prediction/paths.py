"""The inputs that arguments stand for: files, folders, globs, archives, addresses, @lists and standard input, in order."""

from __future__ import annotations

import glob
import logging
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from agecli.core.errors import InputError, MissingError
from agecli.core.signatures import describe_media
from agecli.images.containers import list_members
from agecli.images.folders import is_photo, photos_in
from agecli.images.members import Member, kind_of_container
from agecli.images.opening import UnreadableError, open_regular
from agecli.images.reading import SUFFIXES as PHOTOS
from agecli.images.remote import find, is_url
from agecli.images.video import SUFFIXES as VIDEOS
from agecli.images.video import is_video

log = logging.getLogger("agecli")


class SkippedVideos:
    """Videos in folders that are not predicted, for one warning at the end."""

    def __init__(self) -> None:
        self.count = 0
        self.first: list[str] = []

    def add(self, name: str) -> None:
        """Count one video; the first three are remembered by their names."""
        self.count += 1
        self.first += [name] if len(self.first) < 3 else []

    def warn(self) -> None:
        """Log how many there were, and the option that predicts them; nothing if there were none."""
        if self.count:
            names = ", ".join((*self.first, "…") if self.count > len(self.first) else self.first)
            log.warning("%d video(s) in folders were skipped: %s; --videos predicts them", self.count, names)


def expand(
    arguments: Iterable[str],
    null: bool = False,
    stdin: BinaryIO | None = None,
    skip: str | Path | None = None,
    skipped: SkippedVideos | None = None,
) -> Iterator[str | Member]:
    """The files of some arguments, in order, without reading ahead.

    arguments: a file; a folder (all pictures below it, sorted); a glob, `**` included; "@FILE" for names in a file,
        one per line; "-" for names on `stdin`; an archive (.tar, .tar.gz, .zip) or a .parquet file for the pictures in
        it; an address (s3://, https://, …) of a file, a folder or a glob. Names that match nothing are kept, so that they
        get a record, too.
    null: names in lists and on stdin end with a null byte instead of a line break.
    stdin: a binary stream; None is standard input.
    skip: a folder that is left out of other folders.
    skipped: collects the videos in folders, which are then left out; None yields them, too.

    Raises MissingError for a list or a package that is not there, InputError for null bytes without `null`.

    Example: `list(expand(["photos/", "more/*.jpg"]))`
    """
    for argument in arguments:
        if argument == "-":
            yield from _expand_folders(_read_names(stdin or sys.stdin.buffer, null), skip, skipped)
        elif argument.startswith("@") and not os.path.exists(argument):
            path = Path(argument[1:])
            if not path.exists() or path.is_dir():  # a pipe is all right: predict @<(ls *.jpg)
                raise MissingError(f"there is no list {path}", hint="@FILE reads names from FILE, one per line")
            with path.open("rb") as file:
                yield from _expand_folders(_read_names(file, null), skip, skipped)
        elif not is_url(argument) and not os.path.exists(argument) and glob.has_magic(argument):
            yield from _expand_folders(sorted(glob.glob(argument, recursive=True)) or [argument], skip, skipped)
        else:
            yield from _expand_folders([argument], skip, skipped)


def _expand_folders(
    names: Iterable[str], skip: str | Path | None, skipped: SkippedVideos | None
) -> Iterator[str | Member]:
    """The pictures of folders, archives and addresses; other names as they are."""
    for name in names:
        if is_url(name):
            for address in find(name, is_photo):
                yield from list_members(address) if kind_of_container(address) else [address]
        elif os.path.isdir(name):
            yield from _pictures_below(name, skip, skipped)
        elif kind_of_container(name) and os.path.exists(name) and not _is_picture(name):
            yield from list_members(name)
        else:
            yield name


def _is_picture(name: str) -> bool:
    """Whether the content of a file is a picture or a video, although it is named like an archive."""
    try:
        with open_regular(name) as file:
            return describe_media(file.read(512)) in ("a picture", "a video")
    except (OSError, UnreadableError):
        return False  # which `list_members` reports


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


def _pictures_below(folder: str, skip: str | Path | None, skipped: SkippedVideos | None) -> Iterator[str]:
    """The pictures below a folder, in the order of their paths; the folder itself if it has none, for its error record."""
    empty = True
    for name in photos_in(folder, skip, PHOTOS | VIDEOS):
        path = os.path.join(folder, name)
        if skipped is not None and is_video(name):
            skipped.add(path)
        else:
            empty = False
            yield path
    if empty:
        yield folder
