"""The photos of a data set: which there are, which have a usable age, and where their crops go."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath

from agecli.core.ages import AgeGrid, parse_age
from agecli.core.errors import InputError, MissingError
from agecli.core.reading import shown
from agecli.datasets.cropping import PhotoToCrop
from agecli.datasets.sources import Labels, Source, recognise
from agecli.datasets.sources.labels import Label
from agecli.datasets.spooled import Computed, SpooledNames, SpooledRows
from agecli.images.folders import photos_in
from agecli.images.reading import SUFFIXES

LONGEST_NAME = 200  # bytes of a photo's name; file systems take 255, of which temporary files need some


@dataclass(frozen=True)
class Photos:
    """The recognised data set and the work for each of its photos, made when it is asked for."""

    source: Source
    files: Collection[str]

    def __len__(self) -> int:
        return len(self.files)

    def __iter__(self) -> Iterator[PhotoToCrop]:
        return photos_to_crop(self.files, self.source)


def list_photos(folder: Path, out: Path, dataset: str) -> Photos:
    """The recognised data set and its photos, without the crops in an output folder inside of it."""
    if not folder.is_dir():
        raise MissingError(f"there is no folder {folder}", hint="name the folder that holds the photos")
    output = Path(os.path.abspath(out))
    relative = os.path.relpath(output, os.path.abspath(folder)).replace(os.sep, "/")
    if relative == ".":
        raise InputError(f"--out {out} is the folder of the photos", hint=f"name another one, as {folder / 'aligned'}")
    files = SpooledNames(file for file in photos_in(folder) if not file.startswith(f"{relative}/"))
    source = recognise(folder, files, dataset)
    photos = Photos(source, SpooledNames(_sorted(source.labels)) if source.whole else files)
    if not len(photos):
        raise MissingError(f"{folder} has no photos", hint=f"they end in {', '.join(sorted(SUFFIXES))}")
    return photos


def _sorted(labels: Labels) -> Iterable[str]:
    """The names of labels in order. Those of a labels.csv are, and need not be kept in memory."""
    return labels if isinstance(labels, Computed) and isinstance(labels.names, SpooledRows) else sorted(labels)


def photos_to_crop(files: Iterable[str], source: Source) -> Iterator[PhotoToCrop]:
    """The work for each photo. The crop of a/b.png is faces/a/b.png.jpg: it depends on the photo's path alone, so that no
    two photos share one.
    """
    return (photo_to_crop(file, source.labels.get(file, Label())) for file in files)


def photo_to_crop(file: str, label: Label) -> PhotoToCrop:
    """The work for one photo."""
    problem = bad_age(label.age)
    return PhotoToCrop(file, crop_target(file), not problem, problem)


def bad_age(text: str) -> str:
    """Why a label can't be an age: it is none, or impossible, as -27 or 1996 in IMDB-WIKI; "" if it can.

    >>> bad_age("250")
    'its age, 250, is impossible'
    """
    if not text:
        return "its age is not known"
    age = parse_age(text)
    if age is None:
        return f"its age, {shown(text)!r}, is not a number"
    return "" if age in AgeGrid() else f"its age, {shown(text)}, is impossible"


def crop_target(file: str) -> str:
    """The path of a photo's crop in the output folder. `..` is replaced, so that a labels.csv can't make us write outside.

    Folders that end in .jpg get a `_`, because the crop of x.png is named like a folder x.png.jpg. A name too long for
    `.jpg` and the like to be added is cut, and gets a hash.
    """
    path = PurePath(file)
    *folders, name = path.relative_to(path.anchor).parts
    folders = [
        "_" if part == ".." else f"{part}_" if re.search(r"\.jpg_*$", part, re.IGNORECASE) else part for part in folders
    ]
    if len(os.fsencode(name)) > LONGEST_NAME:
        digest = hashlib.sha256(os.fsencode(name)).hexdigest()[:16]
        while len(os.fsencode(name)) > LONGEST_NAME:
            name = name[:-1]
        name = f"{name}-{digest}"
    return str(PurePath("faces", *folders, f"{name}.jpg"))
