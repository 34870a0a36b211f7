"""Labels from the MATLAB files of data sets: CACD and IMDB-WIKI.

Reading them needs scipy (MATLAB 5) or h5py (MATLAB 7.3), which the base install does not have.
"""

from __future__ import annotations

import math
import struct as struct_format
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from agecli.core.errors import InputError
from agecli.core.extras import require
from agecli.core.reading import MOST_TABLE, check_size, shown
from agecli.datasets.sources.finding import find_files
from agecli.datasets.sources.labels import Label
from agecli.datasets.sources.names import PARSERS

Columns = dict[str, list[Any]]
HEADER, COMPRESSED, CHUNK = 128, 15, 1 << 20  # of MATLAB 5 files: bytes, a type of element, bytes at a time
MOST_VALUES = 10_000_000  # of a field; IMDB-WIKI has half a million
DEEPEST = 64  # folders below the data set's, down to which a .mat file is looked for
OPTIONAL = ("birth", "year", "name", "identity")  # fields that some copies lack
MIN_FACE_SCORE = 1.0  # IMDB-WIKI: below it there is often no face, or a hidden one


def cacd_mat(folder: Path, files: Sequence[str]) -> dict[str, Label] | None:
    """CACD: celebrity2000_meta.mat, whose celebrityImageData has age, identity, year, rank, birth and name of each photo.

    Returns None if there is no such file. Raises InputError if it can't be read, MissingError without scipy or h5py.
    """
    path = folder / "celebrity2000_meta.mat"
    if not path.is_file():
        return None
    table = _read_struct(path, "celebrityImageData", ("age", "identity", "year", "rank", "birth", "name"))
    rows = {str(row["name"]): row for row in _rows(table)}
    found: dict[str, Label] = {}
    with _usable(path):
        for file in files:
            named = PARSERS["cacd"](file)
            if row := rows.get(PurePath(file).name):
                found[file] = _cacd_label(row, named)
            elif named:
                found[file] = named
    # some photos were renamed in copies of the data set; their rank is that of the celebrity's other photos
    ranks = {label.subject: label.rank for label in found.values() if label.rank}
    return {file: label._replace(rank=label.rank or ranks.get(label.subject, "")) for file, label in found.items()}


def _cacd_label(row: Mapping[str, Any], named: Label | None) -> Label:
    """The label of a row; the subject is the name in the photo's file name if it has one, as in photos without a row."""
    return Label(
        age=_whole(row["age"]),
        subject=named.subject if named else _whole(row["identity"]),
        rank=_whole(row["rank"]),
        birth=_whole(row.get("birth")),
        taken=_whole(row.get("year")),
    )


def imdb_wiki_mat(folder: Path, files: Sequence[str]) -> dict[str, Label] | None:
    """IMDB-WIKI: imdb.mat or wiki.mat. Photos without exactly one good face are left out.

    Only the year of a photo is known; as the data set's authors do, it is taken to be from the middle of the year.
    Returns None if no photo is listed. Raises InputError if a file can't be read, MissingError without scipy or h5py.
    """
    found: dict[str, Label] = {}
    places = find_files(folder, lambda name: name in ("imdb.mat", "wiki.mat"), DEEPEST)
    places.sort(key=lambda path: (path.name, path))
    existing = {PurePath(file).as_posix(): file for file in files} if places else {}
    fields = ("dob", "photo_taken", "full_path", "gender", "name", "face_score", "second_face_score")
    for path in places:
        inside = path.parent.relative_to(folder)
        rows = _rows(_read_struct(path, path.stem, fields))
        with _usable(path):
            for row in rows:
                file = existing.get((inside / str(row["full_path"])).as_posix())
                one_face = math.isnan(row["second_face_score"]) and MIN_FACE_SCORE <= row["face_score"] < math.inf
                if file is not None and one_face:
                    found[file] = _imdb_wiki_label(row)
    return found or None


def _imdb_wiki_label(row: Mapping[str, Any]) -> Label:
    """The label of a row; `gender` is 0 for women, 1 for men and NaN if it is unknown."""
    birth = _from_matlab_date(float(row["dob"]))
    year = int(row["photo_taken"])
    return Label(
        age=str(year - birth.year - (birth.month >= 7)) if birth else "",
        subject=str(row["name"]),
        sex="" if math.isnan(row["gender"]) else "FM"[int(row["gender"])],
        birth=birth.isoformat() if birth else "",
        taken=str(year),
    )


