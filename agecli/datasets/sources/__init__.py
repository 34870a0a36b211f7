"""Sources: recognise a data set and read the age, subject, sex and race of its photos.

A data set is recognised by its metadata file (`tables`, `matlab`), or else by the names of its photos (`names`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from agecli.core.errors import InputError
from agecli.datasets.sources.faeb import faeb_json
from agecli.datasets.sources.labels import Label
from agecli.datasets.sources.matlab import cacd_mat, imdb_wiki_mat
from agecli.datasets.sources.names import PARSERS, name_of
from agecli.datasets.sources.tables import appa_real_csv, chalearn_csv, labels_csv, morph_csv
from agecli.datasets.spooled import Computed, key_of

log = logging.getLogger("agecli")
Labels = Mapping[str, Label]  # by the path of the photo, relative to the folder
# Reads the metadata of a data set in a folder, given the photos there; None if the folder has none.
MetadataReader = Callable[[Path, Sequence[str]], "Labels | None"]
METADATA: dict[str, MetadataReader] = {
    "morph": morph_csv,
    "cacd": cacd_mat,
    "appa-real": appa_real_csv,
    "chalearn": chalearn_csv,
    "imdb-wiki": imdb_wiki_mat,
}
NAMES = ("auto", *dict.fromkeys((*PARSERS, *METADATA)), "fae-b", "csv", "folder")
TRIED_NAMES = 500  # photos whose names are tried, of a folder that may have 55,000
COMPLETE_TABLES = ("appa-real", "chalearn", "imdb-wiki")  # data sets whose tables list all of their photos


@dataclass(frozen=True)
class Source:
    """A recognised data set: its name and the labels of its photos."""

    name: str
    labels: Labels  # of the photos whose label is known
    whole: bool = False  # whether the labels list all photos of the data set; others in the folder do not belong to it


def recognise(folder: Path, files: Sequence[str], name: str = "auto") -> Source:
    """The data set in a folder.

    files: the photos in it, as `photos_in` lists them.
    name: the data set (one of NAMES), or `auto`: a labels.csv if there is one, else a JSON file of FAE-B, else the data set whose metadata or
        names of photos fit, else `folder`, which has no labels.

    Raises InputError for an unknown name, or if the metadata of the named data set is missing or damaged.

        recognise(Path("FG-NET"), list(photos_in("FG-NET"))).name == "fgnet"
    """
    if name not in NAMES:
        raise InputError(f"unknown data set `{name}`", hint=f"there are: {', '.join(NAMES)}")
    if (folder / "labels.csv").exists() and not (folder / "labels.csv").is_file():
        log.warning("%s is not read: it is no file but a folder, a device or a pipe", folder / "labels.csv")
    if name == "csv" or (name == "auto" and (folder / "labels.csv").is_file()):
        return Source("csv", labels_csv(folder / "labels.csv"), whole=True)
    if name == "folder" or not files:
        return Source("folder", {})
    if name in ("auto", "fae-b") and (published := faeb_json(folder, files)):
        return Source("fae-b", published, whole=True)
    named = _recognise_names(files) if name == "auto" else name
    candidates = {named} & METADATA.keys() if named else METADATA
    for source in candidates:
        if labels := METADATA[source](folder, files):
            return Source(source, labels, whole=source in COMPLETE_TABLES)
    if not named:
        return Source("folder", {})
    if named not in PARSERS:
        raise InputError(f"{folder} has no metadata of {named}", hint="it is recognised by its own CSV or .mat file")
    found = Computed(files, PARSERS[named])
    originals = without_copies(found, named)
    return Source(named, originals, whole=originals is not found)


def _recognise_names(files: Sequence[str]) -> str:
    """The data set whose pattern fits most of a sample of names; empty if none fits half of them."""
    some = files[:: -(-len(files) // TRIED_NAMES)]
    fits = {source: sum(parse(file) is not None for file in some) for source, parse in PARSERS.items()}
    best = max(fits, key=lambda source: fits[source])
    return best if fits[best] >= len(some) / 2 else ""


def without_copies(labels: Labels, name: str) -> Labels:
    """The labels without photos that a data set also brings cropped: AAF's `aligned faces`, UTKFace's `….chip.jpg`."""
    if name not in ("aaf", "utkface"):
        return labels
    names = np.fromiter((key_of(_original(file)) for file in labels), np.uint64)
    if len(np.unique(names)) == len(names):
        return labels  # before the names of all photos are kept in memory
    first: dict[str, str] = {}
    for file in sorted(labels, key=lambda file: ("aligned" in file.lower(), ".chip." in file.lower(), file)):
        first.setdefault(_original(file), file)
    kept = set(first.values())
    return labels if len(kept) == len(labels) else {file: label for file, label in labels.items() if file in kept}


def _original(file: str) -> str:
    """The name of the photo that a file, perhaps a crop of it, is of."""
    return name_of(file).lower().replace(".chip.jpg", "")
