"""The audit finds what can't be right in labels, and says nothing of a clean set."""

from __future__ import annotations

import io
import json
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageOps
from skimage import data

from agecli.core.ages import AgeGrid
from agecli.core.errors import InputError, MissingError
from agecli.core.files import read_csv, write_csv
from agecli.core.tables import text_table
from agecli.datasets.auditing import COLUMNS, audit, histograms
from agecli.datasets.duplicates import Duplicates, Link
from agecli.datasets.label_checks import (
    FINDING_COLUMNS,
    disagreeing_copies,
    impossible_age,
    inconsistent_subject,
    listed_twice,
    other_age_by_dates,
    other_age_in_name,
)
from agecli.datasets.manifest import LABEL_COLUMNS, read_manifest, read_names
from agecli.datasets.sources.labels import Label
from agecli.reports.tables import write_rows
from tests.conftest import Cli, invoke

Row = tuple[str, ...]


def row(path: str, age: str = "30", source: str = "", **known: str) -> Row:
    return (path, *Label(age, **known), source, "", path)


def table(*rows: Row) -> pd.DataFrame:
    """Labels as `read_labels` returns them."""
    return text_table(rows, LABEL_COLUMNS)


def problems(findings: pd.DataFrame) -> dict[str, list[str]]:
    """Which photos have which problem."""
    found: dict[str, list[str]] = {}
    for path, problem in zip(findings["path"], findings["problem"], strict=True):
        found.setdefault(problem, []).append(path)
    return found


def test_ages_that_are_missing_no_number_or_impossible() -> None:
    ages = {"a": "", "b": "about 30", "c": "nan", "d": "-1", "e": "121", "f": "0", "g": "120", "h": "33.5"}
    assert problems(impossible_age(table(*(row(path, age) for path, age in ages.items())))) == {
        "age_missing": ["a"],
        "age_no_number": ["b", "c"],
        "age_impossible": ["d", "e"],
    }


@pytest.mark.parametrize(
    ("age", "birth", "taken", "fine"),
    [
        ("30", "1970-06-15", "2000-06-15", True),
        ("29", "1970-06-15", "2000-06-15", True),  # a year off, as where only years are known
        ("31", "1970", "2000", True),
        ("31.9", "1970", "2000", True),
        ("28", "1970-06-15", "2000-06-15", False),
        ("32", "1970-06-15", "2000-06-15", False),
        ("20", "2000", "1970", False),  # taken before birth
        ("33", "7/1/71", "8/1/04", True),  # two digits tell no century
        ("3", "7/1/01", "8/1/2004", True),
        ("43", "7/1/71", "8/1/04", False),
        ("99", "1970", "", True),  # unknown is not wrong
        ("", "1970", "2000", True),
        ("99", "soon", "2000", True),
    ],
)
def test_an_age_is_held_against_its_dates(age: str, birth: str, taken: str, fine: bool) -> None:
    found = other_age_by_dates(table(row("a", age, birth=birth, taken=taken)))
    assert found.empty == fine
    assert all(birth in detail and taken in detail for detail in found["detail"])


@given(age=st.integers(0, 100), birth=st.dates(), off=st.integers(-1, 1))
def test_an_age_that_follows_from_its_dates_is_never_suspicious(age: int, birth: object, off: int) -> None:
    year, rest = str(birth)[:4], str(birth)[4:]
    taken = f"{int(year) + age:04d}{rest if rest != '-02-29' else '-03-01'}"
    assert other_age_by_dates(table(row("a", str(age + off), birth=str(birth), taken=taken))).empty


def test_the_minority_of_a_subject_is_suspicious() -> None:
    rows = [
        *(row(f"a{number}", subject="a", sex="F", race="Asian", birth="1970") for number in range(3)),
        row("a3", subject="a", sex="M", race="Asian", birth="1970-03-01"),
        row("a4", subject="a", sex="", race="White", birth="1971-03-01"),
        row("b0", subject="b", sex="M"),
        row("c0", subject="", sex="M"),
        row("c1", subject="", sex="F"),
    ]
    found = inconsistent_subject(table(*rows))
    assert problems(found) == {"subject_sex": ["a3"], "subject_race": ["a4"], "subject_birth": ["a4"]}
    assert found["detail"].iloc[0] == "sex of subject a: F in 3, M in 1 photos"


