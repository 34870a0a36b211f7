"""Outputs: a command never replaces an input, a picture, or any file that agecli did not write.

Files are recognised by their content, whatever their names. `--force` replaces files that agecli did not write, but no
input that is named in the arguments, and no picture, video, archive, trained model, manifest.csv or labels.csv: these
may be inputs, too, by way of a folder, a glob, a list, standard input or the plan of a run.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from agecli.core.errors import InputError
from agecli.core.files import is_stream, was_edited
from agecli.core.signatures import describe_media

HEAD = 1 << 16  # bytes at both ends of a file that are looked at
HEADER = 1 << 24  # bytes of the header of a checkpoint that are looked at
# The first columns of the tables that are written to files which users name: of `predict`, `split`, `audit`, …
TABLES = (
    ("schema", "source", "status"),
    ("fold", "part", "path"),
    ("fold", "part", "images"),
    ("fold", "images", "mae"),
    ("path", "age", "subject", "sex", "race", "problem"),
    ("what", "count"),
    ("what", "group", "count"),
    ("model", "images", "mae"),
    ("cell", "label", "group"),
    ("tree", "leaf", "faces"),
    ("path", "subject", "age", "predicted"),
    ("fold", "path", "subject", "age", "predicted"),
    ("by", "group", "subjects", "images"),
)
TEXT_TABLE = b"age    90 % interval"  # of `predict --format table`
PARQUET = (b"schema", b"source", b"status", b"coverage")  # names of columns, in its footer
PICTURES = (b"Software\0agecli", b"<dc:title>agecli</dc:title>", b"/Creator (agecli)", b"agecli contact sheet")
PAGE = b'<meta name="generator" content="agecli">'
CHECKPOINT = "agecli-checkpoint"
LABELS = ("manifest.csv", "labels.csv")  # tables of a data set


def check_output(path: Path, kinds: Iterable[str], inputs: Iterable[str | Path] = (), force: bool = False) -> None:
    """Raise InputError if a file must not be replaced; a file that is not there, a pipe and a device are all right.

    kinds: of files of agecli that the new one may replace: table, picture, page, model (see `kind_of`).
    inputs: files that the command reads, which are never replaced.
    force: replace any other file, but those that `check_replaceable` refuses.

    Example: `check_output(Path("ages.csv"), ["table"], inputs=photos)`
    """
    if not path.exists() or is_stream(path) or path.is_dir():
        return
    if any(os.path.exists(name) and path.samefile(name) for name in inputs):
        raise InputError(f"{path} is an input of this command and is not replaced", hint="write to another file")
    head, tail = _ends(path)
    kind = kind_of(path)
    if kind == "empty" or (force and kind in kinds):
        return
    if force:
        check_replaceable(path, path.name, head, tail)
        return
    if kind in kinds and was_edited(path):
        raise InputError(
            f"{path} was changed since agecli wrote it, or copied",
            hint="write to another file, or replace it with --force",
        )
    if kind not in kinds:
        raise InputError(
            f"{path} exists, and was not written by a command like this one",
            hint="write to another file, or replace it with --force",
        )


def kind_of(path: Path) -> str:
    """What a file of agecli is: table, picture, page or model; or `empty`, which anything may replace.

    It is `foreign` if agecli did not write it, or wrote it for its own use: a manifest.csv, a trained checkpoint, …
    """
    head, tail = _ends(path)
    if not head:
        return "empty"
    if is_table(head, tail):
        return "table"
    if any(mark in head or mark in tail for mark in PICTURES):
        return "picture"
    if PAGE in head:
        return "page"
    return "model" if _is_model(path, head) else "foreign"


def check_replaceable(path: object, name: str, head: bytes, tail: bytes) -> None:
    """Raise InputError for a file that not even --force replaces: a picture, a video, … (see `signatures`), or labels.

    path: for the message;   name: of the file;   head, tail: its first and last bytes.
    """
    what = "a table of a data set" if name in LABELS else describe_media(head, tail)
    if what:
        raise InputError(
            f"{path} is {what} that agecli did not write here, and is not replaced, even with --force",
            hint="write to another file, or remove this one first",
        )


def _ends(path: Path) -> tuple[bytes, bytes]:
    """The first and the last HEAD bytes of a file."""
    with path.open("rb") as file:
        return read_ends(file)


def read_ends(file: BinaryIO) -> tuple[bytes, bytes]:
    """The first and the last HEAD bytes of an open file."""
    head = file.read(HEAD)
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - HEAD))
    return head, file.read(HEAD)


def is_table(head: bytes, tail: bytes) -> bool:
    """Whether a file begins as one of TABLES in JSON, JSON lines, CSV or TSV, or is a text table or a parquet file."""
    if head.startswith(TEXT_TABLE) or (head.startswith(b"PAR1") and all(name in tail for name in PARQUET)):
        return True
    text = head.decode("utf-8", "replace").lstrip("\ufeff[ \r\n")
    if text.startswith("{"):
        try:
            names = [*json.JSONDecoder().raw_decode(text)[0]]
        except (ValueError, RecursionError):
            return False
    else:
        names = text.splitlines()[0].replace("\t", ",").split(",") if text else []
    return any(tuple(names[: len(table)]) == table for table in TABLES)


def _is_model(path: Path, head: bytes) -> bool:
    """Whether a file is an exported model: ONNX by agecli, or a checkpoint with weights in 16 bits."""
    if b"\x12\x06agecli" in head[:64]:  # the producer's name, field 2 of the message
        return True
    try:
        (length,) = struct.unpack("<Q", head[:8])
    except struct.error:
        return False
    with path.open("rb") as file:  # the fingerprint of a model has up to a megabyte
        header = file.read(8 + min(length, HEADER))[8:].decode("utf-8", "replace")
    return f'"kind":"{CHECKPOINT}"' in header.replace(" ", "") and '"dtype":"F16"' in header.replace(" ", "")
