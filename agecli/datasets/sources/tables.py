"""What the CSV files of data sets say: MORPH, APPA-REAL, ChaLearn, and any labels.csv."""

from __future__ import annotations

import csv
import logging
import re
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath

from agecli.core.errors import InputError
from agecli.core.files import delimiter, read_csv
from agecli.datasets.sources import labels
from agecli.datasets.sources.labels import ALIASES, Label
from agecli.datasets.sources.names import PARSERS, name_of, stem_of

MORPH_COLUMNS = {  # ours, and what its releases call them, in lower case and without anything but letters
    "subject": ("idnum", "id", "subjectid", "subject"),
    "picture": ("picturenum", "picture", "picnum", "imagenum"),
    "birth": ("dob", "birth", "dateofbirth", "birthdate"),
    "taken": ("doa", "acquisition", "dateofacquisition", "acquisitiondate"),
    "race": ("race", "ethnicity"),
    "sex": ("gender", "sex"),
    "age": ("age",),
    "photo": ("photo", "path", "filename", "image"),
}
NEEDED = ("subject", "birth", "taken", "race", "sex")
log = logging.getLogger("agecli")


def from_row(row: dict[str, str]) -> Label:
    """A row of a labels.csv or manifest.csv, whatever its columns are called."""
    known = {ALIASES.get(key, key): value.strip() for key, value in row.items() if value.strip()}
    label = Label(**{name: known.get(name, "") for name in Label._fields})
    return label._replace(sex=labels.sex(label.sex), race=labels.race(label.race))


def labels_csv(path: Path) -> dict[str, Label]:
    if not path.is_file():
        raise InputError(
            f"there is no {path}", hint="it has the columns path and age, and optionally subject, sex, race, split"
        )
    rows = read_csv(path)
    if not rows or not {"path", "age"} <= set(rows[0]):
        raise InputError(f"{path} has no columns path and age", hint="its first line names the columns")
    return {PurePath(row["path"].strip()).as_posix(): from_row(row) for row in rows if row["path"].strip()}


def _tables(folder: Path) -> Iterator[tuple[Path, list[str]]]:
    """The CSV files of a folder, not of those below it, and the names of their columns in lower case."""
    for path in sorted(folder.glob("*.csv")):
        try:
            with path.open(newline="", encoding="utf-8-sig", errors="replace") as file:
                yield path, [name.strip().lower() for name in next(csv.reader(file, delimiter=delimiter(path)), [])]
        except OSError:
            continue


def morph_csv(folder: Path, files: Sequence[str]) -> dict[str, Label] | None:
    """MORPH Album 2: id, picture number, birth and acquisition dates, race, gender; photos are found by name.

    The age in the name of a photo is the one that published numbers are about, so it comes before that of the table.
    """
    for path, columns in _tables(folder):
        plain = {re.sub("[^a-z]", "", column): column for column in columns}
        names = {ours: next((plain[n] for n in theirs if n in plain), "") for ours, theirs in MORPH_COLUMNS.items()}
        missing = [key for key in NEEDED if not names[key]]
        if not missing:
            return _morph_labels(path, names, files) or None
        if len(missing) < len(NEEDED):  # it may be MORPH's after all
            log.warning("%s is not read as MORPH's table: it has no column for %s", path, " and ".join(missing))
    return None


def _morph_labels(path: Path, names: dict[str, str], files: Sequence[str]) -> dict[str, Label]:
    """A label for each photo, from its row in the table if it has one, else from its name alone."""
    by_name = {name_of(file).lower(): file for file in files}
    named = {file: label for file in files if (label := PARSERS["morph"](file))}
    by_number: dict[tuple[int, int], str] = {}
    for file in named:
        subject, _, rest = stem_of(file).partition("_")
        by_number[int(subject), int(re.split("[MFmf]", rest)[0])] = file
    found: dict[str, Label] = dict(named)  # a photo that the table leaves out still has its name
    for known in _columns(path, names):
        file = by_name.get(name_of(known["photo"]).lower(), "")
        if not file and known["subject"].isdigit() and known["picture"].isdigit():
            file = by_number.get((int(known["subject"]), int(known["picture"])), "")
        if file:
            found[file] = _morph_label(known, named.get(file))
    return found


