"""Tables of a data set: found among any number of photos, without keeping the names of all files in memory."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path


def find_files(folder: Path, wanted: Callable[[str], bool], depth: int = 0, links: bool = False) -> list[Path]:
    """The files of a folder, and of those up to `depth` below it, whose names are wanted: upper ones first, each level sorted.

    Pipes, devices and folders that can't be read are left out.   links: follow links to folders.

    Example: `find_files(Path("morph"), lambda name: name.endswith(".csv"), depth=2)`
    """
    found, level = list[Path](), [str(folder)]
    for _ in range(depth + 1):
        here, below = list[Path](), list[str]()
        for place in level:
            _look(place, wanted, links, here, below)
        found += sorted(here)
        level = below
        if not level:
            break
    return found


def _look(place: str, wanted: Callable[[str], bool], links: bool, files: list[Path], folders: list[str]) -> None:
    """Add the wanted files of one folder, and its subfolders, to the lists."""
    try:
        with os.scandir(place) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=links):
                    folders.append(entry.path)
                elif wanted(entry.name) and os.path.isfile(entry.path):
                    files.append(Path(entry.path))
    except OSError:
        return
