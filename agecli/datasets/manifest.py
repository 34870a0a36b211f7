"""The manifest: which faces there are, how old they are and whose they are."""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import NamedTuple

from agecli.core.ages import AgeGrid, parse_age
from agecli.core.errors import InputError, MissingError
from agecli.core.files import delimiter, read_csv
from agecli.core.records import Sample
from agecli.datasets.sources import recognise, walk
from agecli.datasets.sources.labels import Label
from agecli.datasets.sources.tables import from_row

TABLES = ("manifest.csv", "labels.csv")  # ours, and what a folder from elsewhere may bring
LEAVE_OUT = "`agecli audit DIR` finds all such faces, and --exclude suspicious.csv leaves them out"
log = logging.getLogger("agecli")


@dataclass(frozen=True)
class Manifest:
    folder: Path
    samples: tuple[Sample, ...]  # by path, whatever the order in the file

    @property
    def digest(self) -> str:
        """A hash of all that is known of the faces; a field that is empty, or not invented yet, does not change it."""
        digest = hashlib.sha256()
        for sample in self.samples:
            known = repr([item for item in vars(sample).items() if item[1] != ""])
            digest.update(known.encode("utf-8", "surrogateescape"))
        return digest.hexdigest()


class Row(NamedTuple):
    """A photo as a table or its own name describes it; nothing is checked yet."""

    path: str
    label: Label
    source: str
    where: str  # for error messages


def read_rows(folder: Path, dataset: str = "auto") -> tuple[str, list[Row]]:
    """What a folder says of its photos, by a manifest.csv, a labels.csv, or as the data set that it is recognised as."""
    if not folder.exists():
        raise MissingError(
            f"there is no data folder {folder}",
            hint="name the folder that holds the faces (train takes --data DIR); `agecli toy DIR` draws one to try things on",
        )
    file = next((folder / name for name in TABLES if (folder / name).is_file()), None)
    if file and dataset in ("auto", "csv"):
        return "csv", _table(file)
    source = recognise(folder, walk(folder), dataset)
    if not source.labels:
        raise MissingError(
            f"{folder} has neither {' nor '.join(TABLES)}, and is no data set whose names agecli knows",
            hint="a data folder has such a table, with the columns path and age",
        )
    return source.name, [Row(path, label, "", path) for path, label in source.labels.items()]


def _table(file: Path) -> list[Row]:
    rows = read_csv(file)
    if not rows:
        raise InputError(f"{file} lists no faces", hint="it needs a row for each face, under the columns path and age")
    missing = {"path", "age"} - set(rows[0])
    if missing:
        raise InputError(
            f"{file} has no column {' and no column '.join(sorted(missing))}", hint=f"it has: {', '.join(rows[0])}"
        )
    return [
        Row(
            PurePath(row["path"].strip()).as_posix(),
            from_row(row),
            row.get("source", "").strip(),
            f"{file}, line {line}",
        )
        for line, row in enumerate(rows, 2)
    ]


def read_manifest(
    folder: Path,
    grid: AgeGrid,
    *,
    paths: Collection[str] | None = None,
    only: Iterable[str] | None = None,
    exclude: Iterable[str] = (),
) -> Manifest:
    """The labelled faces of a folder; of those with these very paths or on this list, and without those excluded."""
    _, rows = read_rows(folder)
    if paths is not None:
        rows = [row for row in rows if row.path in paths]
    if only is not None:
        rows = _matching(rows, only, "lists", keep=True)
    if exclude:
        rows = _matching(rows, exclude, "excludes", keep=False)
    samples = [sample for row in rows if (sample := _sample(row, grid))]
    if not samples:
        raise InputError(f"no face in {folder} has an age", hint="fill the column age, in years")
    _no_path_twice(samples, folder)
    return Manifest(folder, tuple(sorted(samples, key=lambda sample: sample.path)))


def _sample(row: Row, grid: AgeGrid) -> Sample | None:
    """A row as a sample; None if its age is not known."""
    label = row.label
    if not label.age:
        return None
    age = parse_age(label.age)
    if age is None:
        raise InputError(
            f"{row.where}: age {label.age!r} is not a number",
            hint=f"write ages in years, or leave unknown ones empty; {LEAVE_OUT}",
        )
    if age not in grid:
        raise InputError(
            f"{row.where}: age {label.age} is outside the age grid, {grid.low} to {grid.high}",
            hint=f"mend the label, or use a wider grid: --set ages.low=… or --set ages.high=…; {LEAVE_OUT}",
        )
    return Sample(row.path, age, label.subject, label.sex, label.race, label.split, label.rank, row.source)


def read_names(path: Path) -> list[str]:
    """Names of photos from a file: a CSV with a column path, or one name to a line."""
    if not path.is_file():
        raise MissingError(
            f"there is no file {path}", hint="it holds names of photos, one to a line or in a column path"
        )
    lines = path.read_text(encoding="utf-8-sig", errors="surrogateescape").splitlines()
    if lines and "path" in [cell.strip().lower() for cell in lines[0].split(delimiter(path))]:
        return [row["path"].strip() for row in read_csv(path)]
    return [line.strip() for line in lines if line.strip()]


def _matching(rows: Sequence[Row], names: Iterable[str], verb: str, keep: bool) -> list[Row]:
    """The rows that are named, or all others: by their path here, their path in the original set, or a bare name."""
    wanted = {PurePath(name.replace("\\", "/")).as_posix() for name in names}
    if keep and not wanted:
        raise InputError("the list names no photo", hint="write names of photos, one to a line or in a column path")
    whole = [{PurePath(path).as_posix() for path in (row.path, row.source) if path} for row in rows]
    met = wanted & set().union(*whole)
    loose = wanted - met  # what is no path of any photo may be its bare name, with or without its ending
    chosen = []
    for row, paths in zip(rows, whole, strict=True):
        names_of = {name for path in paths for name in (PurePath(path).name, PurePath(path).stem)} if loose else set()
        met |= names_of & loose
        if bool(paths & wanted or names_of & loose) == keep:
            chosen.append(row)
    if wanted and not met:
        raise InputError(
            f"none of the {len(wanted)} names that the file {verb} is in the data, {sorted(wanted)[0]!r} among them",
            hint="names are paths relative to the data folder or to the original set, or bare file names",
        )
    if missing := wanted - met:
        log.warning("%d of %d names that the file %s are not in the data", len(missing), len(wanted), verb)
    return chosen


def _no_path_twice(samples: Sequence[Sample], folder: Path) -> None:
    seen: set[str] = set()
    for sample in samples:
        if sample.path in seen:
            raise InputError(f"{folder} lists {sample.path} twice", hint="keep one row for each face")
        seen.add(sample.path)


def counts(samples: Iterable[Sample], key: Callable[[Sample], str]) -> dict[str, int]:
    """How many faces each group has, by name; those of no group are left out."""
    found = Counter(map(key, samples))
    found.pop("", None)
    return dict(sorted(found.items()))
