"""Pictures inside of files: what a member of an archive, or a row of a Parquet file, is to the rest of the program."""

from __future__ import annotations

import re
from dataclasses import dataclass

KINDS = {  # by the ending of the name
    ".tar": "tar",
    ".tar.gz": "stream",
    ".tgz": "stream",
    ".tar.bz2": "stream",
    ".tar.xz": "stream",
    ".zip": "zip",
    ".parquet": "parquet",
}
MOST_BYTES = 1 << 28  # of a member: a picture has less


@dataclass(frozen=True)
class Member:
    """A picture in a container. Plain data, for worker processes and for lists of inputs.

    source: the container's name and the member's, as records show it.   container: a path or an address.
    kind: tar, zip, stream (what is read in order: compressed or remote) or parquet.
    place: its offset in a tar, else its number.   size: in bytes, where it is known.
    error: why it can't be read; empty if it can be.
    """

    source: str
    container: str
    kind: str
    place: int
    size: int = 0
    error: str = ""


@dataclass(frozen=True)
class Blob:
    """The bytes of an encoded picture, or the reason why there are none."""

    source: str
    data: bytes
    error: str = ""


def kind_of_container(name: str) -> str | None:
    """The kind of a container, by its name; None for any other file.   Example: `kind_of_container("a.tar.gz")`"""
    match = re.search(r"(\.tar\.\w+|\.\w+)$", name.lower())
    return KINDS.get(match[1]) if match else None


def too_large(size: int) -> str:
    """The reason why a member of so many bytes is not read."""
    return f"it is too large, {size / 1e6:.0f} MB: a picture has {MOST_BYTES >> 20} MB at most"
