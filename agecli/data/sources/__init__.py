"""Sources: what a data set says of the age, subject, sex and race of its photos.

A set is known by its metadata file if it has one (`tables`, `matlab`), else by the names of its photos (`names`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agecli.data.sources.labels import Label
from agecli.data.sources.matlab import cacd_mat, imdb_wiki_mat
from agecli.data.sources.names import PARSERS
from agecli.data.sources.tables import appa_real_csv, chalearn_csv, labels_csv, morph_csv
from agecli.errors import InputError
from agecli.pictures import SUFFIXES

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


@dataclass(frozen=True)
class Source:
    """A recognised data set. `labels` has an entry for each photo that is known."""

    name: str
    labels: Labels

    @property
    def whole(self) -> bool:
        """Whether the labels say which photos belong to the set: others in the folder are none of it."""
        return self.name in ("csv", "appa-real", "chalearn", "imdb-wiki")


def recognise(folder: Path, files: Sequence[str], name: str = "auto") -> Source:
    """Which set the files are of: the one named, or a labels.csv, or known metadata, or the one whose names fit most."""
    if name not in NAMES:
        raise InputError(f"unknown data set `{name}`", hint=f"there are: {', '.join(NAMES)}")
    if name == "csv" or (name == "auto" and (folder / "labels.csv").is_file()):
        return Source("csv", labels_csv(folder / "labels.csv"))
    if name == "folder" or not files:
        return Source("folder", {})
    for source in METADATA if name == "auto" else {name} & METADATA.keys():
        labels = METADATA[source](folder, files)
        if labels:
            return Source(source, labels)
    if name not in ("auto", *PARSERS):
        raise InputError(f"{folder} has no metadata of {name}", hint="it is recognised by its own CSV or .mat file")
    candidates = PARSERS if name == "auto" else {name: PARSERS[name]}
    labelled = {
        source: {file: label for file in files if (label := parse(file)) is not None}
        for source, parse in candidates.items()
    }
    best = max(labelled, key=lambda source: len(labelled[source]))
    if name == "auto" and len(labelled[best]) < len(files) / 2:
        return Source("folder", {})
    return Source(best, labelled[best])


def walk(folder: Path) -> list[str]:
    """The photos below a folder, by the ends of their names, sorted. Links to folders are not followed."""
    found = []
    for here, folders, names in os.walk(folder):
        inside = os.path.relpath(here, folder)
        empty = [name for name in folders if not os.listdir(os.path.join(here, name))] if folders else []
        for name in (*names, *empty):  # an empty folder that is named like a photo is told of, too
            if os.path.splitext(name)[1].lower() in SUFFIXES:
                found.append(name if inside == "." else os.path.join(inside, name))
    return sorted(found, key=os.fsencode)
