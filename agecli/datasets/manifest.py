"""The manifest: which faces a folder has, how old they are and who they are."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import NamedTuple

import pandas as pd

from agecli.core.ages import AgeGrid, parse_age
from agecli.core.errors import InputError, MissingError
from agecli.core.files import delimiter
from agecli.core.reading import MOST_TABLE, check_size, shown
from agecli.core.records import Sample
from agecli.core.tables import any_bytes, read_table, text_table
from agecli.datasets.sources import recognise
from agecli.datasets.sources.tables import label_columns
from agecli.images.folders import photos_in
from agecli.images.packs import check_index

TABLES = ("manifest.csv", "labels.csv")  # written by `preprocess`, and by users
SAMPLE_COLUMNS = (
    "path",
    "years",
    "subject",
    "sex",
    "race",
    "split",
    "rank",
    "source",
    "weight",
)  # the fields of Sample
WITH_AGE = re.compile(r"(.+\.(?:jpe?g|png|bmp|webp|tiff?|heic|avif))\s+\d+(?:\.\d+)?", re.I)  # a name and an age
MOST_WEIGHT = 1000.0  # of a face in training
LEAVE_OUT = "`agecli audit DIR` finds all such faces, and --exclude suspicious.csv leaves them out"
log = logging.getLogger("agecli")


class LabelRow(NamedTuple):
    """A row of `read_labels`: a photo and what its data set says about it, as text; nothing is checked yet."""

    path: str  # relative to the folder
    age: str
    subject: str
    sex: str
    race: str
    split: str
    rank: str
    birth: str
    taken: str
    source: str  # the original photo of an aligned face
    weight: str  # how often it is drawn in training; empty: 1
    where: str  # file and line, for error messages


LABEL_COLUMNS = LabelRow._fields


@dataclass(frozen=True)
class Manifest:
    """The labelled faces of a folder, in the order of their paths, whatever the order in the file."""

    folder: Path
    samples: tuple[Sample, ...]

    @property
    def digest(self) -> str:
        """A SHA-256 of all labels. Default values are left out, so that a field added to Sample later does not change it."""
        digest = hashlib.sha256()
        for sample in self.samples:
            known = repr([item for item in vars(sample).items() if item[1] != "" and item != ("weight", 1.0)])
            digest.update(known.encode("utf-8", "surrogateescape"))
        return digest.hexdigest()


def read_labels(folder: Path, dataset: str = "auto") -> tuple[str, pd.DataFrame]:
    """What a folder says about its photos, unchecked: the name of the data set, and one row of text per photo.

    The table has the fields of LabelRow as columns. It comes from a manifest.csv, a labels.csv, or the data set that
    `sources.recognise` finds.

    Raises MissingError if the folder or its labels are missing, InputError if a table lacks rows or columns, or packed faces lack their index.

        name, table = read_labels(Path("aligned"))
    """
    if not folder.exists():
        raise MissingError(
            f"there is no data folder {folder}",
            hint="name the folder that holds the faces (train takes --data DIR); `agecli toy DIR` draws one to try things on",
        )
    file = next((folder / name for name in TABLES if (folder / name).is_file()), None)
    if file and dataset in ("auto", "csv"):
        check_index(folder)
        return "csv", _read_label_table(file)
    source = recognise(folder, list(photos_in(folder)), dataset)
    if not source.labels:
        raise MissingError(
            f"{folder} has neither {' nor '.join(TABLES)}, and is no data set whose names agecli knows",
            hint="a data folder has such a table, with the columns path and age",
        )
    rows = ((path, *label, "", "", path) for path, label in source.labels.items())
    return source.name, text_table(rows, LABEL_COLUMNS)


def label_rows(table: pd.DataFrame) -> Iterator[LabelRow]:
    """The rows of a table from `read_labels`."""
    return map(LabelRow._make, table[list(LABEL_COLUMNS)].itertuples(index=False, name=None))


@any_bytes()
def _read_label_table(file: Path) -> pd.DataFrame:
    """The table of `read_labels` from a manifest.csv or labels.csv. Raises InputError if it has no rows, paths or ages."""
    table = read_table(file)
    if table.empty:
        raise InputError(f"{file} lists no faces", hint="it needs a row for each face, under the columns path and age")
    if missing := {"path", "age"} - set(table.columns):
        raise InputError(
            f"{file} has no column {' and no column '.join(sorted(missing))}",
            hint=f"it has: {', '.join(table.columns)}",
        )
    known = label_columns(table)
    known["path"] = [_inside(path, file) for path in table["path"]]
    known["source"] = table["source"].str.strip() if "source" in table else ""
    known["weight"] = table["weight"].str.strip() if "weight" in table else ""
    known["where"] = [f"{file}, line {line}" for line in range(2, len(table) + 2)]
    return known[list(LABEL_COLUMNS)].astype(object)


def _inside(path: str, file: Path) -> str:
    """A path in a table, which must stay in the table's folder: pictures of elsewhere would end up in reports."""
    place = PurePath(path.strip())
    if place.is_absolute() or ".." in place.parts or "\0" in path:
        raise InputError(
            f"{file} names {shown(path)!r}, which is not in its folder", hint="write paths relative to the folder"
        )
    return place.as_posix()


