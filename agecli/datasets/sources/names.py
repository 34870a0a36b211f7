"""Labels from the names of photos. To add a data set, write a parser and list it in `PARSERS`."""

from __future__ import annotations

import re
from collections.abc import Callable

from agecli.datasets.sources.labels import Label, race

UTKFACE_RACES = ("White", "Black", "Asian", "Indian", "Other")
MORPH = re.compile(r"(\d+)_(\d+)([MF])(\d{2,3})([WBAHIO]?)", re.I)
FGNET = re.compile(r"(\d{3})A(\d{2})[a-z]?", re.I)
CACD = re.compile(r"(\d{1,3})_(.*[^\W\d_].*)_(\d{4})")
UTKFACE = re.compile(r"(\d{1,3})_([01]?)_(?:([0-4])_)?(\d{8,})")
AFAD = re.compile(r"(?:.*/)?(\d{1,3})/(111|112)/[^/]+")
AAF = re.compile(r"(\d{5})A(\d{2,3})")
LAST_WOMAN = 7380  # AAF: the first 7,381 subjects, from 0, are women
AGEDB = re.compile(r"(\d+)_([^_]*[^\W\d_][^_]*)_(\d{1,3})_([mf])", re.I)


def name_of(path: str) -> str:
    """The last part of a path, `a/b.jpg` -> `b.jpg`; many times faster than pathlib, for sets of 55,000 photos."""
    return path.replace("\\", "/").rpartition("/")[2]


def stem_of(path: str) -> str:
    """The last part of a path without its suffix, `a/b.jpg` -> `b`."""
    return name_of(path).rpartition(".")[0]


def _morph(path: str) -> Label | None:
    """009055_1M54.JPG, 009055_1M54W.JPG: subject, number of the photo, sex, age, and in some copies the race."""
    found = MORPH.fullmatch(stem_of(path))
    return Label(str(int(found[4])), found[1], found[3].upper(), race(found[5])) if found else None


def _fgnet(path: str) -> Label | None:
    """001A02.JPG, 001A43a.JPG: subject, age, and a letter if there are several."""
    found = FGNET.fullmatch(stem_of(path))
    return Label(str(int(found[2])), found[1]) if found else None


def _cacd(path: str) -> Label | None:
    """14_Aaron_Johnson_0001.jpg: age, name, number."""
    found = CACD.fullmatch(stem_of(path))
    return Label(found[1], found[2]) if found else None


def _utkface(path: str) -> Label | None:
    """26_0_1_20170116174525125.jpg.chip.jpg: age, sex, race, date; some names lack one of them."""
    found = UTKFACE.match(name_of(path))
    if not found:
        return None
    sex, race = found[2], found[3]
    return Label(found[1], "", "MF"[int(sex)] if sex else "", UTKFACE_RACES[int(race)] if race else "")


def _afad(path: str) -> Label | None:
    """25/111/123-0.jpg: age, sex (111 men, 112 women)."""
    found = AFAD.fullmatch(path.replace("\\", "/"))
    return Label(found[1], "", {"111": "M", "112": "F"}[found[2]]) if found else None


def _aaf(path: str) -> Label | None:
    """00000A02.jpg: subject, age; the sex follows from the subject's number."""
    found = AAF.fullmatch(stem_of(path))
    return Label(str(int(found[2])), found[1], "F" if int(found[1]) <= LAST_WOMAN else "M") if found else None


def _agedb(path: str) -> Label | None:
    """0_MariaCallas_35_f.jpg: number of the photo, name, age, sex."""
    found = AGEDB.fullmatch(stem_of(path))
    return Label(str(int(found[3])), found[2], found[4].upper()) if found else None


PARSERS: dict[str, Callable[[str], Label | None]] = {  # path -> label; None if the name does not fit
    "morph": _morph,
    "fgnet": _fgnet,
    "cacd": _cacd,
    "utkface": _utkface,
    "afad": _afad,
    "aaf": _aaf,
    "agedb": _agedb,
}
