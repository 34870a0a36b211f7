"""Files: written whole or not at all, hashed, and read or written as CSV by the row.

Tables that are analysed as a whole are read with `core.tables`; the functions here do without pandas.
"""

from __future__ import annotations

import csv
import errno
import glob
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, BinaryIO

from agecli.core.cells import csv_line
from agecli.core.errors import DiskFullError, InputError
from agecli.core.reading import MOST_TABLE, check_size

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})  # no space left on the device
WRITTEN = "user.agecli.written"  # extended attribute
LONGEST_LINE = 1 << 16  # characters of the first line of a CSV file, in which delimiters are counted
DELIMITERS = ",;\t"  # of CSV files; the others come from spreadsheets of other countries


@contextmanager
def write_whole(path: Path, sync: bool = True, follow: bool = True) -> Iterator[Path]:
    """A temporary path in the folder of `path`; it replaces `path` when the block succeeds and is removed when it fails.

    sync: flush to the disk, so that the file survives a power failure and not only a kill; slow for thousands of files.
    follow: write to the target of a symbolic link, so that it stays a link; otherwise the link itself is replaced.

    Parent folders are created. The temporary name has a random part and the file is created with O_EXCL, so that no file
    of the user is written to. Raises DiskFullError if there is no space for it.

        with write_whole(Path("report.csv")) as part:
            part.write_text("a,b\\n")
    """
    path = Path(os.path.realpath(path) if follow else path)
    part: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{_short(path.name)}.agecli-", suffix=".part")
        os.close(handle)
        part = Path(name)
        yield part
        if sync:
            with part.open("r+b") as file:
                os.fsync(file.fileno())  # without it, a power failure can leave an empty file under the final name
        umask = os.umask(0)
        os.umask(umask)
        part.chmod(0o666 & ~umask)  # mkstemp makes files that only the owner can read
        _mark_written(part)
        os.replace(part, path)
    except BaseException as error:
        if part is not None:
            with suppress(FileNotFoundError):
                part.unlink()
        if isinstance(error, OSError) and error.errno in FULL:
            raise disk_full(path, error) from error
        raise


def _mark_written(path: Path) -> None:
    """Note size and time of a file in an extended attribute, where the file system has them."""
    about = path.stat()
    if hasattr(os, "setxattr"):  # on Linux
        with suppress(OSError):
            os.setxattr(path, WRITTEN, f"{about.st_size} {about.st_mtime_ns}".encode())


def was_edited(path: Path) -> bool:
    """Whether a file was changed, or saved by another program, since `write_whole` wrote it.

    False where that can't be known: on file systems without extended attributes.
    """
    if not hasattr(os, "getxattr"):
        return False
    about = path.stat()
    try:
        return os.getxattr(path, WRITTEN) != f"{about.st_size} {about.st_mtime_ns}".encode()
    except OSError as error:
        return error.errno == errno.ENODATA


def _short(name: str) -> str:
    """The first part of a name, so that a temporary name is never too long for the file system."""
    return os.fsdecode(os.fsencode(name)[:80])


def remove_parts(folder: Path) -> None:
    """Remove the temporary files of `write_whole` that killed processes left below a folder."""
    waiting = [os.fspath(folder)]
    while waiting:
        with suppress(OSError), os.scandir(waiting.pop()) as entries:  # of which there may be millions
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                elif fnmatchcase(entry.name, ".*.agecli-????????.part"):
                    with suppress(FileNotFoundError):
                        os.unlink(entry.path)


def remove_parts_of(path: Path) -> None:
    """Remove the temporary files that killed processes left when they wrote one file, and no other may be writing it."""
    name = glob.escape(f".{_short(path.name)}.agecli-")
    for part in (*path.parent.glob(f"{name}????????.part"), *path.parent.glob(f"{name}????????.part.mp4")):
        with suppress(OSError):
            part.unlink()


def disk_full(path: Path, error: OSError) -> DiskFullError:
    """The error for the user when a file can't be written for lack of space.

    error: with one of the numbers in FULL: the disk is full, the user's quota is used up, or the file is too large.
    """
    reason = str(error.strerror).lower()
    if error.errno == errno.ENOSPC:
        with suppress(OSError):
            reason += f", {shutil.disk_usage(path.parent).free / 1e6:.1f} MB are free"
    return DiskFullError(
        f"{path} can't be written: {reason}",
        hint="free some space, then run the command again; --resume, where there is one, continues it",
    )


def write_all(file: BinaryIO, content: bytes) -> None:
    """Write all bytes to an unbuffered file: a single `write` may write a part of them only. Raises OSError."""
    rest = memoryview(content)
    while rest:
        rest = rest[file.write(rest) :]


def write_bytes(path: Path, content: bytes, sync: bool = True, follow: bool = True) -> None:
    """Write bytes, whole or not at all; `sync` and `follow` as in `write_whole`.

    Pictures are encoded in memory and written here, because Pillow does not notice that a disk is full.
    """
    with write_whole(path, sync, follow) as part:
        part.write_bytes(content)


def is_stream(path: Path) -> bool:
    """Whether a path is a pipe or a device, which can be written to but not replaced."""
    return path.exists() and not path.is_file() and not path.is_dir()


def link_whole(source: Path, path: Path) -> None:
    """Make `path` a hard link to `source`, or a copy where the file system has no hard links."""
    with write_whole(path) as part:
        part.unlink()
        try:
            os.link(source, part)
        except OSError:
            shutil.copyfile(source, part)


def file_hash(path: Path) -> str:
    """The SHA-256 of a file, 64 hexadecimal digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text, whole or not at all."""
    write_bytes(path, text.encode("utf-8"))


def write_csv(path: Path, rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> None:
    """Write rows as CSV, whole or not at all; keys outside `columns` are ignored, missing ones are empty.

    Names that are not UTF-8 keep their bytes (`surrogateescape`), here and in `read_csv`.

        write_csv(Path("labels.csv"), [{"path": "a.jpg", "age": 3}], ("path", "age"))
    """
    with write_whole(path) as part, part.open("w", newline="", encoding="utf-8", errors="surrogateescape") as file:
        file.write(csv_line(columns))
        file.writelines(csv_line([row.get(name, "") for name in columns]) for row in rows)


def delimiter(path: Path) -> str:
    """The character between the cells of a CSV file: the comma, semicolon or tab that its first line has most of."""
    check_size(path, MOST_TABLE)
    with path.open(encoding="utf-8-sig", errors="surrogateescape") as file:
        first = file.readline(LONGEST_LINE)
    return max(DELIMITERS, key=first.count)


def read_csv(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file, by column; names of columns are stripped and in lower case, missing cells are empty.

    Raises InputError if it is no CSV file: a cell has more than 131,072 characters, or a line has null bytes.
    """
    separator = delimiter(path)
    with path.open(newline="", encoding="utf-8-sig", errors="surrogateescape") as file:
        try:
            reader = csv.DictReader(file, delimiter=separator)
            reader.fieldnames = [name.strip().lower() for name in reader.fieldnames or []]
            return [{key: value or "" for key, value in row.items() if key} for row in reader]
        except csv.Error as error:
            raise InputError(f"{path} can't be read as CSV: {error}", hint="correct or restore the file") from error
