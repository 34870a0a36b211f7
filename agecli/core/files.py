"""Files that are written whole or not at all."""

from __future__ import annotations

import csv
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any


@contextmanager
def write_whole(path: Path, sync: bool = True) -> Iterator[Path]:
    """A temporary path beside `path` that takes its place when the block ends well, and is removed when it does not.

    `sync` makes it survive a power cut; without it, only a kill. For thousands of small files it is slow.
    """
    path = Path(os.path.realpath(path))  # a link stays a link
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
    os.close(handle)
    part = Path(name)
    try:
        yield part
        if sync:
            with part.open("r+b") as file:
                os.fsync(file.fileno())  # a power cut must not leave an empty file under the final name
        umask = os.umask(0)
        os.umask(umask)
        part.chmod(0o666 & ~umask)  # mkstemp makes private files; results are ordinary ones
        os.replace(part, path)
    except BaseException:
        with suppress(FileNotFoundError):
            part.unlink()
        raise


def is_stream(path: Path) -> bool:
    """A pipe or a device, which nothing can take the place of."""
    return path.exists() and not path.is_file() and not path.is_dir()


def link_whole(source: Path, path: Path) -> None:
    """A second name for a file; a copy where the file system has no links."""
    with write_whole(path) as part:
        part.unlink()
        try:
            os.link(source, part)
        except OSError:
            shutil.copyfile(source, part)


def file_hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write_text(path: Path, text: str) -> None:
    with write_whole(path) as part:
        part.write_text(text, encoding="utf-8")


def write_csv(path: Path, rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> None:
    write_table(path, ([row.get(name, "") for name in columns] for row in rows), columns)


def write_table(path: Path, rows: Iterable[Iterable[Any]], columns: Sequence[str]) -> None:
    """The same of rows that are cells in the order of the columns."""
    with write_whole(path) as part, part.open("w", newline="", encoding="utf-8", errors="surrogateescape") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)


def delimiter(path: Path) -> str:
    """What stands between the cells of a CSV file's first line: a comma, or what spreadsheets of other countries use."""
    with path.open(encoding="utf-8-sig", errors="surrogateescape") as file:
        first = file.readline()
    return max(",;\t", key=first.count)


def read_csv(path: Path) -> list[dict[str, str]]:
    """Rows of a CSV file, names of columns stripped and in lower case."""
    with path.open(newline="", encoding="utf-8-sig", errors="surrogateescape") as file:
        reader = csv.DictReader(file, delimiter=delimiter(path))
        reader.fieldnames = [name.strip().lower() for name in reader.fieldnames or []]
        return [{key: value or "" for key, value in row.items() if key} for row in reader]
