"""Results for people are rounded and named; results for programs are exact and complete."""

from __future__ import annotations

import io
import json
from typing import Any

from agecli.reports.tables import age_bar, write_ages, write_rows

ROWS: list[dict[str, Any]] = [
    {"fold": 1, "mae": 2.6157, "cs5": 0.8667, "leakage": None},
    {"fold": "std", "mae": None, "cs5": None, "leakage": None},
]
COLUMNS = ("fold", "mae", "cs5", "leakage")


def written(form: str) -> str:
    stream = io.StringIO()
    write_rows(ROWS, COLUMNS, form, stream)
    return stream.getvalue()


def test_a_table_leaves_out_what_says_nothing() -> None:
    lines = written("table").splitlines()
    assert lines[0].split() == ["fold", "MAE", "CS@5"]
    assert [line.split() for line in lines[1:]] == [["1", "2.62", "86.7%"]]


def test_csv_and_jsonl_keep_every_row_and_digit() -> None:
    assert written("csv") == "fold,mae,cs5,leakage\n1,2.6157,0.8667,\nstd,,,\n"
    assert [json.loads(line) for line in written("jsonl").splitlines()] == ROWS


def test_the_bar_of_a_face_shows_where_its_years_are() -> None:
    one = [0.0] * 121
    one[30] = 1.0
    assert age_bar(one) == " " * 7 + "█" + " " * 17
    assert age_bar([0.0] * 120 + [1.0])[-1] == "█"  # all that is older is in the last cell
    flat = age_bar([1 / 100] * 100)
    assert flat == "█" * 25


def test_a_terminal_that_knows_no_blocks_gets_letters() -> None:
    row = {"status": "ok", "age": 30.0, "low": 20.0, "high": 40.0, "source": "a.jpg", "face": 0, "time": None}
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    write_ages([{**row, "distribution": [0.0] * 30 + [1.0]}], "table", (), stream)
    stream.seek(0)
    assert "@" in stream.read()
