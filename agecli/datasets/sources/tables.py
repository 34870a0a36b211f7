"""Labels from the CSV files of data sets: MORPH, APPA-REAL, ChaLearn, and any labels.csv."""

from __future__ import annotations

import csv
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath

import pandas as pd

from agecli.core.errors import InputError
from agecli.core.files import delimiter
from agecli.core.tables import any_bytes, read_in_chunks, read_table
from agecli.datasets.sources import labels
from agecli.datasets.sources.finding import find_files
from agecli.datasets.sources.labels import ALIASES, Label
from agecli.datasets.sources.names import PARSERS, name_of, stem_of
from agecli.datasets.spooled import Computed, SpooledRows

MORPH_COLUMNS = {  # ours, and what its releases call them, in lower case and letters only
    "subject": ("idnum", "id", "subjectid", "subject"),
    "picture": ("picturenum", "picture", "picnum", "imagenum"),
    "birth": ("dob", "birth", "dateofbirth", "birthdate"),
    "taken": ("doa", "acquisition", "dateofacquisition", "acquisitiondate"),
    "race": ("race", "ethnicity"),
    "sex": ("gender", "sex"),
    "age": ("age",),
    "photo": ("photo", "path", "filename", "image"),
}
REQUIRED_BY_MORPH = ("subject", "birth", "taken", "race", "sex")
DATES = ("birth", "taken")  # which a table may lack if the names of the photos are MORPH's, and have the ages
DEEP = 2  # folders below that of MORPH, down to which its table is looked for
CHUNK = 5000  # rows of a labels.csv that are read at a time
log = logging.getLogger("agecli")


@any_bytes()
def label_columns(table: pd.DataFrame) -> pd.DataFrame:
    """The fields of Label from a labels.csv or manifest.csv, whose columns may have other names (ALIASES).

    table: text, one row per photo. Returns a data frame of text with the same index and one column per field of Label;
    unknown fields are empty, sexes and races have one spelling. Of two columns for one field, the last non-empty cell wins.
    """
    known = pd.DataFrame("", index=table.index, columns=list(Label._fields), dtype=object)
    for column in table.columns:
        field = ALIASES.get(column, column)
        if field in known:
            cells = table[column].str.strip()
            known[field] = cells.where(cells != "", known[field])
    for field, spelling in (("sex", labels.sex), ("race", labels.race)):
        known[field] = known[field].map(spelling).astype(object)
    return known


def labels_csv(path: Path) -> Mapping[str, Label]:
    """The labels of a labels.csv, by the path of the photo, sorted by it; rows without a path are skipped.

    They are kept in a temporary file: memory does not grow with the rows.

    Raises InputError if the file or its columns `path` and `age` are missing.
    """
    if not path.is_file():
        raise InputError(
            f"there is no {path}", hint="it has the columns path and age, and optionally subject, sex, race, split"
        )
    rows = SpooledRows(_labelled_rows(path))
    return Computed(rows, lambda name: Label(*rows[name]) if name in rows else None)


def _labelled_rows(path: Path) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The paths in a labels.csv, and the fields of Label of each. Raises InputError if it has no such columns, or no rows."""
    count = 0
    for table in read_in_chunks(path, CHUNK):
        if not {"path", "age"} <= set(table.columns):
            break
        for name, row in zip(table["path"], label_columns(table).itertuples(index=False, name=None), strict=True):
            count += 1
            if name.strip():
                yield PurePath(name.strip()).as_posix(), row
    if not count:
        raise InputError(f"{path} has no columns path and age", hint="its first line names the columns")


def _tables_in(folder: Path, depth: int = 0) -> list[Path]:
    """The CSV files of a folder, and of those up to `depth` below it."""
    return find_files(folder, lambda name: name.endswith(".csv"), depth, links=True)


def _csv_files(folder: Path, depth: int = 0) -> Iterator[tuple[Path, list[str]]]:
    """The CSV files of a folder, those of `_tables_in`, and the names of their columns in lower case."""
    for path in _tables_in(folder, depth):
        try:
            with path.open(newline="", encoding="utf-8-sig", errors="replace") as file:
                yield path, [name.strip().lower() for name in next(csv.reader(file, delimiter=delimiter(path)), [])]
        except OSError:
            continue


def morph_csv(folder: Path, files: Sequence[str]) -> dict[str, Label] | None:
    """MORPH Album 2: a table of subjects, picture numbers, dates of birth and acquisition, races and genders.

    Photos are found by name. The age in a photo's name is the one that published results use, so it is preferred to that
    of the table. A table without dates will do if photos have MORPH's names. It may be up to two folders below the data set's.
    Returns None if no CSV file has MORPH's columns.
    """
    named = sum(PARSERS["morph"](file) is not None for file in files) >= max(1, len(files) / 2)
    for path, columns in _csv_files(folder, DEEP):
        by_letters = {re.sub("[^a-z]", "", column): column for column in columns}
        names = {
            ours: next((by_letters[name] for name in theirs if name in by_letters), "")
            for ours, theirs in MORPH_COLUMNS.items()
        }
        missing = [key for key in REQUIRED_BY_MORPH if not names[key] and not (key in DATES and named)]
        if names["photo"] and named and "subject" in missing:
            missing.remove("subject")  # the names of the photos have it
        if not missing:
            return _morph_labels(path, names, files) or None
        if len(missing) < len(REQUIRED_BY_MORPH):  # it may be MORPH's after all
            log.warning("%s is not read as MORPH's table: it has no column for %s", path, " and ".join(missing))
    return None


def _morph_labels(path: Path, names: Mapping[str, str], files: Sequence[str]) -> dict[str, Label]:
    """A label for each photo: from its row in the table, else from its name alone."""
    by_name = {name_of(file).lower(): file for file in files}
    named = {file: label for file in files if (label := PARSERS["morph"](file))}
    by_number = {_morph_number(file): file for file in named}
    found: dict[str, Label] = dict(named)
    for row in _morph_rows(path, names):
        file = by_name.get(name_of(row["photo"]).lower(), "")
        if not file and row["subject"].isdigit() and row["picture"].isdigit():
            file = by_number.get((int(row["subject"]), int(row["picture"])), "")
        if file:
            found[file] = _morph_label(row, named.get(file))
    return found


def _morph_number(file: str) -> tuple[int, int]:
    """Subject and picture number in the name of a MORPH photo, 009055_1M54.JPG."""
    subject, _, rest = stem_of(file).partition("_")
    return int(subject), int(re.split("[MFmf]", rest)[0])


def _morph_rows(path: Path, names: Mapping[str, str]) -> Iterator[dict[str, str]]:
    """The rows of MORPH's table under our names of columns; a column that it does not have is empty."""
    table = read_table(path)
    columns = [table[name].str.strip() if name else [""] * len(table) for name in names.values()]
    return (dict(zip(names, cells, strict=True)) for cells in zip(*columns, strict=True))


