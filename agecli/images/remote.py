"""Remote files by fsspec: `s3://`, `gs://`, `hf://`, `https://`, … Needs the extra `remote`, and the package of the store.

Addresses are read by this process, several at a time ahead of their use; worker processes get the bytes.
"""

from __future__ import annotations

import re
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, BinaryIO, TypeVar, cast

from agecli.core.errors import InputError, MissingError
from agecli.core.extras import require
from agecli.core.futures import result
from agecli.core.signals import deferred_signals
from agecli.images.opening import UnreadableError

T = TypeVar("T")
AHEAD = 16  # addresses that are read at a time
PACKAGES = {
    "s3": "s3fs",
    "s3a": "s3fs",
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "az": "adlfs",
    "abfs": "adlfs",
    "abfss": "adlfs",
    "hf": "huggingface_hub",
    "http": "aiohttp",
    "https": "aiohttp",
    "sftp": "paramiko",
    "ssh": "paramiko",
    "oci": "ocifs",
    "hdfs": "pyarrow",
}
LOCAL = ("file", "local")
MOST_BYTES = 1 << 28  # of a picture
MOST_COPIED = 1 << 32  # bytes of an archive


def is_url(name: str) -> bool:
    """Whether a name is an address, as `s3://bucket/a.jpg`, and not a path."""
    return re.match(r"[a-z][a-z0-9+.-]+://", name) is not None


def filesystem(address: str) -> tuple[Any, str]:
    """The file system of an address and the path on it.

    Raises MissingError, with the line to install, if a package is missing; InputError for an unknown kind of address.
    """
    require("fsspec", needed_by=address)
    import fsspec

    protocol = address.partition("://")[0]
    try:
        found: tuple[Any, str] = fsspec.core.url_to_fs(address)
        return found
    except ImportError as error:
        package = PACKAGES.get(protocol, getattr(error, "name", None) or protocol)
        raise MissingError(
            f"{address} needs {package}, which is not installed", hint=f"pip install {package}"
        ) from None
    except ValueError as error:
        raise InputError(
            f"{address} can't be read: {error}", hint="use s3://, gs://, hf://, https:// or a path"
        ) from None


def find(address: str, wanted: Callable[[str], bool]) -> Iterator[str]:
    """The addresses of the files that an address stands for: a pattern with `*`, a folder, or itself.

    wanted: which files of a folder are used, by their names. Files of folders and patterns are sorted. An address of which
    nothing is found is given as it is, so that it gets a record.
    Raises MissingError and InputError as `filesystem` does.
    """
    system, path = filesystem(address)
    try:
        if re.search(r"[*?\[]", path) and not path.startswith("http"):
            names = sorted(system.glob(path))
        elif path.endswith("/") or address.endswith("/") or (not wanted(path) and system.isdir(path)):
            names = sorted(name for name in system.find(path) if wanted(name))
        else:
            names = []
    except Exception:  # stores have exceptions of their own; reading the address will say what is wrong
        names = []
    if not names:
        yield address
    for name in names:
        yield name if is_url(name) else system.unstrip_protocol(name)


def open_url(address: str, seekable: bool = False) -> BinaryIO:
    """An open remote file. Raises UnreadableError if it can't be opened.

    seekable: it is read at any place. From web servers that give whole files only, it is copied to a temporary file
    without a name, if it has at most MOST_COPIED bytes.
    """
    system, path = filesystem(address)
    try:
        if seekable and not system.info(path).get("partial", not address.startswith("http")):
            with system.open(path, "rb") as whole:
                return _copy(whole)
        file: BinaryIO = system.open(path, "rb")
        return file
    except UnreadableError:
        raise
    except Exception as error:
        raise UnreadableError(reason(error)) from None


def _copy(file: BinaryIO) -> BinaryIO:
    """A file with the same bytes, which vanishes when it is closed."""
    copy = tempfile.TemporaryFile()  # noqa: SIM115 (the caller closes it)
    while block := file.read(1 << 20):
        copy.write(block)
        if copy.tell() > MOST_COPIED:
            copy.close()
            raise UnreadableError(f"its server gives whole files only, and it has over {MOST_COPIED >> 30} GB")
    copy.seek(0)
    return cast(BinaryIO, copy)


def read_url(address: str) -> bytes:
    """The bytes of a remote file. Raises UnreadableError if it can't be read or is too large for a picture."""
    with open_url(address) as file:
        try:
            data = file.read(MOST_BYTES + 1)
        except Exception as error:
            raise UnreadableError(reason(error)) from None
    if len(data) > MOST_BYTES:
        raise UnreadableError(f"it is too large: a picture has {MOST_BYTES >> 20} MB at most")
    return data


def reason(error: Exception, what: str = "fetched") -> str:
    """Why a remote file can't be read or written."""
    if isinstance(error, FileNotFoundError):
        if not isinstance(error.__cause__, OSError):
            return "there is no such file"
        error = error.__cause__  # the server does not answer
    lines = str(error).splitlines()
    return f"it can't be {what}: {type(error).__name__}" + (f": {lines[0][:120]}" if lines else "")


def fetched(items: Iterable[T], ahead: int = AHEAD) -> Iterator[tuple[T, bytes | UnreadableError | None]]:
    """Each item with the bytes of the remote file that it names; None for all that is no address.

    Up to `ahead` items that are addresses, or follow one, are taken before they are needed.
    """
    queue: deque[tuple[T, Future[bytes] | None]] = deque()
    pool: ThreadPoolExecutor | None = None
    try:
        for item in items:
            future = None
            if isinstance(item, str) and is_url(item):
                filesystem(item)  # what is missing is an error here, once
                pool = pool or ThreadPoolExecutor(ahead, "agecli-remote")
                with deferred_signals():
                    future = pool.submit(read_url, item)
            queue.append((item, future))
            while queue and (queue[0][1] is None or len(queue) >= ahead):
                yield _finished(*queue.popleft())
        while queue:
            yield _finished(*queue.popleft())
    finally:
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)


def _finished(item: T, future: Future[bytes] | None) -> tuple[T, bytes | UnreadableError | None]:
    """An item with what its future gave."""
    if future is None:
        return item, None
    try:
        return item, result(future)
    except UnreadableError as error:
        return item, error
