"""Results for people are rounded and named; results for programs are exact and complete."""

from __future__ import annotations

import io
import json
from typing import Any

from agecli.reports.tables import spread_row, write_rows

ROWS: list[dict[str, Any]] = [
    {"fold": 1, "mae": 2.6157, "cs5": 0.8667, "leakage": None},
    {"fold": "std", "mae": None, "cs5": None, "leakage": None},
]
COLUMNS = ("fold", "mae", "cs5", "leakage")


def written(form: str) -> str:
    stream = io.StringIO()
    write_rows(ROWS, COLUMNS, form, stream)
    return stream.getvalue()


def test_a_table_leaves_out_empty_rows_and_columns() -> None:
    lines = written("table").splitlines()
    assert lines[0].split() == ["fold", "MAE", "CS@5"]
    assert [line.split() for line in lines[1:]] == [["1", "2.62", "86.7%"]]


def test_csv_and_jsonl_keep_every_row_and_digit() -> None:
    assert written("csv") == "fold,mae,cs5,leakage\n1,2.6157,0.8667,\nstd,,,\n"
    assert [json.loads(line) for line in written("jsonl").splitlines()] == ROWS


def test_a_spread_has_no_sign_and_no_number_of_faces() -> None:
    row = {"seed": "std", "images": 0, "mae": 0.51, "bias": 1.8, "leakage": 0.0}
    assert spread_row(row) == {"seed": "std", "images": None, "mae": 0.51, "bias": "1.80", "leakage": None}
