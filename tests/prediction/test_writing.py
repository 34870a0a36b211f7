"""Records as text: exact and complete for programs, a bar of each distribution for people."""

from __future__ import annotations

import csv
import io
import json

from agecli.core.records import RECORD_COLUMNS, Record
from agecli.prediction.writing import age_bar, write_records

RECORDS = [
    Record("a.jpg", face=0, age=34.25, std=7.5, low=20.0, high=50.5, coverage=0.9, box=(1, 2, 30, 40), score=0.918),
    Record("b, c.jpg", "unreadable", error="it is damaged"),
]


def written(file_format: str) -> str:
    stream = io.StringIO()
    write_records([record.row() for record in RECORDS], file_format, RECORD_COLUMNS, stream)
    return stream.getvalue()


def test_csv_has_the_box_in_four_columns_and_empty_cells_for_unknown_values() -> None:
    face, failure = csv.DictReader(written("csv").splitlines())
    assert [face[name] for name in ("box_x", "box_y", "box_w", "box_h")] == ["1", "2", "30", "40"]
    assert (face["age"], face["error"]) == ("34.25", "")
    assert (failure["source"], failure["box_x"], failure["age"]) == ("b, c.jpg", "", "")


def test_jsonl_has_every_field_in_order() -> None:
    rows = [json.loads(line) for line in written("jsonl").splitlines()]
    assert rows == [{**record.row(), "box": record.box and list(record.box)} for record in RECORDS]
    assert all(tuple(row) == RECORD_COLUMNS for row in rows)


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
    write_records([{**row, "distribution": [0.0] * 30 + [1.0]}], "table", (), stream)
    stream.seek(0)
    assert "@" in stream.read()
