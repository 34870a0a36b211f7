"""Tables keep the bytes of names, and read what people write."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agecli.core.files import read_csv
from agecli.core.tables import any_bytes, read_table, text_table, write_table

NAME = os.fsdecode(b"caf\xe9.jpg")


def test_names_that_are_not_utf8_survive_reading_grouping_and_writing(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"path,age\ncaf\xe9.jpg,3\nb.jpg,4\n")
    with any_bytes():
        table = read_table(tmp_path / "a.csv")
        assert table.groupby("path").size().to_dict() == {NAME: 1, "b.jpg": 1}
        write_table(tmp_path / "b.csv", table)
    assert (tmp_path / "b.csv").read_bytes() == (tmp_path / "a.csv").read_bytes()


def test_cells_are_written_as_given(tmp_path: Path) -> None:
    write_table(tmp_path / "a.csv", text_table([("001", 1.0, 2, "", 'a "b", c')], "vwxyz"))
    assert (tmp_path / "a.csv").read_text() == 'v,w,x,y,z\n001,1.0,2,,"a ""b"", c"\n'


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbfPath, Age \na.jpg,3\n",
        b"path;age;\na.jpg;NA;\n",
        b"path\tage\r\na.jpg\tnan\r\n",
        b"path,age\na.jpg\n\nb.jpg,3,4,5\n",
        b'path,age\n"two\nlines, ""x""",007\n',
        b"path,age,age\na,1,2\n",
        b"path,age\n",
        b"",
    ],
)
def test_a_table_reads_what_the_csv_reader_reads(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    assert read_table(tmp_path / "a.csv").to_dict("records") == read_csv(tmp_path / "a.csv")
