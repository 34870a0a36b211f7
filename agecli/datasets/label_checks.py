"""Checks of labels: ages that can't be right, subjects that contradict themselves, copies that disagree.

A check takes the table of `manifest.read_labels`, one row of text per photo, and returns a table of findings with
FINDING_COLUMNS: the label of the photo, a `problem` (a word for programs) and a `detail` (a phrase for people). A photo can
have several findings; they are in the order of the photos. To add a check, write such a function and list it in CHECKS.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from pathlib import PurePath

import pandas as pd

from agecli.core.ages import parse_age
from agecli.core.tables import any_bytes, text_table
from agecli.datasets.duplicates import Duplicates
from agecli.datasets.manifest import LabelRow, label_rows
from agecli.datasets.sources.labels import parse_date, years_between
from agecli.datasets.sources.names import PARSERS

FINDING_COLUMNS = ("path", "age", "subject", "sex", "race", "problem", "detail")
OLDEST = 120  # years; one person is known to have been older
TOLERANCE = 1  # years between an age and the dates of birth and photo: often only the years of these are known
NAMED = 0.95  # share of photos that must be named as in a data set before the ages in their names are compared
KINDS = {"identical": "identical to", "near": "nearly identical to", "mirrored": "a mirror image of"}
Finding = tuple[LabelRow, str, str]  # photo, problem, detail
Check = Callable[[pd.DataFrame], pd.DataFrame]


def findings_table(findings: Iterable[Finding]) -> pd.DataFrame:
    """Findings as a table of text with FINDING_COLUMNS."""
    rows = ((row.path, row.age, row.subject, row.sex, row.race, problem, detail) for row, problem, detail in findings)
    return text_table(rows, FINDING_COLUMNS)


def impossible_age(labels: pd.DataFrame) -> pd.DataFrame:
    """Ages that can't be used.

    Problems: `age_missing`, `age_no_number` (text, NaN or infinite), `age_impossible` (not 0 to 120 years).

        impossible_age(read_labels(Path("aligned"))[1])["path"]
    """
    findings: list[Finding] = []
    for row in label_rows(labels):
        age = parse_age(row.age)
        if not row.age:
            findings.append((row, "age_missing", "it has no age"))
        elif age is None:
            findings.append((row, "age_no_number", f"{row.age!r} is not a number"))
        elif not 0 <= age <= OLDEST:
            findings.append((row, "age_impossible", f"ages are 0 to {OLDEST}"))
    return findings_table(findings)


def other_age_by_dates(labels: pd.DataFrame) -> pd.DataFrame:
    """Ages that differ by more than a year from the years between birth and photo.

    Problem: `age_dates`. Photos without an age or one of the dates are not checked. A year of two digits may be of any
    century.
    """
    dated = labels[(labels["age"] != "") & (labels["birth"] != "") & (labels["taken"] != "")]
    findings: list[Finding] = []
    for row in label_rows(dated):
        age, birth, taken = parse_age(row.age), parse_date(row.birth), parse_date(row.taken)
        if age is None or birth is None or taken is None:
            continue
        years = years_between(birth, taken)
        possible = [years]
        if years < 0 or not all(re.search(r"\d{4}", text) for text in (row.birth, row.taken)):
            possible += [years - 100, years + 100]  # a year of two digits has no century
        if not any(years - TOLERANCE <= age < years + 1 + TOLERANCE for years in possible):  # at 30.9 one is 30
            dates = f"born {row.birth}, taken {row.taken}"
            detail = f"{dates}: {years} years" if years >= 0 else f"{dates}: before birth"
            findings.append((row, "age_dates", detail))
    return findings_table(findings)


@any_bytes()
def inconsistent_subject(labels: pd.DataFrame) -> pd.DataFrame:
    """Subjects with several sexes, races or years of birth.

    Problems: `subject_sex`, `subject_race`, `subject_birth`. The photos in the minority are suspicious; on a tie, all of
    them. Unknown values, and photos without a subject, are not compared.
    """
    traits = labels[["subject", "sex", "race"]].assign(birth=[_birth_year(text) for text in labels["birth"]])
    found = [pd.DataFrame(columns=["index", "problem", "detail"])]
    for trait in ("sex", "race", "birth"):
        known = traits[(traits["subject"] != "") & (traits[trait] != "")]
        several = known.groupby("subject")[trait].transform("nunique") > 1
        for subject, values in known[several].groupby("subject", sort=False)[trait]:
            counts = Counter(values).most_common()
            usual = "" if counts[0][1] == counts[1][1] else counts[0][0]
            numbers = ", ".join(f"{value} in {count}" for value, count in counts)
            found.append(
                pd.DataFrame(
                    {
                        "index": values.index[values != usual],
                        "problem": f"subject_{trait}",
                        "detail": f"{trait} of subject {subject}: {numbers} photos",
                    }
                )
            )
    findings = pd.concat(found).set_index("index")
    return labels.join(findings, how="right")[list(FINDING_COLUMNS)].astype(object)


def _birth_year(text: str) -> str:
    """The year of birth in a label; empty if it is unknown."""
    birth = parse_date(text)
    return str(birth.year) if birth else ""


def listed_twice(labels: pd.DataFrame) -> pd.DataFrame:
    """Photos with several rows in the table.

    Problem: `path_twice`. `x/a.jpg` and `x//a.jpg` are one path.
    """
    rows_of: dict[str, list[LabelRow]] = defaultdict(list)
    for row in label_rows(labels):
        rows_of[PurePath(row.path).as_posix()].append(row)
    findings: list[Finding] = []
    for rows in rows_of.values():
        if len(rows) > 1:
            ages = ", ".join(row.age or "none" for row in rows)
            findings += [(row, "path_twice", f"listed {len(rows)} times; ages: {ages}") for row in rows]
    return findings_table(findings)


CHECKS: tuple[Check, ...] = (impossible_age, other_age_by_dates, inconsistent_subject, listed_twice)


def other_age_in_name(labels: pd.DataFrame) -> pd.DataFrame:
    """Ages that differ from the age in the name of the photo.

    Problem: `name_age`. Names are compared only if nearly all photos are named as in one data set; the name of an aligned
    face is that of its original photo.
    """
    for source, parse in PARSERS.items():
        named = [(row, label) for row in label_rows(labels) if (label := parse(row.source or row.path))]
        if len(named) >= NAMED * len(labels):
            return findings_table(
                (row, "name_age", f"its name says {label.age}, as in {source}")
                for row, label in named
                if parse_age(row.age) not in (None, parse_age(label.age))
            )
    return findings_table([])


def disagreeing_copies(labels: pd.DataFrame, duplicates: Duplicates) -> pd.DataFrame:
    """Copies of one photo with different ages or subjects.

    Problems: `duplicate_age`, `duplicate_subject`.     Which copy is right is not known, so all are suspicious. The detail names a copy that disagrees.
    """
    rows_of: dict[str, list[LabelRow]] = defaultdict(list)
    for row in label_rows(labels):
        rows_of[row.path].append(row)
    linked: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for link in duplicates.links:
        linked[link.one].append((link.two, KINDS[link.kind]))
        linked[link.two].append((link.one, KINDS[link.kind]))
    findings: list[Finding] = []
    for group in duplicates.groups():
        copies = [row for path in group for row in rows_of[path]]
        for field, value_of in COMPARED.items():
            values = {row: value_of(row) for row in copies}
            known = [row for row in copies if values[row] is not None]
            if len({values[row] for row in known}) < 2:
                continue
            first = {values[row]: row for row in reversed(known)}
            for row in known:
                others = [(other, kind) for path, kind in linked[row.path] for other in rows_of[path]]
                others += [(other, "the same picture as") for other in first.values()]  # linked through a third photo
                other, kind = next(pair for pair in others if values[pair[0]] not in (None, values[row]))
                findings.append((row, f"duplicate_{field}", f"{kind} {other.path}, {field} {getattr(other, field)}"))
    return findings_table(findings)


COMPARED: dict[str, Callable[[LabelRow], float | str | None]] = {
    "age": lambda row: parse_age(row.age),
    "subject": lambda row: row.subject or None,
}
