"""Auditing: labels that can't be right, photos that can't be read, and one picture with two ages."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from agecli.core.ages import decade_name, parse_age
from agecli.core.errors import InputError
from agecli.core.files import write_csv
from agecli.datasets.duplicates import Duplicates, Progress, find_duplicates
from agecli.datasets.manifest import Row, read_rows
from agecli.datasets.sources.labels import day, years_between
from agecli.datasets.sources.names import PARSERS

OLDEST = 120  # years; one person is known to have been older
SLACK = 1  # years between an age and the dates behind it: often they are only years
NAMED = 0.95  # of the photos must be named as in a data set before their names are believed
BAR = 20  # characters
SUSPICIOUS_COLUMNS = ("path", "age", "subject", "sex", "race", "problem", "detail")
COLUMNS = ("what", "group", "count", "bar")
KINDS = {"identical": "identical to", "near": "nearly identical to", "mirrored": "a mirror image of"}
Check = Callable[[Sequence[Row]], Iterator["Finding"]]


@dataclass(frozen=True)
class Finding:
    """A row of the data set, and what is suspicious about it."""

    row: Row
    problem: str  # a word for programs
    detail: str  # a phrase for people

    def record(self) -> dict[str, str]:
        label = self.row.label
        who = {"age": label.age, "subject": label.subject, "sex": label.sex, "race": label.race}
        return {"path": self.row.path, **who, "problem": self.problem, "detail": self.detail}


@dataclass(frozen=True)
class Audit:
    source: str  # the recognised data set
    photos: int
    findings: tuple[Finding, ...]  # by path
    copies: tuple[tuple[str, ...], ...]  # photos of one picture and one age: no mistake, but a test may know them
    unreadable: dict[str, str]  # why, by path
    histograms: tuple[dict[str, Any], ...]

    @property
    def suspicious(self) -> int:
        """How many photos have findings."""
        return len({finding.row.path for finding in self.findings})

    def rows(self) -> list[dict[str, Any]]:
        """How many of each problem, then who is in the set: for `report.write_rows`, under COLUMNS."""
        problems = Counter(finding.problem for finding in self.findings)
        return [
            {"what": "photos", "count": self.photos},
            {"what": "suspicious", "count": self.suspicious},
            *({"what": "problem", "group": problem, "count": problems[problem]} for problem in sorted(problems)),
            {"what": "copies", "group": "same age", "count": sum(map(len, self.copies))},
            *self.histograms,
        ]


def audit(
    folder: str | Path,
    *,
    dataset: str = "auto",
    out: str | Path = "suspicious.csv",
    workers: int = 1,
    progress: Progress = lambda what, done, total: None,
) -> Audit:
    """Look for what can't be right in a data set, and write it to a table that `train --exclude` takes."""
    if workers < 1:
        raise InputError(f"{workers} workers do no work", hint="use --workers 1 or more")
    source, rows = read_rows(Path(folder), dataset)
    found = find_duplicates(Path(folder), (row.path for row in rows), workers=workers, progress=progress)
    findings = [finding for check in CHECKS for finding in check(rows)]
    if source == "csv":  # elsewhere the names are where ages come from
        findings += other_age_in_name(rows)
    findings += (Finding(row, "unreadable", found.unreadable[row.path]) for row in rows if row.path in found.unreadable)
    findings += disagreeing_copies(rows, found)
    findings.sort(key=lambda finding: (finding.row.path, finding.problem, finding.detail))
    write_csv(Path(out), (finding.record() for finding in findings), SUSPICIOUS_COLUMNS)
    disagreeing = {finding.row.path for finding in findings if finding.problem == "duplicate_age"}
    copies = tuple(tuple(group) for group in found.groups() if not disagreeing.intersection(group))
    return Audit(source, len(rows), tuple(findings), copies, found.unreadable, tuple(histograms(rows)))


def impossible_age(rows: Sequence[Row]) -> Iterator[Finding]:
    for row in rows:
        age = parse_age(row.label.age)
        if not row.label.age:
            yield Finding(row, "age_missing", "it has no age")
        elif age is None:
            yield Finding(row, "age_no_number", f"{row.label.age!r} is not a number")
        elif not 0 <= age <= OLDEST:
            yield Finding(row, "age_impossible", f"ages are 0 to {OLDEST}")


def other_age_by_dates(rows: Sequence[Row]) -> Iterator[Finding]:
    for row in rows:
        age, birth, taken = parse_age(row.label.age), day(row.label.birth), day(row.label.taken)
        if age is None or birth is None or taken is None:
            continue
        years = years_between(birth, taken)
        possible = [years]
        if years < 0 or not all(re.search(r"\d{4}", text) for text in (row.label.birth, row.label.taken)):
            possible += [years - 100, years + 100]  # two digits tell no century
        if not any(years - SLACK <= age < years + 1 + SLACK for years in possible):  # at 30.9 one is 30
            says = f"born {row.label.birth}, taken {row.label.taken}"
            yield Finding(row, "age_dates", f"{says}: {years} years" if years >= 0 else f"{says}: before birth")