def _from_matlab_date(number: float) -> date | None:
    """A MATLAB date number, which counts days from year 0; None for those that are out of range in the data set."""
    try:
        return date.fromordinal(1) + timedelta(days=int(number) - 367)
    except (OverflowError, ValueError):
        return None


def _whole(value: Any) -> str:
    """A number as text without decimals; empty if it is missing or NaN."""
    return "" if value is None or (isinstance(value, float) and math.isnan(value)) else str(int(value))


@contextmanager
def _usable(path: Path) -> Iterator[None]:
    """Raises InputError if values in this block have other types than those of the data set, or are out of range."""
    try:
        yield
    except (KeyError, IndexError, TypeError, ValueError, OverflowError) as error:
        raise InputError(
            f"{path} has values that can't be used: {shown(repr(error))}", hint="is it the data set's own file?"
        ) from error


def _rows(table: Columns) -> Iterator[dict[str, Any]]:
    """The rows of a table of columns."""
    for values in zip(*table.values(), strict=True):
        yield dict(zip(table, values, strict=True))


def _read_struct(path: Path, struct: str, names: Sequence[str]) -> Columns:
    """Some fields of a struct of arrays, each as a list; from MATLAB 5 files, or from 7.3, which is HDF5."""
    check_size(path, MOST_TABLE)
    with path.open("rb") as file:
        is_hdf5 = file.read(20).startswith(b"MATLAB 7.3")
    require("h5py" if is_hdf5 else "scipy", needed_by=f"reading {path}")
    try:
        table = _from_hdf5(path, struct, names) if is_hdf5 else _from_mat5(path, struct, names)
    except InputError:
        raise
    except Exception as error:  # scipy and h5py raise almost anything for a damaged file
        raise InputError(
            f"{path} can't be read as {struct}: {shown(error)}", hint="is it the data set's own file, and complete?"
        ) from error
    if missing := [name for name in names if name not in table and name not in OPTIONAL]:
        raise InputError(f"{path} has no {' and no '.join(missing)} in {struct}", hint="download it again")
    lengths = {name: len(values) for name, values in table.items()}
    if len(set(lengths.values())) > 1:
        raise InputError(f"{path}: the fields of {struct} have different lengths: {lengths}", hint="download it again")
    return table


def _from_mat5(path: Path, struct: str, names: Sequence[str]) -> Columns:
    """The fields of a struct in a MATLAB 5 file, by scipy."""
    from scipy.io import loadmat

    _check_unpacked(path)
    record = loadmat(path, variable_names=[struct])[struct][0, 0]
    return {name: [_plain(cell) for cell in record[name].ravel()] for name in names if name in record.dtype.names}


def _check_unpacked(path: Path) -> None:
    """Raise InputError if the compressed variables of a MATLAB 5 file would take more than MOST_TABLE bytes."""
    total = 0
    with path.open("rb") as file:
        file.seek(HEADER)
        while len(tag := file.read(8)) == 8:
            kind, length = struct_format.unpack("<II", tag)
            if kind != COMPRESSED:
                file.seek(length, 1)
                continue
            unpacker, rest = zlib.decompressobj(), file.read(length)
            while rest and total <= MOST_TABLE:
                total += len(unpacker.decompress(rest, CHUNK))
                rest = unpacker.unconsumed_tail
            if total > MOST_TABLE:
                raise InputError(f"{path} is too large when it is unpacked", hint="is it the data set's own file?")


def _plain(cell: Any) -> Any:
    """The number or text in a cell of nested arrays."""
    while isinstance(cell, np.ndarray):
        if cell.size == 0:
            return ""
        cell = cell.ravel()[0]
    return cell.item() if isinstance(cell, np.generic) else cell


def _from_hdf5(path: Path, struct: str, names: Sequence[str]) -> Columns:
    """The fields of a struct in a MATLAB 7.3 file, by h5py."""
    import h5py

    with h5py.File(path) as file:
        group = file[struct]
        table: Columns = {}
        for name in names:
            if name not in group:
                continue
            if group[name].size > MOST_VALUES or group[name].external or group[name].is_virtual:
                raise ValueError(f"{name} has too many values, or values in another file")
            values = group[name][()].ravel()
            if values.dtype == object:  # a cell array: references to arrays of characters
                table[name] = ["".join(map(chr, file[cell][()].ravel())) for cell in values]
            else:
                table[name] = values.tolist()
        return table
