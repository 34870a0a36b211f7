"""Lists that do not fit the memory: names of photos and results of them, in files, read in order or by name."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import tempfile
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar, overload

import numpy as np

from agecli.core.journal import JournalFile

V = TypeVar("V")
Entry = dict[str, Any]


class SpooledNames(Sequence[str]):
    """Names in a temporary file, which vanishes with this object. Iterating keeps one of them in memory.

    SpooledNames(photos_in("album"))[::100]
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.length = 0
        self.file = tempfile.TemporaryFile()  # noqa: SIM115 (as long as this object)
        for name in names:
            self.file.write(os.fsencode(name) + b"\0")
            self.length += 1
        self.file.flush()

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[str]:
        handle, offset, rest = self.file.fileno(), 0, b""
        while block := os.pread(handle, 1 << 16, offset):
            offset += len(block)
            *names, rest = (rest + block).split(b"\0")
            yield from map(os.fsdecode, names)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        if isinstance(place, slice):
            return list(islice(self, *place.indices(self.length)))
        wanted = range(self.length)[place]  # raises IndexError
        return next(islice(self, wanted, None))


class Computed(Mapping[str, V]):
    """What a function says of names, computed when it is asked for; names of which it says None are left out."""

    def __init__(self, names: Iterable[str], value: Callable[[str], V | None]) -> None:
        self.names, self.value = names, value

    def __getitem__(self, name: str) -> V:
        if (found := self.value(name)) is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return (name for name in self.names if self.value(name) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class SpooledRows(Mapping[str, tuple[str, ...]]):
    """Rows of text by name in a temporary database, which vanishes with this object; sorted by name, the last of each counts.

    SpooledRows([("b.jpg", ("30",)), ("a.jpg", ("31",))])["a.jpg"]
    """

    def __init__(self, rows: Iterable[tuple[str, Sequence[str]]]) -> None:
        self.base = sqlite3.connect("", check_same_thread=False)  # "": in a file, of which a part is kept in memory
        self.base.execute("CREATE TABLE entries (name BLOB PRIMARY KEY, cells TEXT NOT NULL) WITHOUT ROWID")
        pairs = ((_bytes(name), json.dumps(list(cells))) for name, cells in rows)
        self.base.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?)", pairs)
        self.base.commit()
        (self.length,) = self.base.execute("SELECT count(*) FROM entries").fetchone()

    def __len__(self) -> int:
        return int(self.length)

    def __iter__(self) -> Iterator[str]:
        names = self.base.execute("SELECT name FROM entries ORDER BY name")
        return (name.decode("utf-8", "surrogatepass") for (name,) in names)

    def __getitem__(self, name: str) -> tuple[str, ...]:
        row = self.base.execute("SELECT cells FROM entries WHERE name = ?", (_bytes(name),)).fetchone()
        if row is None:
            raise KeyError(name)
        return tuple(json.loads(row[0]))


def _bytes(name: str) -> bytes:
    """A name, whatever its bytes on the disk were, in an encoding that sorts as Python does."""
    return name.encode("utf-8", "surrogatepass")


class ResultIndex:
    """Where in a journal the last result of each source is: 16 bytes of memory for each.

    index = ResultIndex(journal)
    index.find("a.jpg")
    """

    def __init__(self, journal: JournalFile) -> None:
        self.path = journal.path
        keys, offsets = array("Q"), array("Q")
        for offset, entry in journal.entries_with_offsets():
            keys.append(key_of(entry["source"]))
            offsets.append(offset)
        order = np.argsort(np.frombuffer(keys, np.uint64), kind="stable")
        self.keys = np.frombuffer(keys, np.uint64)[order]
        self.offsets = np.frombuffer(offsets, np.uint64)[order]

    def __len__(self) -> int:
        return len(self.keys)

    def find_all(self, sources: Iterable[str]) -> Iterator[Entry | None]:
        """The last result of each of some sources; None for those without one."""
        with self.path.open("rb") as file:
            for source in sources:
                place = int(np.searchsorted(self.keys, np.uint64(key_of(source)), "right")) - 1
                if place < 0 or self.keys[place] != key_of(source):
                    yield None
                    continue
                file.seek(int(self.offsets[place]))
                entry: Entry = json.loads(file.readline())
                yield entry if entry["source"] == source else None  # two sources with one key: as good as never


def key_of(source: str) -> int:
    """64 bits of a hash of a name."""
    return int.from_bytes(hashlib.blake2b(os.fsencode(source), digest_size=8).digest(), "little")
