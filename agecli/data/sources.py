"""Sources: what the names of a data set's files say of age, subject, sex and race.

A new set is one entry in `SOURCES`: a name, and a function from a file's path, relative to the set, to a label.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from agecli.errors import InputError
from agecli.files import read_csv


@dataclass(frozen=True)
class Label:
    """What is known of a face; unknown values are empty."""

    age: str = ""
    subject: str = ""
    sex: str = ""
    race: str = ""
    split: str = ""


ALIASES = {"identity": "subject", "gender": "sex"}  # what other tables call our columns
Parse = Callable[[str], "Label | None"]
UTKFACE_RACES = ("White", "Black", "Asian", "Indian", "Other")


def _morph(path: str) -> Label | None:
    """009055_1M54.JPG: subject, number of the photo, sex, age"""
    found = re.fullmatch(r"(\d+)_(\d+)([MF])(\d{2,3})", PurePath(path).stem, re.I)
    return Label(str(int(found[4])), found[1], found[3].upper()) if found else None


def _fgnet(path: str) -> Label | None:
    """001A02.JPG, 001A43a.JPG: subject, age, and a letter if there are several"""
    found = re.fullmatch(r"(\d{3})A(\d{2})[a-z]?", PurePath(path).stem, re.I)
    return Label(str(int(found[2])), found[1]) if found else None


def _cacd(path: str) -> Label | None:
    """14_Aaron_Johnson_0001.jpg: age, name, number"""
    found = re.fullmatch(r"(\d{1,3})_(.*[^\W\d_].*)_(\d{4})", PurePath(path).stem)
    return Label(found[1], found[2]) if found else None


def _utkface(path: str) -> Label | None:
    """26_0_1_20170116174525125.jpg.chip.jpg: age, sex, race, date; some names lack one of them"""
    found = re.match(r"(\d{1,3})_([01]?)_(?:([0-4])_)?(\d{8,})", PurePath(path).name)
    if not found:
        return None
    return Label(
        found[1], "", "MF"[int(found[2])] if found[2] else "", UTKFACE_RACES[int(found[3])] if found[3] else ""
    )


def _afad(path: str) -> Label | None:
    """25/111/123-0.jpg: age, sex (111 men, 112 women)"""
    found = re.fullmatch(r"(?:.*/)?(\d{1,3})/(111|112)/[^/]+", PurePath(path).as_posix())
    return Label(found[1], "", {"111": "M", "112": "F"}[found[2]]) if found else None


def _aaf(path: str) -> Label | None:
    """00000A02.jpg: photo, age; each photo is of another person"""
    found = re.fullmatch(r"(\d{5})A(\d{2,3})", PurePath(path).stem)
    return Label(str(int(found[2]))) if found else None


SOURCES: dict[str, Parse] = {
    "morph": _morph,
    "fgnet": _fgnet,
    "cacd": _cacd,
    "utkface": _utkface,
    "afad": _afad,
    "aaf": _aaf,
}
NAMES = ("auto", *SOURCES, "csv", "folder")


@dataclass(frozen=True)
class Source:
    """A recognised data set. `labels` has an entry for each file that is known."""

    name: str
    labels: Mapping[str, Label]


def recognise(folder: Path, files: Sequence[str], name: str = "auto") -> Source:
    """Which set the files are of: the one named, or a labels.csv, or the one whose names fit most files."""
    if name not in NAMES:
        raise InputError(f"unknown data set `{name}`", hint=f"there are: {', '.join(NAMES)}")
    if name == "csv" or (name == "auto" and (folder / "labels.csv").is_file()):
        return Source("csv", _read_labels(folder / "labels.csv"))
    if name == "folder" or not files:
        return Source("folder", {})
    candidates = SOURCES if name == "auto" else {name: SOURCES[name]}
    labelled = {
        source: {file: label for file in files if (label := parse(file)) is not None}
        for source, parse in candidates.items()
    }
    best = max(labelled, key=lambda source: len(labelled[source]))
    if name == "auto" and len(labelled[best]) < len(files) / 2:
        return Source("folder", {})
    return Source(best, labelled[best])


def _read_labels(path: Path) -> dict[str, Label]:
    if not path.is_file():
        raise InputError(
            f"there is no {path}", hint="it has the columns path and age, and optionally subject, sex, race, split"
        )
    rows = [{ALIASES.get(key, key): value.strip() for key, value in row.items()} for row in read_csv(path)]
    if not rows or not {"path", "age"} <= set(rows[0]):
        raise InputError(f"{path} has no columns path and age", hint="its first line names the columns")
    rows = [row for row in rows if row["path"]]
    return {
        PurePath(row["path"]).as_posix(): Label(
            **{k: row.get(k, "") for k in ("age", "subject", "sex", "race", "split")}
        )
        for row in rows
    }
