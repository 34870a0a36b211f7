"""Places: folders and files of a run, on a local file system or at an address such as `s3://bucket/ages/`.

A file is made under a temporary name, or in a temporary folder, and appears under its name when it is whole.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, BinaryIO, TextIO, cast

from agecli.core import files, locks, outputs, streams
from agecli.core.errors import AgecliError, InputError
from agecli.images.remote import LOCAL, filesystem, is_url, reason

WHOLE = (
    "s3",
    "s3a",
    "gs",
    "gcs",
    "az",
    "abfs",
    "abfss",
    "oci",
    "memory",
)  # stores in which a file appears when it is whole


class RemotePath:
    """A file or a folder at an address, with the methods of `Path` that runs need.

    What a store can't do is an InputError with its reason; a file that is not there is a FileNotFoundError.
    Raises MissingError, with the line to install, if the package of the store is missing.
    """

    def __init__(self, address: str) -> None:
        self.address = address.rstrip("/")
        self.protocol = address.partition("://")[0]
        self.name = self.address.rpartition("/")[2]
        self.suffix = os.path.splitext(self.name)[1]
        filesystem(self.address)

    def __str__(self) -> str:
        return self.address

    def __truediv__(self, name: str) -> RemotePath:
        return RemotePath(f"{self.address}/{name}")

    @contextmanager
    def _store(self) -> Iterator[tuple[Any, str]]:
        """The file system and the path on it, as it is now: listings are not cached."""
        system, path = filesystem(self.address)
        try:
            system.invalidate_cache()
            yield system, path
        except (AgecliError, FileNotFoundError):
            raise
        except Exception as error:  # stores have exceptions of their own
            raise InputError(
                f"{self.address}: {reason(error, 'used')}", hint="check the address, the network and your credentials"
            ) from error

    def open(self, mode: str = "rb") -> BinaryIO:
        """Open it to read bytes, at any place. Raises FileNotFoundError."""
        with self._store() as (system, path):
            return cast(BinaryIO, system.open(path, mode))

    def exists(self) -> bool:
        """Whether there is such a file or folder."""
        with self._store() as (system, path):
            return bool(system.exists(path))

    def is_file(self) -> bool:
        """Whether there is such a file, and it is no folder."""
        with self._store() as (system, path):
            return bool(system.isfile(path))

    def read_text(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """Its content. Raises FileNotFoundError."""
        with self._store() as (system, path):
            return bytes(system.cat_file(path)).decode(encoding, errors)

    def unlink(self) -> None:
        """Remove the file. Raises FileNotFoundError."""
        with self._store() as (system, path):
            system.rm_file(path)

    def names(self) -> list[str]:
        """The names of the files in a folder; none if it is not there."""
        with self._store() as (system, path):
            try:
                return [name.rstrip("/").rpartition("/")[2] for name in system.ls(path, detail=False)]
            except FileNotFoundError:
                return []

    def modified(self) -> float:
        """When the file was written, in seconds since 1970; 0 if the store does not know."""
        with self._store() as (system, path):
            try:
                return float(system.modified(path).timestamp())
            except NotImplementedError:
                return 0.0

    def put(self, source: Path) -> None:
        """Copy a local file there, whole or not at all. Raises InputError."""
        try:
            self._put(source)
        except FileNotFoundError as error:
            raise InputError(f"{self.address}: {error}", hint="create the bucket or the folder first") from error

    def _put(self, source: Path) -> None:
        with self._store() as (system, path):
            if self.protocol in WHOLE:
                system.put_file(str(source), path)
                return
            parent, _, name = path.rpartition("/")
            temporary = f"{parent}/.{name}.agecli-{uuid.uuid4().hex[:8]}.part"
            try:
                system.makedirs(parent, exist_ok=True)
                system.put_file(str(source), temporary)
                system.mv(temporary, path)
            except BaseException:
                with suppress(Exception):
                    system.rm_file(temporary)
                raise


Place = Path | RemotePath


def place(text: str | os.PathLike[str] | RemotePath) -> Place:
    """The place that a path or an address names; `file://` is a path.

    >>> place("file:///tmp/ages")
    PosixPath('/tmp/ages')
    """
    if isinstance(text, RemotePath):
        return text
    name = os.fspath(text)
    if not is_url(name):
        return Path(name)
    protocol, _, rest = name.partition("://")
    return Path(rest) if protocol in LOCAL else RemotePath(name)


def absolute(folder: Place) -> str:
    """A name of a place that is the same in any working directory."""
    return os.path.abspath(folder) if isinstance(folder, Path) else str(folder)


def names_in(folder: Place) -> list[str]:
    """The names of the files in a folder; none if it is not there."""
    if isinstance(folder, RemotePath):
        return folder.names()
    return [entry.name for entry in os.scandir(folder)] if folder.is_dir() else []


def modified(path: Place) -> float:
    """When a file was written, in seconds since 1970."""
    return path.modified() if isinstance(path, RemotePath) else path.stat().st_mtime


def locked(path: Place, patience: float) -> AbstractContextManager[None]:
    """The lock of a file, as in `core.locks`. Stores have none: two processes then do the same work."""
    return nullcontext() if isinstance(path, RemotePath) else locks.locked(path, patience=patience)


@contextmanager
def write_whole(path: Place, keep: bool = False) -> Iterator[Path]:
    """A temporary file, which is at `path` when the block succeeds, and gone when it fails; see `core.files.write_whole`.

    keep: if a store does not take the file, leave it in a temporary folder, which the error names.
    """
    if isinstance(path, Path):
        with files.write_whole(path) as part:
            yield part
        return
    folder = Path(tempfile.mkdtemp(prefix="agecli-"))
    part, kept = folder / path.name, False
    try:
        part.touch()
        try:
            yield part
        except OSError as error:
            if error.errno in files.FULL:
                raise files.disk_full(part, error) from error
            raise
        try:
            path.put(part)
        except InputError as error:
            kept = keep
            raise InputError(error.message, f"the file is {part}: copy it there" if keep else error.hint) from error
    finally:
        if not kept:
            shutil.rmtree(folder, ignore_errors=True)


def write_text(path: Place, text: str) -> None:
    """Write UTF-8 text, whole or not at all."""
    with write_whole(path) as part:
        part.write_text(text, encoding="utf-8", newline="")


@contextmanager
def destination(path: Place | None, stdout: TextIO) -> Iterator[TextIO]:
    """A text stream to write to, as `core.streams.destination`; the file may be at an address."""
    if not isinstance(path, RemotePath):
        with streams.destination(path, stdout) as stream:
            yield stream
        return
    with write_whole(path, keep=True) as part, streams.destination(part, stdout) as stream:
        yield stream


def check_remote_output(path: RemotePath, force: bool) -> None:
    """Raise InputError before any work if a file at an address can't be written, or is there already without `force`.

    Not even `force` replaces a picture, a video or an archive, which may be an input.
    """
    if path.exists():
        if not force:
            raise InputError(f"{path} exists", hint="write to another file, or replace it with --force")
        with path.open() as file:
            head, tail = outputs.read_ends(file)
        if not outputs.is_table(head, tail):
            outputs.check_replaceable(path, path.name, head, tail)
    probe = RemotePath(f"{path.address.rpartition('/')[0]}/.agecli-{uuid.uuid4().hex[:8]}.part")
    with write_whole(probe):
        pass
    with suppress(FileNotFoundError):
        probe.unlink()