def _columns(path: Path, names: dict[str, str]) -> Iterator[dict[str, str]]:
    """The rows of a large table, of some columns only and under our names: half the time of reading all of it."""
    with path.open(newline="", encoding="utf-8-sig", errors="surrogateescape") as file:
        reader = csv.reader(file, delimiter=delimiter(path))
        header = [name.strip().lower() for name in next(reader)]
        places = {ours: header.index(theirs) for ours, theirs in names.items() if theirs}
        blank = dict.fromkeys(names, "")
        for row in reader:
            if len(row) >= len(header):
                yield blank | {ours: row[place].strip() for ours, place in places.items()}


def _morph_label(known: dict[str, str], named: Label | None) -> Label:
    birth, taken = labels.born_and_taken(known["birth"], known["taken"])
    age = named.age if named else known["age"]
    if not age and birth and taken:
        age = str(labels.years_between(birth, taken))
    return Label(
        age=age,
        subject=named.subject if named else known["subject"],
        sex=labels.sex(known["sex"]) or (named.sex if named else ""),
        race=labels.race(known["race"]),
        birth=birth.isoformat() if birth else "",
        taken=taken.isoformat() if taken else "",
    )


def appa_real_csv(folder: Path, files: Sequence[str]) -> dict[str, Label] | None:
    """APPA-REAL: gt_avg_train.csv, gt_avg_valid.csv, gt_avg_test.csv beside train/, valid/, test/. The age is the real one.

    gt_train.csv, with a row for each rating, does as well. Each photo X.jpg has its cut face in X.jpg_face.jpg, which
    `agecli` leaves aside. Sex and race stand in allcategories_*.csv, which some copies have.
    """
    there = set(files)
    found: dict[str, Label] = {}
    for path, columns in _tables(folder):
        part = re.fullmatch(r"gt_(?:avg_)?(train|valid|test)", path.stem)
        if not part or not {"file_name", "real_age"} <= set(columns):
            continue
        groups = _appa_real_groups(folder, part[1])
        for row in read_csv(path):
            file = f"{part[1]}/{row['file_name'].strip()}"
            if file in there:
                sex, race = groups.get(row["file_name"].strip(), ("", ""))
                split = "val" if part[1] == "valid" else part[1]
                found[file] = Label(row["real_age"].strip(), "", sex, race, split)
    return found or None


def _appa_real_groups(folder: Path, part: str) -> dict[str, tuple[str, str]]:
    path = folder / f"allcategories_{part}.csv"
    if not path.is_file():
        return {}
    return {
        row.get("file", row.get("file_name", "")).strip(): (
            labels.sex(row.get("gender", "")),
            labels.race(row.get("race", "")),
        )
        for row in read_csv(path)
    }


def chalearn_csv(folder: Path, files: Sequence[str]) -> dict[str, Label] | None:
    """ChaLearn LAP: train_gt.csv and the like, `image,mean,stdv` or image;mean;stdv. The age is the mean of what people guessed."""
    by_name = {PurePath(file).name: file for file in files}
    found: dict[str, Label] = {}
    for path in sorted(folder.glob("*.csv")):
        part = next((p for p in ("train", "valid", "test") if p in path.stem.lower()), "")
        for line in path.read_text(encoding="utf-8-sig", errors="replace").splitlines():
            cells = [cell.strip() for cell in re.split("[,;]", line)]
            if len(cells) == 3 and cells[0] in by_name and re.fullmatch(r"\d+(\.\d+)?", cells[1]):
                found[by_name[cells[0]]] = Label(cells[1], split="val" if part == "valid" else part)
    return found if len(found) >= len(files) / 2 else None