def test_on_a_tie_all_photos_of_a_subject_are_suspicious() -> None:
    rows = [row(f"{number}", subject="a", sex=sex) for number, sex in enumerate(["M", "F", "F", "M", "X", ""])]
    assert problems(inconsistent_subject(table(*rows))) == {"subject_sex": ["0", "1", "2", "3", "4"]}


@given(sexes=st.lists(st.sampled_from(["M", "F", "X", ""]), max_size=8))
def test_a_subject_without_the_suspicious_photos_agrees_with_itself(sexes: list[str]) -> None:
    rows = [row(f"{number}", subject="a", sex=sex) for number, sex in enumerate(sexes)]
    suspicious = set(inconsistent_subject(table(*rows))["path"])
    left = {sex for number, sex in enumerate(sexes) if str(number) not in suspicious} - {""}
    assert len(left) <= 1
    assert bool(suspicious) == (len(set(sexes) - {""}) > 1)


def test_a_path_that_is_listed_twice() -> None:
    rows = [row("x/a.jpg", "30"), row("b.jpg"), row("x//a.jpg", "31")]
    found = listed_twice(table(*rows))
    assert list(found["path"]) == ["x/a.jpg", "x//a.jpg"]
    assert found["detail"][0] == "listed 2 times; ages: 30, 31"


def test_a_name_that_says_another_age_than_the_table() -> None:
    rows = [row(f"images/{age}_0_1_2017011617452512{age}.jpg", str(age)) for age in range(20, 60)]
    assert other_age_in_name(table(*rows)).empty
    wrong = [*rows[:-1], row(rows[-1][0], "22"), row("images/me.jpg", "40")]
    found = other_age_in_name(table(*wrong))
    assert problems(found) == {"name_age": [rows[-1][0]]}
    assert found["detail"][0] == "its name says 59, as in utkface"


def test_names_are_believed_only_if_nearly_all_are_of_one_set() -> None:
    rows = [row(f"{number:03d}A20.JPG", "30") for number in range(10)]
    assert len(other_age_in_name(table(*rows))) == 10
    assert other_age_in_name(table(*rows, row("me.jpg"), row("you.jpg"))).empty


def test_the_name_that_counts_is_that_of_the_original_photo() -> None:
    found = other_age_in_name(table(row("faces/001A02.JPG.jpg", "3", source="001A02.JPG")))
    assert list(found["problem"]) == ["name_age"]


def test_copies_with_different_ages_or_subjects_are_suspicious() -> None:
    rows = [row("a", "20", subject="1"), row("b", "20.0", subject="2"), row("c", "25"), row("d", "25"), row("e", "")]
    links = (Link("a", "b", "near"), Link("b", "c", "mirrored"), Link("c", "d", "identical"), Link("d", "e", "near"))
    found = disagreeing_copies(table(*rows), Duplicates(links, {}))
    assert problems(found) == {"duplicate_age": ["a", "b", "c", "d"], "duplicate_subject": ["a", "b"]}
    details = {
        (path, problem): detail
        for path, problem, detail in zip(found["path"], found["problem"], found["detail"], strict=True)
    }
    assert details["b", "duplicate_age"] == "a mirror image of c, age 25"
    assert details["c", "duplicate_age"] == "a mirror image of b, age 20.0"
    assert details["a", "duplicate_age"] == "the same picture as c, age 25"
    assert details["d", "duplicate_age"] == "the same picture as a, age 20"  # not e, whose age nobody knows
    assert details["a", "duplicate_subject"] == "nearly identical to b, subject 2"


def test_copies_of_the_same_age_are_not_suspicious() -> None:
    rows = [row("a", "20", subject="1"), row("b", "20"), row("c", "21")]
    assert disagreeing_copies(table(*rows), Duplicates((Link("a", "b", "identical"),), {})).empty


