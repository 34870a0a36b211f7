"""Files appear whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from agecli.core.files import read_csv, remove_parts_of, write_csv, write_text, write_whole


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    write_text(tmp_path / "a.txt", "old")

    def fail() -> None:
        with write_whole(tmp_path / "a.txt") as part:
            part.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert (tmp_path / "a.txt").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_csv_keeps_names_that_are_not_utf8(tmp_path: Path) -> None:
    name = b"caf\xe9.jpg".decode("utf-8", "surrogateescape")
    write_csv(tmp_path / "sub/x.csv", [{"path": name, "age": 3}], ("path", "age"))
    assert read_csv(tmp_path / "sub/x.csv") == [{"path": name, "age": "3"}]


def test_parts_that_a_killed_process_left_of_a_file_are_removed_and_no_others(tmp_path: Path) -> None:
    for name in (
        ".a[1].csv.agecli-abcdefgh.part",
        ".a[1].csv.agecli-abcdefgh.part.mp4",
        ".a1.csv.agecli-abcdefgh.part",
        ".a[1].csv.part",
    ):
        (tmp_path / name).touch()
    remove_parts_of(tmp_path / "a[1].csv")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".a1.csv.agecli-abcdefgh.part", ".a[1].csv.part"]
