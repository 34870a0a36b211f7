"""Auditing: labels that can't be right, photos that can't be read, and copies of one photo with two ages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from agecli.core.ages import decade_name, parse_age
from agecli.core.outputs import check_output
from agecli.core.parallel import check_workers
from agecli.core.tables import any_bytes, write_table
from agecli.core.worker_process import Limits
from agecli.datasets.duplicates import Duplicates, Progress, find_duplicates
from agecli.datasets.label_checks import CHECKS, OLDEST, disagreeing_copies, findings_table, other_age_in_name
from agecli.datasets.manifest import label_rows, read_labels

BAR = 20  # characters
COLUMNS = ("what", "group", "count", "bar")


@dataclass(frozen=True)
class Audit:
    """What an audit found in a data set."""

    source: str  # name of the recognised data set
    photos: int
    findings: pd.DataFrame  # label_checks.FINDING_COLUMNS, sorted by path: what suspicious.csv holds
    copies: tuple[
        tuple[str, ...], ...
    ]  # photos of one picture and one age: no error, but they can leak into a test part
    unreadable: dict[str, str]  # reasons by path
    histograms: tuple[dict[str, Any], ...]  # rows under COLUMNS

    @property
    def suspicious(self) -> int:
        """The number of photos with findings."""
        return int(self.findings["path"].nunique())

    def rows(self) -> list[dict[str, Any]]:
        """The numbers of photos, of findings by problem, and of photos by age, sex and race; as rows under COLUMNS."""
        problems = self.findings["problem"].value_counts().sort_index()
        return [
            {"what": "photos", "count": self.photos},
            {"what": "suspicious", "count": self.suspicious},
            *({"what": "problem", "group": problem, "count": count} for problem, count in problems.to_dict().items()),
            {"what": "copies", "group": "same age", "count": sum(map(len, self.copies))},
            *self.histograms,
        ]


@any_bytes()
def audit(
    folder: str | Path,
    *,
    dataset: str = "auto",
    out: str | Path = "suspicious.csv",
    force: bool = False,
    workers: int = 1,
    max_memory: float | None = None,
    timeout: float | None = None,
    progress: Progress = lambda what, done, total: None,
) -> Audit:
    """Check the labels and photos of a data set, and write what is suspicious to a CSV file that `train --exclude` takes.

    folder: with a manifest.csv or labels.csv, or a data set.   dataset: its name, or `auto`.
    workers: number of processes.   max_memory, timeout: most GB for a process and seconds for a photo, as in `predict`.
    progress: called with `photos` or `pairs`, the number done, and the number in all.
    out: the CSV file.   force: replace `out` also if agecli did not write it.

    Raises MissingError or InputError as `manifest.read_labels` does.

        agecli.audit("aligned").findings
    """
    check_workers(workers)
    limits = Limits.of(max_memory, timeout)
    check_output(Path(out), ["table"], force=force)
    source, labels = read_labels(Path(folder), dataset)
    duplicates = find_duplicates(Path(folder), labels["path"], workers=workers, limits=limits, progress=progress)
    findings = _all_findings(source, labels, duplicates)
    write_table(Path(out), findings)
    disagreeing = set(findings["path"][findings["problem"] == "duplicate_age"])
    copies = tuple(tuple(group) for group in duplicates.groups() if not disagreeing.intersection(group))
    return Audit(source, len(labels), findings, copies, duplicates.unreadable, tuple(histograms(labels)))


def _all_findings(source: str, labels: pd.DataFrame, duplicates: Duplicates) -> pd.DataFrame:
    """The findings of all checks in one table, sorted by path, problem and detail."""
    reasons = duplicates.unreadable
    unreadable = labels[labels["path"].isin(list(reasons))]
    tables = [check(labels) for check in CHECKS]
    if source == "csv":  # elsewhere the ages come from the names
        tables.append(other_age_in_name(labels))
    tables.append(findings_table((row, "unreadable", reasons[row.path]) for row in label_rows(unreadable)))
    tables.append(disagreeing_copies(labels, duplicates))
    return pd.concat(tables).sort_values(["path", "problem", "detail"], kind="stable", ignore_index=True)


def histograms(labels: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """The numbers of photos by decade of age, sex and race, as rows under COLUMNS.

    Unknown values come last; a field that is never known is left out.
    """
    groups = {"age": [_decade(age) for age in labels["age"]], "sex": labels["sex"], "race": labels["race"]}
    for what, values in groups.items():
        counts = pd.Series(values, dtype=object).value_counts().to_dict()
        if set(counts) == {""}:
            continue
        most = max(counts.values(), default=0)
        for group in sorted(map(str, counts), key=lambda name: (not name, len(name) if what == "age" else 0, name)):
            yield {"what": what, "group": group or "unknown", "count": counts[group], "bar": _bar(counts[group] / most)}


def _decade(text: str) -> str:
    """The decade of an age in a label; empty if the age is unknown or impossible."""
    age = parse_age(text)
    return decade_name(age) if age is not None and 0 <= age <= OLDEST else ""


def _bar(share: float) -> str:
    """A bar for tables; all have one width, so that they align in the last column."""
    full = round(share * BAR)
    return ("█" * full or "▏").ljust(BAR, "░")
