"""The photo files below a folder, in one order on every platform."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from agecli.images.reading import SUFFIXES


class _Item(NamedTuple):
    """A photo, or a folder to descend into; tuples sort by `key`, the bytes of the path."""

    key: bytes
    path: str  # relative to the folder that is searched, with forward slashes
    is_folder: bool


def photos_in(
    folder: str | os.PathLike[str],
    skip: str | os.PathLike[str] | None = None,
    suffixes: frozenset[str] = SUFFIXES,
) -> Iterator[str]:
    """Paths of the photos below a folder, relative to it, with forward slashes, sorted by their bytes.

    Photos are recognised by the endings of their names (`suffixes`, in lower case). Symbolic links to folders are not followed;
    the folder `skip` is left out. A folder that can't be read, or is empty and named like a photo, is listed itself, so
    that its error is reported.
    Names that are not UTF-8 are kept (`surrogateescape`). One folder at a time is read, so large trees can be streamed.

        for name in photos_in("album"): ...
    """
    top = os.fspath(folder)
    skipped = os.path.realpath(skip) if skip is not None else None
    stack = [_items(top, "", skipped, suffixes)]
    while stack:
        for item in stack[-1]:
            if item.is_folder:
                stack.append(_items(top, item.path, skipped, suffixes))
                break
            yield item.path
        else:
            stack.pop()


def is_photo(name: str, suffixes: frozenset[str] = SUFFIXES) -> bool:
    """Whether a name ends like that of a photo: `is_photo("a.JPG")`."""
    return os.path.splitext(name)[1].lower() in suffixes


def _items(top: str, inside: str, skipped: str | None, suffixes: frozenset[str]) -> Iterator[_Item]:
    """Photos and subfolders of one folder, sorted. A folder sorts as `name/`, so that the whole walk is in path order."""
    try:
        entries = list(os.scandir(os.path.join(top, inside)))
    except OSError:
        return iter([_Item(b"", inside, False)] if inside else ())
    items = []
    for entry in entries:
        path = f"{inside}/{entry.name}" if inside else entry.name
        photo = is_photo(entry.name, suffixes)
        if not _is_folder(entry):
            if photo:
                items.append(_Item(os.fsencode(path), path, False))
        elif skipped is not None and os.path.realpath(entry.path) == skipped:
            continue
        elif photo and _is_empty(entry.path):
            items.append(_Item(os.fsencode(path), path, False))
        elif not entry.is_symlink():
            items.append(_Item(os.fsencode(path) + b"/", path, True))
    return iter(sorted(items))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a folder or a link to one."""
    try:
        return entry.is_dir()
    except OSError:  # a link that leads to itself
        return False


def _is_empty(folder: str) -> bool:
    """Whether a folder has no entries, or can't be read."""
    try:
        return not os.listdir(folder)
    except OSError:
        return True