def inconsistent_subject(rows: Sequence[Row]) -> Iterator[Finding]:
    """A subject has one sex, one race and one year of birth. Those in the minority are suspicious; on a tie, all."""
    subjects: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row.label.subject:
            subjects[row.label.subject].append(row)
    for subject, photos in subjects.items():
        for trait, value_of in TRAITS.items():
            known = [(row, value) for row in photos if (value := value_of(row))]
            counted = Counter(value for _, value in known).most_common()
            if len(counted) > 1:
                usual = "" if counted[0][1] == counted[1][1] else counted[0][0]
                photos_with = ", ".join(f"{value} in {count}" for value, count in counted)
                detail = f"{trait} of subject {subject}: {photos_with} photos"
                yield from (Finding(row, f"subject_{trait}", detail) for row, value in known if value != usual)


def _birth_year(row: Row) -> str:
    birth = day(row.label.birth)
    return str(birth.year) if birth else ""


TRAITS: dict[str, Callable[[Row], str]] = {
    "sex": lambda row: row.label.sex,
    "race": lambda row: row.label.race,
    "birth": _birth_year,
}


def listed_twice(rows: Sequence[Row]) -> Iterator[Finding]:
    listed: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        listed[PurePath(row.path).as_posix()].append(row)
    for same in listed.values():
        if len(same) > 1:
            ages = ", ".join(row.label.age or "none" for row in same)
            yield from (Finding(row, "path_twice", f"listed {len(same)} times; ages: {ages}") for row in same)


CHECKS: tuple[Check, ...] = (impossible_age, other_age_by_dates, inconsistent_subject, listed_twice)


def other_age_in_name(rows: Sequence[Row]) -> Iterator[Finding]:
    """A table says another age than the photo's own name, in a folder where nearly all have the names of one data set."""
    for source, parse in PARSERS.items():
        named = [(row, label) for row in rows if (label := parse(row.source or row.path))]
        if len(named) < NAMED * len(rows):
            continue
        for row, label in named:
            if parse_age(row.label.age) not in (None, parse_age(label.age)):
                yield Finding(row, "name_age", f"its name says {label.age}, as in {source}")
        return


def disagreeing_copies(rows: Iterable[Row], found: Duplicates) -> Iterator[Finding]:
    """A picture has one age and shows one subject. Nobody knows which copy is right, so all are suspicious."""
    by_path: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_path[row.path].append(row)
    linked: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for link in found.links:
        linked[link.one].append((link.two, KINDS[link.kind]))
        linked[link.two].append((link.one, KINDS[link.kind]))
    for group in found.groups():
        copies = [row for path in group for row in by_path[path]]
        for what, value_of in COPIED.items():
            first = {value: row for row in reversed(copies) if (value := value_of(row)) is not None}
            for row in copies if len(first) > 1 else ():
                if (value := value_of(row)) is None:
                    continue
                others = [(other, kind) for path, kind in linked[row.path] for other in by_path[path]]
                others += [(other, "the same picture as") for other in first.values()]  # by way of a third
                other, kind = next(pair for pair in others if value_of(pair[0]) not in (None, value))
                detail = f"{kind} {other.path}, {what} {getattr(other.label, what)}"
                yield Finding(row, f"duplicate_{what}", detail)


COPIED: dict[str, Callable[[Row], float | str | None]] = {
    "age": lambda row: parse_age(row.label.age),
    "subject": lambda row: row.label.subject or None,
}


def histograms(rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """How many photos there are of each decade, sex and race, the unknown last; not of what is never known."""
    for what, group_of in GROUPS.items():
        counted = Counter(map(group_of, rows))
        if set(counted) == {""}:
            continue
        most = max(counted.values())
        for group in sorted(counted, key=lambda name: (not name, len(name) if what == "age" else 0, name)):
            bar = _bar(counted[group] / most)
            yield {"what": what, "group": group or "unknown", "count": counted[group], "bar": bar}


def _decade(row: Row) -> str:
    age = parse_age(row.label.age)
    return decade_name(age) if age is not None and 0 <= age <= OLDEST else ""


GROUPS: dict[str, Callable[[Row], str]] = {
    "age": _decade,
    "sex": lambda row: row.label.sex,
    "race": lambda row: row.label.race,
}


def _bar(share: float) -> str:
    """All are of one width, so that they begin below each other in a column that ends with them."""
    full = round(share * BAR)
    return ("█" * full or "▏").ljust(BAR, "░")
