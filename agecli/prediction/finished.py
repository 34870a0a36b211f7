"""Finished files of `predict -o`: what they were made of, so that `--resume` after the end neither works again nor misleads.

It is in an extended attribute of the file, where the file system has these.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Any

from agecli.core.errors import InputError
from agecli.core.files import was_edited

MADE_OF = "user.agecli.made-of"  # extended attribute
Counts = tuple[int, int, int]
AGAIN = "to predict again, omit --resume; or write to another file"


def note_finished(path: Path, options: Mapping[str, Any], names: Iterable[str], counts: Counts) -> None:
    """Store what a file was made of; nothing where the file system has no extended attributes.

    options: what the records depend on, by name;   names: of the inputs, in order;   counts: of inputs, those without an age,
    and photos that could not be drawn.
    """
    if hasattr(os, "setxattr"):  # on Linux
        about = {"options": options, "names": digest(names), "counts": counts}
        with suppress(OSError):
            os.setxattr(path, MADE_OF, json.dumps(about).encode())


def check_finished(path: Path, options: Mapping[str, Any], names: Iterable[str]) -> Counts | None:
    """The counts of a finished file, as in `note_finished`; None if they are not stored with it.

    options, names: of this run. Raises InputError if the file was made of others, or was changed since.
    """
    about = _read(path)
    if about is None:
        return None
    if was_edited(path) or not about:
        raise InputError(f"{path} was changed since agecli wrote it, or is no finished output of `predict`", hint=AGAIN)
    now = json.loads(json.dumps(options))
    different = [f"--{name.replace('_', '-')}" for name in now if about["options"].get(name) != now[name]]
    if different:
        raise InputError(f"{path} is complete, but was made with other options: {', '.join(different)}", hint=AGAIN)
    if digest(names) != about["names"]:
        raise InputError(f"{path} is complete, but holds other inputs than those of this command", hint=AGAIN)
    inputs, failed, not_drawn = about["counts"]
    return inputs, failed, not_drawn


def digest(names: Iterable[str]) -> str:
    """A hash of names in their order; a name that follows itself counts once, as the records of a video do."""
    total = hashlib.sha256()
    for name, _ in groupby(names):
        total.update(os.fsencode(name) + b"\0")
    return total.hexdigest()


def _read(path: Path) -> dict[str, Any] | None:
    """The stored attribute; empty if it is damaged; None if there is none, as in a copy of the file."""
    if not hasattr(os, "getxattr"):
        return None
    try:
        about = json.loads(os.getxattr(path, MADE_OF))
    except OSError:
        return None
    except (ValueError, RecursionError):
        return {}
    types = {"options": dict, "names": str, "counts": list}
    fits = isinstance(about, dict) and all(isinstance(about.get(name), kind) for name, kind in types.items())
    fits = fits and len(about["counts"]) == 3 and all(isinstance(count, int) for count in about["counts"])
    return about if fits else {}
