"""Packs: the pictures of a data folder in WebDataset tars, found by their names without a scan.

A packed folder has tars, `faces-00000.tar`, …, with `KEY.jpg` and `KEY.json` for each face, and INDEX: where in which tar
the picture of each path is. Its paths are those that the unpacked folder would have, as `faces/a.png.jpg`.
"""

from __future__ import annotations

import hashlib
import io
import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from agecli.core.errors import InputError

INDEX = "faces.index.npy"
FOLDERS = ("faces", "more-faces")  # in which crops are
ENTRY = np.dtype([("key", "<u8"), ("check", "<u8"), ("offset", "<u8"), ("size", "<u4"), ("tar", "<u4")])


@dataclass(frozen=True)
class Packed:
    """Where a packed picture is: `size` bytes at an offset of a tar."""

    tar: Path
    offset: int
    size: int

    def open(self) -> BinaryIO:
        """Its bytes, as a file in memory. Raises OSError if the tar is not there, or too short."""
        with self.tar.open("rb") as file:
            file.seek(self.offset)
            data = file.read(self.size)
        if len(data) < self.size:
            raise OSError(f"{self.tar.name} ends before it does")
        return io.BytesIO(data)

    def stat(self) -> tuple[int, int]:
        """Its size in bytes, and the time of the last change of its tar in nanoseconds. Raises OSError."""
        return self.size, self.tar.stat().st_mtime_ns


def tar_path(folder: Path, number: int) -> Path:
    """The tar of a shard: `faces-00042.tar`."""
    return folder / f"faces-{number:05d}.tar"


def hash_of(path: str) -> tuple[int, int]:
    """The key of a path in the index, and another hash that confirms it, of 64 bits each."""
    digest = hashlib.blake2b(os.fsencode(path), digest_size=16).digest()
    return int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little")


def find_packed(path: str | Path) -> Packed | None:
    """Where the picture with this path is, if it is one of a packed folder; None for all other paths.

    Example: `find_packed("aligned/faces/001A02.JPG.jpg")`
    """
    parts = Path(path).parts
    for place, part in enumerate(parts):
        folder = os.path.join(*parts[:place]) if place else "."
        if part in FOLDERS and (index := open_index(folder)) is not None:
            return _find(index, Path(folder), "/".join(parts[place:]))
    return None


def open_index(folder: str | Path) -> NDArray[np.void] | None:
    """The index of a packed folder, mapped into memory; None if it has none, or one that can't be used."""
    path = os.path.join(folder, INDEX)
    try:
        about = os.stat(path)
    except OSError:
        return None
    return _map(os.path.abspath(path), about.st_mtime_ns, about.st_size)


def check_index(folder: Path) -> None:
    """Raise InputError if a folder has tars in place of files, and no index that can be used."""
    if not tar_path(folder, 0).is_file() or (folder / FOLDERS[0]).is_dir() or open_index(folder) is not None:
        return
    problem = "is damaged" if (folder / INDEX).exists() else "is missing"
    raise InputError(
        f"{folder / INDEX} {problem}: it says where in the tars each face is",
        hint=f"make it again: `agecli merge {folder}` if the folder has plan.json, or the same `agecli preprocess --pack`",
    )


@lru_cache(maxsize=8)
def _map(path: str, changed: int, size: int) -> NDArray[np.void] | None:
    """An index, kept for the next picture.   changed, size: of the file, so that another one is opened anew"""
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    return found if isinstance(found, np.ndarray) and found.dtype == ENTRY and found.ndim == 1 else None


def _find(index: NDArray[np.void], folder: Path, path: str) -> Packed | None:
    """The entry of a path, by binary search."""
    key, check = hash_of(path)
    place = int(np.searchsorted(index["key"], np.uint64(key)))
    while place < len(index) and index["key"][place] == key:
        if index["check"][place] == check:
            entry = index[place]
            return Packed(tar_path(folder, int(entry["tar"])), int(entry["offset"]), int(entry["size"]))
        place += 1
    return None