def _morph_label(row: Mapping[str, str], named: Label | None) -> Label:
    """The label of a row. The name's age and subject come first; without one, the age follows from the dates."""
    birth, taken = labels.birth_and_photo_dates(row["birth"], row["taken"])
    age = named.age if named else row["age"]
    if not age and birth and taken:
        age = str(labels.years_between(birth, taken))
    return Label(
        age=age,
        subject=named.subject if named else row["subject"],
        sex=labels.sex(row["sex"]) or (named.sex if named else ""),
        race=labels.race(row["race"]) or (named.race if named else ""),
        birth=birth.isoformat() if birth else "",
        taken=taken.isoformat() if taken else "",
    )


def appa_real_csv(folder: Path, files: Sequence[str]) -> dict[str, Label] | None:
    """APPA-REAL: gt_avg_train.csv, gt_avg_valid.csv, gt_avg_test.csv beside train/, valid/, test/. The age is the real one.

    gt_train.csv, with a row for each rating, does as well. Each photo X.jpg comes with its cropped face X.jpg_face.jpg,
    which is ignored. Sex and race are in allcategories_*.csv, which some copies have. Returns None if no photo is listed.
    """
    tables = [
        (path, part)
        for path, columns in _csv_files(folder)
        if (part := re.fullmatch(r"gt_(?:avg_)?(train|valid|test)", path.stem))
        and {"file_name", "real_age"} <= set(columns)
    ]
    existing = set(files) if tables else set[str]()
    found: dict[str, Label] = {}
    for path, part in tables:
        groups = _appa_real_groups(folder, part[1])
        table = read_table(path)
        for name, age in zip(table["file_name"].str.strip(), table["real_age"].str.strip(), strict=True):
            file = f"{part[1]}/{name}"
            if file in existing:
                sex, race = groups.get(name, ("", ""))
                found[file] = Label(age, "", sex, race, "val" if part[1] == "valid" else part[1])
    return found or None


def _appa_real_groups(folder: Path, part: str) -> dict[str, tuple[str, str]]:
    """Sex and race by file name, from allcategories_PART.csv; empty if there is no such file."""
    path = folder / f"allcategories_{part}.csv"
    if not path.is_file():
        return {}
    table = read_table(path)
    names = table["file"] if "file" in table else table.get("file_name", pd.Series(dtype=object))
    known = label_columns(table)
    return dict(zip(names.str.strip(), zip(known["sex"], known["race"], strict=True), strict=True))


def chalearn_csv(folder: Path, files: Sequence[str]) -> dict[str, Label] | None:
    """ChaLearn LAP: train_gt.csv etc., `image,mean,stdv` or image;mean;stdv. The age is the mean of people's guesses.

    Returns None if the tables list fewer than half of the photos.
    """
    tables = _tables_in(folder)
    if not tables:
        return None  # before the names of all photos are kept in memory
    by_name = {PurePath(file).name: file for file in files}
    found: dict[str, Label] = {}
    for path in tables:
        part = next((p for p in ("train", "valid", "test") if p in path.stem.lower()), "")
        for line in path.read_text(encoding="utf-8-sig", errors="replace").splitlines():
            cells = [cell.strip() for cell in re.split("[,;]", line)]
            if len(cells) == 3 and cells[0] in by_name and re.fullmatch(r"\d+(\.\d+)?", cells[1]):
                found[by_name[cells[0]]] = Label(cells[1], split="val" if part == "valid" else part)
    return found if len(found) >= len(files) / 2 else None