@given(ages=st.lists(st.sampled_from(["", "x", "-3", "0", "9", "9.5", "10", "45", "104", "130"]), min_size=1))
def test_histograms_count_every_photo_once(ages: list[str]) -> None:
    rows = [row(f"{number}", age, sex="MF"[number % 2], race="") for number, age in enumerate(ages)]
    found = list(histograms(table(*rows)))
    counts = Counter({(line["what"], line["group"]): line["count"] for line in found})
    assert sum(count for (what, _), count in counts.items() if what == "sex") == len(rows)
    known = sum(age in ("0", "9", "9.5", "10", "45", "104") for age in ages)
    assert sum(count for (what, _), count in counts.items() if what == "age") == (len(rows) if known else 0)
    assert counts["age", "0-9"] == sum(age in ("0", "9", "9.5") for age in ages)
    assert counts["age", "100-109"] == ages.count("104")
    assert not any(line["what"] == "race" for line in found)  # not known of anybody
    assert len({len(line["bar"]) for line in found}) == 1


def test_decades_stand_in_order_and_the_unknown_last() -> None:
    found = [
        line["group"] for line in histograms(table(*(row(age, age) for age in ("101", "", "5", "44", "15", "99"))))
    ]
    assert found == ["0-9", "10-19", "40-49", "90-99", "100-109", "unknown"]


def test_a_clean_set_has_no_findings_and_an_empty_table(toy: Path, tmp_path: Path) -> None:
    report = audit(toy, out=tmp_path / "suspicious.csv")
    assert report.findings.empty
    assert (report.source, report.photos, report.suspicious, report.copies) == ("csv", 120, 0, ())
    assert (tmp_path / "suspicious.csv").read_text() == ",".join(FINDING_COLUMNS) + "\n"
    assert read_names(tmp_path / "suspicious.csv") == []  # what `train --exclude` reads


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """A folder with one of everything that can be wrong."""
    folder = tmp_path / "odd"
    folder.mkdir()
    people = np.asarray(data.astronaut(), np.uint8)  # type: ignore[no-untyped-call]
    face = Image.fromarray(people).crop((140, 0, 340, 200))
    cat = Image.fromarray(np.asarray(data.chelsea(), np.uint8)).crop((100, 50, 300, 250))  # type: ignore[no-untyped-call]
    cup = Image.fromarray(np.asarray(data.coffee(), np.uint8)).crop((200, 50, 400, 250))  # type: ignore[no-untyped-call]
    face.save(folder / "face.png")
    face.resize((150, 150)).save(folder / "smaller.jpg", quality=70)
    ImageOps.mirror(face).save(folder / "mirror.jpg", quality=90)
    cat.save(folder / "cat.png")
    cat.save(folder / "cat-again.jpg")
    cup.save(folder / "cup.png")
    (folder / "text.jpg").write_text("no picture")
    rows = [
        {"path": "face.png", "age": "35", "subject": "1", "sex": "female"},
        {"path": "smaller.jpg", "age": "35", "subject": "1", "sex": "F"},
        {"path": "mirror.jpg", "age": "40", "subject": "1", "sex": "m"},
        {"path": "cat.png", "age": "4"},
        {"path": "cat-again.jpg", "age": "4.0"},
        {"path": "cup.png", "age": "140"},
        {"path": "text.jpg", "age": "20"},
        {"path": "gone.jpg", "age": "20"},
    ]
    write_csv(folder / "labels.csv", rows, ("path", "age", "subject", "sex"))
    return folder


def test_an_audit_finds_everything_and_training_can_leave_it_out(odd: Path, tmp_path: Path) -> None:
    report = audit(odd, out=tmp_path / "deep/suspicious.csv")
    table = read_csv(tmp_path / "deep/suspicious.csv")
    assert [(line["path"], line["problem"]) for line in table] == [
        ("cup.png", "age_impossible"),
        ("face.png", "duplicate_age"),
        ("gone.jpg", "unreadable"),
        ("mirror.jpg", "duplicate_age"),
        ("mirror.jpg", "subject_sex"),
        ("smaller.jpg", "duplicate_age"),
        ("text.jpg", "unreadable"),
    ]
    assert list(table[0]) == list(FINDING_COLUMNS)
    assert table[1]["detail"] == "a mirror image of mirror.jpg, age 40"
    assert (table[1]["age"], table[1]["sex"]) == ("35", "F")
    assert report.suspicious == 6
    assert report.copies == (("cat-again.jpg", "cat.png"),)
    assert sorted(report.unreadable) == ["gone.jpg", "text.jpg"]
    left = read_manifest(odd, AgeGrid(), exclude=read_names(tmp_path / "deep/suspicious.csv"))
    assert [sample.path for sample in left.samples] == ["cat-again.jpg", "cat.png"]