@any_bytes()
def read_manifest(
    folder: Path,
    grid: AgeGrid,
    *,
    paths: Collection[str] | None = None,
    only: Iterable[str] | None = None,
    exclude: Iterable[str] = (),
) -> Manifest:
    """The labelled faces of a folder; faces without an age are left out.

    grid: the ages allowed.
    paths: keep the faces with exactly these paths.
    only, exclude: keep or leave out the faces with these names: paths here or in the original data set, or bare file names.

    Raises InputError for an age that is not a number or outside of the grid, a path listed twice, or if no face is left;
    MissingError as `read_labels` does.

        read_manifest(Path("aligned"), AgeGrid(0, 120)).samples[0].age
    """
    _, table = read_labels(folder)
    if paths is not None:
        table = table[table["path"].isin(list(paths))]
    if only is not None:
        table = _matching(table, only, "lists", keep=True)
    if exclude:
        table = _matching(table, exclude, "excludes", keep=False)
    table = table[table["age"] != ""]
    if table.empty:
        raise InputError(f"no face in {folder} has an age", hint="fill the column age, in years")
    table = table.assign(years=pd.Series([parse_age(age) for age in table["age"]], table.index, dtype=float))
    _check_ages(table, grid)
    table = table.assign(
        weight=[_weight(weight, where) for weight, where in zip(table["weight"], table["where"], strict=True)]
    )
    repeated = table["path"][table["path"].duplicated()]
    if len(repeated):
        raise InputError(f"{folder} lists {repeated.iloc[0]} twice", hint="keep one row for each face")
    rows = table[list(SAMPLE_COLUMNS)].itertuples(index=False, name=None)
    return Manifest(folder, tuple(sorted((Sample(*row) for row in rows), key=lambda sample: sample.path)))


def _check_ages(table: pd.DataFrame, grid: AgeGrid) -> None:
    """Raises InputError for the first age that is not a number or not on the grid."""
    wrong = table[~table["years"].between(grid.low, grid.high)]
    if wrong.empty:
        return
    row = wrong.iloc[0]
    if pd.isna(row["years"]):
        raise InputError(
            f"{row['where']}: age {row['age']!r} is not a number",
            hint=f"write ages in years, or leave unknown ones empty; {LEAVE_OUT}",
        )
    raise InputError(
        f"{row['where']}: age {row['age']} is outside the age grid, {grid.low} to {grid.high}",
        hint=f"correct the label, or use a wider grid: --set ages.low=… or --set ages.high=…; {LEAVE_OUT}",
    )


def _weight(text: str, where: str) -> float:
    """A sampling weight as a number; 1 for an empty cell. Raises InputError unless it is above 0 and at most MOST_WEIGHT."""
    try:
        weight = float(text) if text else 1.0
    except ValueError:
        weight = float("nan")
    if not 0 < weight <= MOST_WEIGHT:
        raise InputError(
            f"{where}: weight {shown(text)!r} is no number above 0 and at most {MOST_WEIGHT:.0f}",
            hint="a face with weight 2 is drawn twice as often in training; leave the cell empty for 1",
        )
    return weight


def read_names(path: Path) -> list[str]:
    """Names of photos from a file: the column `path` of a CSV file, or one name per line, which an age may follow.

    The lists of the paper's authors have lines such as `009055_1M54.JPG 54`.

    Raises MissingError if there is no such file.

        read_names(Path("suspicious.csv"))
    """
    if not path.is_file():
        raise MissingError(
            f"there is no file {path}", hint="it holds names of photos, one to a line or in a column path"
        )
    check_size(path, MOST_TABLE)
    lines = path.read_text(encoding="utf-8-sig", errors="surrogateescape").splitlines()
    if lines and "path" in [cell.strip().lower() for cell in lines[0].split(delimiter(path))]:
        return [name.strip() for name in read_table(path)["path"]]
    return [found[1] if (found := WITH_AGE.fullmatch(line)) else line for line in map(str.strip, lines) if line]


def _matching(table: pd.DataFrame, names: Iterable[str], verb: str, keep: bool) -> pd.DataFrame:
    """The rows that are named, or all others: by their path here, their path in the original set, or a bare name.

    A name that is a whole path of a photo means that photo alone; any other name may be a bare file name, with or without
    its suffix.
    """
    wanted = {PurePath(name.replace("\\", "/")).as_posix() for name in names}
    if keep and not wanted:
        raise InputError("the list names no photo", hint="write names of photos, one to a line or in a column path")
    paths = [[PurePath(path) for path in row if path] for row in zip(table["path"], table["source"], strict=True)]
    whole = [{path.as_posix() for path in row} for row in paths]
    bare = wanted - set().union(*whole)
    if bare:
        whole = [
            exact | ({name for path in row for name in (path.name, path.stem)} & bare)
            for exact, row in zip(whole, paths, strict=True)
        ]
    missing = wanted - set().union(*whole)
    if wanted and missing == wanted:
        raise InputError(
            f"none of the {len(wanted)} names that the file {verb} is in the data, {sorted(wanted)[0]!r} among them",
            hint="names are paths relative to the data folder or to the original set, or bare file names",
        )
    if missing:
        log.warning("%d of %d names that the file %s are not in the data", len(missing), len(wanted), verb)
    return table[[bool(names & wanted) == keep for names in whole]]
