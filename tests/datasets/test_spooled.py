"""Lists in files: the same as in memory, whatever the names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agecli.core.journal import JournalFile
from agecli.datasets.spooled import Computed, ResultIndex, SpooledNames, SpooledRows

NAMES = st.lists(st.text(st.characters(min_codepoint=1, max_codepoint=0xD7FF), min_size=1))


@given(names=NAMES, start=st.integers(0, 5), step=st.integers(1, 4))
def test_spooled_names_are_a_sequence(names: list[str], start: int, step: int) -> None:
    spooled = SpooledNames(names)
    assert (list(spooled), len(spooled), bool(spooled)) == (names, len(names), bool(names))
    assert list(spooled) == names  # again
    assert spooled[start::step] == names[start::step]
    assert [spooled[place] for place in range(len(names))] == names
    with pytest.raises(IndexError):
        spooled[len(names)]


def test_many_names_that_are_not_utf8_are_kept() -> None:
    names = [f"{os.fsdecode(bytes([0xE9]))}{number}\n.jpg" for number in range(20_000)]
    assert list(SpooledNames(names)) == names


@given(rows=st.lists(st.tuples(st.text(), st.tuples(st.text(), st.text()))))
def test_spooled_rows_are_a_sorted_dictionary_whose_last_rows_count(rows: list[tuple[str, tuple[str, str]]]) -> None:
    spooled, expected = SpooledRows(rows), dict(rows)
    assert list(spooled) == sorted(expected)
    assert (dict(spooled), len(spooled)) == (expected, len(expected))
    assert "\udcff?" not in spooled


def test_spooled_rows_keep_names_that_are_not_utf8() -> None:
    names = ["b\udcff.jpg", "a\udce9.jpg", "a\ufffd.jpg", "é.jpg"]
    assert list(SpooledRows((name, ("30",)) for name in names)) == sorted(names)


def test_computed_values_leave_out_names_without_one() -> None:
    lengths = Computed(["a", "bb", ""], lambda name: len(name) or None)
    assert dict(lengths) == {"a": 1, "bb": 2}
    assert (len(lengths), "" in lengths, lengths.get("")) == (2, False, None)


def test_the_last_result_of_a_source_counts(tmp_path: Path) -> None:
    with JournalFile(tmp_path / "journal", {"x": 1}, resume=False) as journal:
        assert list(ResultIndex(journal).find_all(["a"])) == [None]
        for number in range(100):
            journal.append({"source": f"{number % 40}\udce9", "number": number})
        index = ResultIndex(journal)
        found = list(index.find_all([f"{number}\udce9" for number in range(40)]))
        assert [entry and entry["number"] for entry in found] == [*range(80, 100), *range(60, 80)]
        assert list(index.find_all(["none"])) == [None]
