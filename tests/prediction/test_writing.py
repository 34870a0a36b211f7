"""Records as text: exact and complete for programs, a bar of each distribution for people."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from agecli.core.errors import InputError
from agecli.core.records import OPTIONAL_COLUMNS, RECORD_COLUMNS, Record
from agecli.core.streams import destination
from agecli.prediction.writing import DELIMITERS, FORMATS, age_bar, check_destination, choose_format, write_records

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


ODD = ["caf\udce9.jpg", "a\rb\nc.jpg", "\x1b[2J.jpg", "=1+1.jpg", "[red]x[/red].jpg", "tab\t.jpg"]


def test_file_names_come_back_as_they_were_from_every_format_for_programs(tmp_path: Path) -> None:
    rows = [Record(name, "unreadable", error=f"{name} is damaged").row() for name in ODD]
    for file_format in ("csv", "tsv", "json", "jsonl", "parquet"):
        with destination(tmp_path / "out", sys.stdout) as stream:
            write_records(rows, file_format, RECORD_COLUMNS, stream)
        assert read_sources(tmp_path / "out", file_format) == ODD, file_format


def read_sources(path: Path, file_format: str) -> list[str]:
    if file_format == "parquet":
        table = pq.read_table(path).to_pylist()
        return [os.fsdecode(row["source_bytes"]) if row["source_bytes"] else row["source"] for row in table]
    with path.open(encoding="utf-8", errors="surrogateescape", newline="") as file:
        if file_format == "jsonl":
            return [json.loads(line)["source"] for line in file]
        if file_format == "json":
            return [row["source"] for row in json.load(file)]
        return [row["source"] for row in csv.DictReader(file, delimiter=DELIMITERS[file_format])]


def test_a_table_shows_a_line_for_each_record_whatever_its_name() -> None:
    stream = io.StringIO()
    rows = [Record(name, "unreadable", error=f"{name} is damaged").row() for name in ODD]
    write_records(rows, "table", RECORD_COLUMNS, stream)
    text = stream.getvalue()
    assert text.count("\n") == len(text.splitlines()) == 1 + len(ODD)
    assert "\x1b" not in text
    assert "[red]x[/red].jpg" in text


def test_parquet_has_the_values_and_types_of_the_records() -> None:
    stream = io.TextIOWrapper(io.BytesIO())
    record = replace(RECORDS[0], abstain=False, distribution=[0.25, 0.75])
    write_records([record.row(), RECORDS[1].row()], "parquet", (*RECORD_COLUMNS, *OPTIONAL_COLUMNS), stream)
    face, failure = pq.read_table(io.BytesIO(stream.buffer.getvalue())).to_pylist()
    assert {name: face[name] for name in ("schema", "face", "age", "box_h", "abstain", "distribution")} == {
        "schema": 1, "face": 0, "age": 34.25, "box_h": 40, "abstain": False, "distribution": [0.25, 0.75]
    }  # fmt: skip
    assert (failure["source"], failure["age"], failure["box_x"], failure["source_bytes"]) == (
        "b, c.jpg",
        None,
        None,
        None,
    )


def test_parquet_is_written_in_groups_also_into_a_pipe(tmp_path: Path) -> None:
    code = (
        "import sys; from agecli.prediction.writing import *; from agecli.core.records import *;"
        "rows = (Record(f'{n}.jpg').row() for n in range(10000)); write_records(rows, 'parquet', RECORD_COLUMNS, sys.stdout)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, timeout=60)
    file = pq.ParquetFile(io.BytesIO(done.stdout))
    assert (file.num_row_groups, file.metadata.num_rows) == (3, 10000)
    assert file.read().column("source")[9999].as_py() == "9999.jpg"


@pytest.mark.parametrize("name", FORMATS[1:])
def test_a_file_has_the_format_of_its_ending(name: str) -> None:
    assert choose_format(None, Path(f"ages.{name}")) == choose_format(name, Path(f"AGES.{name.upper()}")) == name
    assert (
        choose_format(name, Path("ages.txt")) == choose_format(name, Path("ages")) == choose_format(name, None) == name
    )


def test_no_ending_is_json_lines_and_so_is_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.xlsx")
    assert choose_format(None, Path("ages")) == choose_format(None, tmp_path / "pipe.xlsx") == "jsonl"


@pytest.mark.parametrize(
    ("wanted", "name", "says", "hint"),
    [
        (None, "a.xlsx", "a.xlsx: unknown ending `.xlsx`", ".csv, .tsv, .json, .jsonl, .parquet; with --format"),
        (None, "a.txt", "a.txt: unknown ending `.txt`", "--format csv"),
        ("csv", "a.parquet", "a.parquet ends as parquet, but --format is csv", "omit --format"),
        ("xml", "a.csv", "unknown format `xml`", "table, csv, tsv, json, jsonl, parquet"),
    ],
)
def test_an_ending_that_is_unknown_or_of_another_format_is_an_error(
    wanted: str | None, name: str, says: str, hint: str
) -> None:
    with pytest.raises(InputError, match=re.escape(says)) as error:
        choose_format(wanted, Path(name))
    assert hint in error.value.hint


def test_what_a_format_can_not_do_is_an_error() -> None:
    with pytest.raises(InputError, match="--safe-csv has no effect on json"):
        check_destination("json", None, safe_csv=True)
    with pytest.raises(InputError, match="parquet is a binary format"):
        check_destination("parquet", io.StringIO(), safe_csv=False)
    check_destination("tsv", None, safe_csv=True)


def test_parquet_without_its_extra_ends_with_3_and_the_line_to_type(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['pyarrow'] = None; sys.argv[1:] = ['predict', 'a.jpg', '-o', 'a.parquet'];"
        "from agecli.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, list(tmp_path.iterdir())) == (3, "", [])
    assert "--format parquet needs pyarrow, which is not installed\n hint: pip install 'agecli[parquet]'" in done.stderr
