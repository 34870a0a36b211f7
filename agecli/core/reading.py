"""Reading small files of settings and notes, which may be damaged, hostile or no files at all: checked before they are used."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

from agecli.core.errors import InputError

MOST_TEXT = 1 << 20  # bytes of a TOML or JSON file; ours have a few thousand
MOST_TABLE = 1 << 29  # bytes of a CSV or .mat file; IMDB-WIKI's have a tenth of it
SHOWN = 80  # characters of a value in an error message


def shown(value: object) -> str:
    """A value for an error message, on one line and cut to SHOWN characters."""
    text = " ".join(str(value).split())
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def check_size(path: Path, most: int) -> None:
    """Raise InputError if a path is not a regular file, or has more than `most` bytes; FileNotFoundError if it is not there."""
    about = path.stat()
    if not stat.S_ISREG(about.st_mode):
        raise InputError(f"{path} is no file", hint="is it a folder, a pipe or a device?")
    if about.st_size > most:
        raise InputError(
            f"{path} is too large: {about.st_size / 1e6:.0f} MB", hint=f"such a file has at most {most / 1e6:.0f} MB"
        )


def read_text(path: Path) -> str:
    """A file of UTF-8 text with at most MOST_TEXT bytes. Raises InputError if it is anything else."""
    check_size(path, MOST_TEXT)
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is no text in UTF-8: {error}", hint="restore the file") from error


def read_object(text: str, name: str) -> dict[str, Any]:
    """A JSON object with finite numbers. Raises InputError if a text is anything else; `name` is the file's."""
    try:
        value = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name} can't be used: {shown(error)}", hint="restore the file") from error
    if not isinstance(value, dict):
        raise InputError(f"{name} can't be used: it holds no JSON object", hint="restore the file")
    return value


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no number")
