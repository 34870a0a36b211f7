"""What the .mat files of data sets say: CACD and IMDB-WIKI."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from agecli.core.errors import InputError
from agecli.datasets.sources.labels import Label
from agecli.datasets.sources.names import PARSERS

Columns = dict[str, list[Any]]
FACE_SCORE = 1.0  # IMDB-WIKI: below it a face is often none, or none to be seen well


def cacd_mat(folder: Path, files: Sequence[str]) -> dict[str, Label] | None:
    """CACD: celebrity2000_meta.mat, whose celebrityImageData has age, identity, year, rank, birth and name of each photo."""
    path = folder / "celebrity2000_meta.mat"
    if not path.is_file():
        return None
    table = _columns(path, "celebrityImageData", ("age", "identity", "year", "rank", "birth", "name"))
    rows = {str(row["name"]): row for row in _rows(table)}
    found: dict[str, Label] = {}
    ranks: dict[str, str] = {}  # of celebrities: the names of some photos were spoilt on their way, but not all of one
    for file in files:
        named = PARSERS["cacd"](file)
        if row := rows.get(PurePath(file).name):
            found[file] = Label(
                age=_whole(row["age"]),
                subject=named.subject if named else _whole(row["identity"]),
                rank=_whole(row["rank"]),
                birth=_whole(row.get("birth")),
                taken=_whole(row.get("year")),
            )
            ranks[found[file].subject] = found[file].rank
        elif named:
            found[file] = named
    return {
        file: label if label.rank else label._replace(rank=ranks.get(label.subject, ""))
        for file, label in found.items()
    }


def imdb_wiki_mat(folder: Path, files: Sequence[str]) -> dict[str, Label] | None:
    """IMDB-WIKI: imdb.mat or wiki.mat. Photos without one good face, or with two, are left out.

    Only the year of a photo is known: it is taken to be from the middle of it, as the set's authors do.
    """
    found: dict[str, Label] = {}
    there = {PurePath(file).as_posix(): file for file in files}
    for path in (path for name in ("imdb", "wiki") for path in sorted(folder.glob(f"**/{name}.mat"))):
        names = ("dob", "photo_taken", "full_path", "gender", "name", "face_score", "second_face_score")
        inside = path.parent.relative_to(folder)
        for row in _rows(_columns(path, path.stem, names)):
            file = there.get((inside / str(row["full_path"])).as_posix())
            alone = math.isnan(row["second_face_score"])
            if file is None or not alone or not FACE_SCORE <= row["face_score"] < math.inf:
                continue
            birth = _matlab_day(float(row["dob"]))
            year = int(row["photo_taken"])
            age = year - birth.year - (birth.month >= 7) if birth else None
            sex = "" if math.isnan(row["gender"]) else "FM"[int(row["gender"])]
            found[file] = Label(
                age="" if age is None else str(age),
                subject=str(row["name"]),
                sex=sex,
                birth=birth.isoformat() if birth else "",
                taken=str(year),
            )
    return found or None


def _matlab_day(number: float) -> date | None:
    """A day that MATLAB counts from year 0; None where the set has it wrong."""
    try:
        return date.fromordinal(1) + timedelta(days=int(number) - 367)
    except (OverflowError, ValueError):
        return None


def _whole(value: Any) -> str:
    return "" if value is None or (isinstance(value, float) and math.isnan(value)) else str(int(value))


def _rows(table: Columns) -> Iterator[dict[str, Any]]:
    for values in zip(*table.values(), strict=True):
        yield dict(zip(table, values, strict=True))


def _columns(path: Path, struct: str, names: Sequence[str]) -> Columns:
    """Some fields of a struct of arrays, each as a list: from the old MATLAB format, or the new one, which is HDF5."""
    with path.open("rb") as file:
        new = file.read(20).startswith(b"MATLAB 7.3")
    try:
        table = _from_hdf5(path, struct, names) if new else _from_mat5(path, struct, names)
    except (KeyError, ValueError, OSError, TypeError) as error:
        raise InputError(
            f"{path} can't be read as {struct}: {error}", hint="is it the set's own file, and whole?"
        ) from error
    lengths = {name: len(values) for name, values in table.items()}
    if len(set(lengths.values())) > 1:
        raise InputError(f"{path}: the fields of {struct} have different lengths: {lengths}", hint="fetch it again")
    return table


def _from_mat5(path: Path, struct: str, names: Sequence[str]) -> Columns:
    from scipy.io import loadmat  # 0.3 s: only where it is needed

    record = loadmat(path, variable_names=[struct])[struct][0, 0]
    return {name: [_plain(cell) for cell in record[name].ravel()] for name in names if name in record.dtype.names}


def _plain(cell: Any) -> Any:
    """The number or text in a cell."""
    while isinstance(cell, np.ndarray):
        if cell.size == 0:
            return ""
        cell = cell.ravel()[0]
    return cell.item() if isinstance(cell, np.generic) else cell


def _from_hdf5(path: Path, struct: str, names: Sequence[str]) -> Columns:
    import h5py

    with h5py.File(path) as file:
        group = file[struct]
        table: Columns = {}
        for name in names:
            if name not in group:
                continue
            values = group[name][()].ravel()
            if values.dtype == object:  # a cell array: references to arrays of characters
                table[name] = ["".join(map(chr, file[cell][()].ravel())) for cell in values]
            else:
                table[name] = values.tolist()
        return table