def test_the_result_is_the_same_with_two_workers(odd: Path, tmp_path: Path) -> None:
    one, two = audit(odd, out=tmp_path / "1.csv"), audit(odd, out=tmp_path / "2.csv", workers=2)
    assert one.findings.equals(two.findings)
    assert (one.rows(), one.copies, one.unreadable) == (two.rows(), two.copies, two.unreadable)
    assert (tmp_path / "1.csv").read_bytes() == (tmp_path / "2.csv").read_bytes()


def test_the_printed_table_counts_problems_and_shows_who_is_there(odd: Path, tmp_path: Path) -> None:
    rows = audit(odd, out=tmp_path / "suspicious.csv").rows()
    counts = {(line["what"], line.get("group")): line["count"] for line in rows}
    assert counts["photos", None] == 8
    assert counts["suspicious", None] == 6
    assert counts["problem", "duplicate_age"] == 3
    assert counts["copies", "same age"] == 2
    assert counts["age", "30-39"] == 2
    assert counts["sex", "unknown"] == 5
    stream = io.StringIO()
    write_rows(rows, COLUMNS, "table", stream)
    assert "duplicate_age" in stream.getvalue()
    assert "█" in stream.getvalue()


def test_a_raw_data_set_is_audited_by_its_names(tmp_path: Path, toy: Path) -> None:
    folder = tmp_path / "fgnet"
    folder.mkdir()
    for number, photo in enumerate(sorted((toy / "images").iterdir())[:3]):
        (folder / f"00{number}A2{number}.JPG").write_bytes(photo.read_bytes())
    (folder / "003A44.JPG").write_bytes((folder / "000A20.JPG").read_bytes())
    report = audit(folder, out=tmp_path / "suspicious.csv")
    assert report.source == "fgnet"
    assert problems(report.findings) == {
        "duplicate_age": ["000A20.JPG", "003A44.JPG"],
        "duplicate_subject": ["000A20.JPG", "003A44.JPG"],
    }
    assert report.findings["detail"][0] == "identical to 003A44.JPG, age 44"


def test_what_cannot_be_audited_is_an_error_with_a_hint(tmp_path: Path, toy: Path) -> None:
    with pytest.raises(MissingError) as missing:
        audit(tmp_path / "nowhere", out=tmp_path / "suspicious.csv")
    assert missing.value.hint
    with pytest.raises(InputError, match="--workers 0"):
        audit(toy, out=tmp_path / "suspicious.csv", workers=0)
    assert not (tmp_path / "suspicious.csv").exists()


@pytest.mark.slow
def test_what_the_audit_finds_is_left_out_of_training(cli: Cli, toy: Path, tmp_path: Path) -> None:
    shutil.copytree(toy, tmp_path / "data")
    table = (tmp_path / "data/labels.csv").read_text().splitlines()
    path, _, *rest = table[1].split(",")
    table[1] = ",".join([path, "140", *rest])
    (tmp_path / "data/labels.csv").write_text("\n".join(table) + "\n")
    small = ("--backbone", "timm:test_efficientnet", "--weights", "none", "--freeze", "--set", "data.size=64")
    faces = ("--data", tmp_path / "data", "--out", tmp_path / "run")
    train = ("train", *faces, *small, "--iterations", "20", "--batch-size", "16")
    refused = invoke(*train)
    assert refused.exit_code == 2
    assert "age 140 is outside" in refused.stderr
    assert "agecli audit" in refused.stderr
    done = cli("audit", "data", "--workers", 2)
    assert done.returncode == 1, done.stderr
    assert read_csv(tmp_path / "suspicious.csv")[0]["problem"] == "age_impossible"
    counted = {row["what"]: row["count"] for row in map(json.loads, done.stdout.splitlines()) if not row["group"]}
    assert counted["photos"] == 120
    done = cli(*train, "--exclude", tmp_path / "suspicious.csv")
    assert done.returncode == 0, done.stderr
    used = {row["path"] for row in read_csv(tmp_path / "run/splits.csv")}
    assert len(used) == 119
    again = invoke("train", "--resume", "--out", tmp_path / "run", "--exclude", tmp_path / "suspicious.csv")
    assert again.exit_code == 0, again.stderr
    assert invoke("evaluate", tmp_path / "run").exit_code == 0
