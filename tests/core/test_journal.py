"""A journal survives a kill at any byte, and is not continued with other options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agecli.core.errors import InputError
from agecli.core.journal import JournalFile

HEADER = {"detector": "haar", "size": 64}
entries = st.lists(st.dictionaries(st.text(max_size=3), st.none() | st.integers() | st.text(max_size=3)), max_size=6)


@given(results=entries, cut=st.floats(0, 1))
def test_whole_lines_are_kept_and_a_cut_off_line_is_dropped(
    tmp_path_factory: pytest.TempPathFactory, results: list[dict[str, Any]], cut: float
) -> None:
    path = tmp_path_factory.mktemp("journal") / "sub/run.jsonl"
    journal = JournalFile(path, HEADER, resume=False)
    for result in results:
        journal.append(result)
        assert list(journal.entries())[-1] == result  # flushed at once
    journal.file.close()
    content = path.read_bytes()
    path.write_bytes(content[: round(cut * len(content))])
    resumed = JournalFile(path, HEADER, resume=True)
    kept = list(resumed.entries())
    assert kept == results[: len(kept)]
    for result in results[len(kept) :]:
        resumed.append(result)
    resumed.file.close()
    assert path.read_bytes() == content


def test_names_that_are_not_utf8_survive(tmp_path: Path) -> None:
    name = b"caf\xe9.jpg".decode("utf-8", "surrogateescape")
    with JournalFile(tmp_path / "a", HEADER, resume=False) as journal:
        journal.append({"source": name})
        assert list(journal.entries()) == [{"source": name}]


def test_results_are_neither_overwritten_nor_mixed(tmp_path: Path) -> None:
    with JournalFile(tmp_path / "a", HEADER, resume=False) as journal:
        journal.append({"x": 1})
    with pytest.raises(InputError, match="interrupted run") as caught:
        JournalFile(tmp_path / "a", HEADER, resume=False, start_over="use --out B")
    assert caught.value.hint == "resume it with --resume, or use --out B"
    with pytest.raises(InputError, match=r"other options: --size and the detector$"):
        JournalFile(
            tmp_path / "a", {"size": 1, "detector": "hog"}, resume=True, option_names={"detector": "the detector"}
        )


def test_a_file_that_is_no_journal_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("[1]\n[2]\n")
    for resume in (False, True):
        with pytest.raises(InputError, match="not a journal"):
            JournalFile(tmp_path / "a", HEADER, resume=resume)
    assert (tmp_path / "a").read_text() == "[1]\n[2]\n"


def test_a_journal_without_results_is_removed(tmp_path: Path) -> None:
    with JournalFile(tmp_path / "a", HEADER, resume=False):
        pass
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("notes", ["my notes", '{"my": "notes"}\n', "[]\n", "{" * 5000 + "\n"])
def test_notes_of_the_user_are_no_journal(tmp_path: Path, notes: str, resume: bool) -> None:
    (tmp_path / "a").write_text(notes)
    (tmp_path / "link").symlink_to(tmp_path / "a")
    (tmp_path / "dangling").symlink_to(tmp_path / "new")
    for name in ("a", "link", "dangling"):
        with pytest.raises(InputError, match="not a journal"):
            JournalFile(tmp_path / name, HEADER, resume=resume)
    assert (tmp_path / "a").read_text() == notes
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("line", ['{"age": NaN}', '{"age": 1}', "[" * 100_000])
def test_entries_are_checked_before_they_are_used(tmp_path: Path, line: str) -> None:
    with JournalFile(tmp_path / "a", HEADER, resume=False) as journal:
        journal.append({"source": "b.jpg"})
    with (tmp_path / "a").open("a") as file:
        file.write(f"{line}\n")
    resumed = JournalFile(tmp_path / "a", HEADER, resume=True, valid=lambda entry: "source" in entry)
    with pytest.raises(InputError, match="not a journal"):
        list(resumed.entries())
    resumed.file.close()
