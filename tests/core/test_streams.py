"""Rows on streams: read back as they were, whatever their cells hold."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agecli.core.cells import defused
from agecli.core.files import read_csv, write_csv
from agecli.core.streams import stream_csv, stream_json

CELLS = st.one_of(
    st.text(st.characters(exclude_characters="\0")), st.sampled_from(["a\rb", "\r", 'a"b', "a\nb", "a\tb"])
)


@given(rows=st.lists(st.tuples(CELLS, CELLS)), delimiter=st.sampled_from(",\t"))
def test_csv_gives_back_every_cell(rows: list[tuple[str, str]], delimiter: str) -> None:
    stream = io.StringIO(newline="")
    stream_csv([{"a": a, "b": b} for a, b in rows], ("a", "b"), stream, delimiter)
    stream.seek(0)
    assert list(csv.reader(stream, delimiter=delimiter)) == [["a", "b"], *map(list, rows)]


def test_files_give_back_names_with_line_breaks(tmp_path: Path) -> None:
    write_csv(tmp_path / "a.csv", [{"path": "a\rb\n.jpg", "age": None}], ("path", "age"))
    assert read_csv(tmp_path / "a.csv") == [{"path": "a\rb\n.jpg", "age": ""}]


@given(st.lists(st.dictionaries(st.sampled_from("ab"), st.integers() | st.none() | st.text())))
def test_a_json_array_is_valid_whatever_its_length(rows: list[dict[str, Any]]) -> None:
    stream = io.StringIO()
    stream_json(rows, ("a", "b"), stream)
    assert json.loads(stream.getvalue()) == [{name: row.get(name) for name in "ab"} for row in rows]


def test_each_element_is_written_at_once_and_a_broken_array_is_not_closed() -> None:
    stream = io.StringIO()
    seen = []

    def rows() -> Any:
        for number in range(2):
            seen.append(stream.getvalue())
            yield {"a": number}
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stream_json(rows(), "a", stream)
    assert seen == ["", '[\n{"a": 0}']
    with pytest.raises(ValueError, match="Expecting"):
        json.loads(stream.getvalue())


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "＝"])
def test_no_text_starts_like_a_formula_if_that_is_asked_for(start: str) -> None:
    stream = io.StringIO(newline="")
    stream_csv([{"name": f'{start}HYPERLINK("x").jpg', "x": -3}], ("name", "x"), stream, safe=True)
    stream.seek(0)
    assert list(csv.reader(stream))[1] == [f'\'{start}HYPERLINK("x").jpg', "-3"]
    assert defused("photo=1.jpg") == "photo=1.jpg"
