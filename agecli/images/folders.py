"""The photo files below a folder, in one order on every platform."""

from __future__ import annotations

import os
from collections.abc import Iterator

from agecli.images.reading import SUFFIXES


def photos_in(
    folder: str | os.PathLike[str],
    skip: str | os.PathLike[str] | None = None,
    suffixes: frozenset[str] = SUFFIXES,
) -> Iterator[str]:
    """Paths of the photos below a folder, relative to it, with forward slashes, sorted by their bytes.

    Photos are recognised by the endings of their names (`suffixes`, in lower case). Symbolic links to folders are not
    followed; the folder `skip` is left out. A folder that can't be read, or is empty and named like a photo, is listed
    itself, so that its error is reported.
    Names that are not UTF-8 are kept (`surrogateescape`). One folder at a time is read, so large trees can be streamed.

        for name in photos_in("album"): ...
    """
    top = os.fspath(folder)
    skipped = os.path.realpath(skip) if skip is not None else None
    stack = [_items(top, "", skipped, suffixes)]
    while stack:
        for path in stack[-1]:
            if path.endswith("/"):
                stack.append(_items(top, path[:-1], skipped, suffixes))
                break
            yield path
        else:
            stack.pop()


def is_photo(name: str, suffixes: frozenset[str] = SUFFIXES) -> bool:
    """Whether a name ends like that of a photo: `is_photo("a.JPG")`."""
    return os.path.splitext(name)[1].lower() in suffixes


def _items(top: str, inside: str, skipped: str | None, suffixes: frozenset[str]) -> Iterator[str]:
    """Photos and subfolders of one folder, sorted by their bytes, relative to `top`.

    A folder is `name/`, so that the whole walk is in path order. Only the names are kept, as bytes.
    """
    items: list[bytes] = []
    try:
        with os.scandir(os.path.join(top, inside)) as entries:
            for entry in entries:
                if kind := _kind(entry, skipped, suffixes):
                    items.append(os.fsencode(entry.name) + (b"/" if kind == "folder" else b""))
    except OSError:
        return iter([inside] if inside else ())
    items.sort()
    return (f"{inside}/{os.fsdecode(item)}" if inside else os.fsdecode(item) for item in items)


def _kind(entry: os.DirEntry[str], skipped: str | None, suffixes: frozenset[str]) -> str:
    """What an entry of a folder is: photo, folder (to descend into), or empty for all that is left out."""
    photo = is_photo(entry.name, suffixes)
    if not _is_folder(entry):
        return "photo" if photo else ""
    if skipped is not None and os.path.realpath(entry.path) == skipped:
        return ""
    if photo and _is_empty(entry.path):
        return "photo"
    return "" if entry.is_symlink() else "folder"


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
