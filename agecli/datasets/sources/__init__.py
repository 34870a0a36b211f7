"""Sources: what a data set says of the age, subject, sex and race of its photos.

A set is known by its metadata file if it has one (`tables`, `matlab`), else by the names of its photos (`names`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agecli.core.errors import InputError
from agecli.datasets.sources.labels import Label
from agecli.datasets.sources.matlab import cacd_mat, imdb_wiki_mat
from agecli.datasets.sources.names import PARSERS, name_of
from agecli.datasets.sources.tables import appa_real_csv, chalearn_csv, labels_csv, morph_csv
from agecli.images.reading import SUFFIXES

Labels = Mapping[str, Label]
# Reads a set's metadata in a folder, given the photos there; None if the folder has none.
Reader = Callable[[Path, Sequence[str]], "Labels | None"]
METADATA: dict[str, Reader] = {
    "morph": morph_csv,
    "cacd": cacd_mat,
    "appa-real": appa_real_csv,
    "chalearn": chalearn_csv,
    "imdb-wiki": imdb_wiki_mat,
}
NAMES = ("auto", *dict.fromkeys((*PARSERS, *METADATA)), "csv", "folder")


LOOK_AT = 500  # photos whose names are tried: a set of 55,000 need not be read as each of the others
WHOLE = ("appa-real", "chalearn", "imdb-wiki")  # sets whose tables say which photos are theirs


@dataclass(frozen=True)
class Source:
    """A recognised data set. `labels` has an entry for each photo that is known."""

    name: str
    labels: Labels
    whole: bool = False  # whether the labels say which photos belong to the set: others in the folder are none of it


def recognise(folder: Path, files: Sequence[str], name: str = "auto") -> Source:
    """Which set the files are of: the one named, or a labels.csv, or the one whose names or metadata fit."""
    if name not in NAMES:
        raise InputError(f"unknown data set `{name}`", hint=f"there are: {', '.join(NAMES)}")
    if name == "csv" or (name == "auto" and (folder / "labels.csv").is_file()):
        return Source("csv", labels_csv(folder / "labels.csv"), whole=True)
    if name == "folder" or not files:
        return Source("folder", {})
    named = _fitting(files) if name == "auto" else name
    for source in METADATA if not named else {named} & METADATA.keys():  # photos with known names are not another set's
        if labels := METADATA[source](folder, files):
            return Source(source, labels, whole=source in WHOLE)
    if not named:
        return Source("folder", {})
    if named not in PARSERS:
        raise InputError(f"{folder} has no metadata of {named}", hint="it is recognised by its own CSV or .mat file")
    found = {file: label for file in files if (label := PARSERS[named](file)) is not None}
    once = without_copies(found, named)
    return Source(named, once, whole=len(once) < len(found))


def _fitting(files: Sequence[str]) -> str:
    """The set whose names most of some photos have; nothing if no set has half of them."""
    some = files[:: -(-len(files) // LOOK_AT)]
    fits = {source: sum(parse(file) is not None for file in some) for source, parse in PARSERS.items()}
    best = max(fits, key=lambda source: fits[source])
    return best if fits[best] >= len(some) / 2 else ""


def without_copies(labels: Labels, name: str) -> Labels:
    """The original of each photo where a set also brings it cut out: AAF's `aligned faces`, UTKFace's `….chip.jpg`."""
    if name not in ("aaf", "utkface"):
        return labels
    first: dict[str, str] = {}
    for file in sorted(labels, key=lambda file: ("aligned" in file.lower(), ".chip." in file.lower(), file)):
        first.setdefault(name_of(file).lower().replace(".chip.jpg", ""), file)
    kept = set(first.values())
    return labels if len(kept) == len(labels) else {file: label for file, label in labels.items() if file in kept}


def walk(folder: Path) -> list[str]:
    """The photos below a folder, by the ends of their names, sorted. Links to folders are not followed."""
    found = []
    for here, folders, names in os.walk(folder):
        inside = os.path.relpath(here, folder)
        empty = [name for name in folders if not os.listdir(os.path.join(here, name))] if folders else []
        for name in (*names, *empty):  # an empty folder that is named like a photo is told of, too
            if os.path.splitext(name)[1].lower() in SUFFIXES:
                found.append(name if inside == "." else os.path.join(inside, name))
    return sorted((path.replace(os.sep, "/") for path in found), key=os.fsencode)  # the same on every platform
