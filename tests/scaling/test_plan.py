"""Plans: the same for the same inputs and options, refused for others, and made by one of many processes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agecli.core.errors import InputError, MissingError
from agecli.scaling.plan import Plan, Request, make_plan, read_plan
from agecli.scaling.run_files import INPUTS, NAME

REQUEST = Request("predict", {"model": "abc", "largest": False}, ["photos"], "/data", shards=3)


def plan_of(folder: Path, names: list[str], request: Request = REQUEST, check: bool = True) -> Plan:
    return make_plan(folder, request, lambda: names, check)


@given(
    names=st.lists(st.text(max_size=8)),
    shards=st.integers(1, 12),
    size=st.none() | st.integers(1, 12),
)
def test_shards_are_the_inputs_in_order(
    tmp_path_factory: pytest.TempPathFactory, names: list[str], shards: int, size: int | None
) -> None:
    folder = tmp_path_factory.mktemp("run")
    request = replace(REQUEST, shards=None if size else shards, size=size)
    plan = plan_of(folder, names, request)
    parts = [list(plan.entries(folder, number)) for number in range(plan.shards)]
    assert list(chain(*parts)) == names
    assert [len(part) for part in parts] == [plan.size(number) for number in range(plan.shards)]
    assert plan.shards == (max(1, -(-len(names) // size)) if size else shards)
    if size:
        assert all(len(part) == size for part in parts[:-1])
    else:
        assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert plan_of(folder, names, request) == read_plan(folder) == plan


def test_names_that_are_not_utf8_and_names_with_line_breaks_are_kept(tmp_path: Path) -> None:
    names = ["a\nb.jpg", "\udcff.jpg", "ä.jpg", ""]
    assert list(plan_of(tmp_path, names, replace(REQUEST, shards=1)).entries(tmp_path, 0)) == names


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        (replace(REQUEST, options={"model": "abc", "largest": True}), "--largest was False and is True"),
        (replace(REQUEST, options={"model": "xyz", "largest": False}), "--model was 'abc' and is 'xyz'"),
        (replace(REQUEST, options={"model": "abc", "largest": False, "over": 18}), "--over was None and is 18"),
        (replace(REQUEST, command="preprocess"), "it is of `predict`"),
        (replace(REQUEST, arguments=["other"]), "it has other inputs"),
        (replace(REQUEST, base="/elsewhere"), "relative to /data, not to /elsewhere"),
        (replace(REQUEST, shards=4), "it has 3 shards, not 4"),
        (replace(REQUEST, shards=None, size=5), "shards of up to 1 inputs, not 5"),
    ],
)
def test_another_run_is_refused_and_the_difference_is_named(tmp_path: Path, request_: Request, says: str) -> None:
    plan_of(tmp_path, ["a", "b", "c"])
    before = (tmp_path / NAME).read_bytes()
    with pytest.raises(InputError, match=says):
        plan_of(tmp_path, ["a", "b", "c"], request_)
    assert (tmp_path / NAME).read_bytes() == before


def test_the_number_of_shards_need_not_be_repeated(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, ["a", "b", "c"])
    assert plan_of(tmp_path, ["a", "b", "c"], replace(REQUEST, shards=None)) == plan


def test_inputs_that_changed_are_found_and_tasks_of_an_array_do_not_list_them(tmp_path: Path) -> None:
    plan_of(tmp_path, ["a", "b", "c"])
    with pytest.raises(InputError, match="added, removed or renamed"):
        plan_of(tmp_path, ["a", "b"])

    def listed() -> Iterator[str]:
        raise AssertionError

    assert make_plan(tmp_path, REQUEST, listed, check_inputs=False).inputs == 3


def test_files_of_others_are_refused(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match=r"has no plan\.json"):
        read_plan(tmp_path)
    (tmp_path / "part-00000.jsonl").write_text("mine")
    with pytest.raises(InputError, match="belongs to no plan"):
        plan_of(tmp_path, ["a"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["part-00000.jsonl"]
    for text in ("", "[]", "{}", '{"schema": 9}', json.dumps({"plan": "to buy bread"})):
        (tmp_path / NAME).write_text(text)
        with pytest.raises(InputError, match="no plan of this version"):
            plan_of(tmp_path, ["a"])
        assert (tmp_path / NAME).read_text() == text


def test_a_damaged_list_is_an_error(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, ["a", "b", "c"])
    (tmp_path / INPUTS).write_text('"a"\n"')
    with pytest.raises(InputError, match="is damaged"):
        [list(plan.entries(tmp_path, number)) for number in range(3)]


@pytest.mark.parametrize("wrong", [{"shards": 0}, {"size": 0}, {"shards": 2, "size": 2}, {"shards": 10**9}])
def test_numbers_that_cannot_be_used_are_errors(wrong: dict[str, int]) -> None:
    with pytest.raises(InputError):
        replace(REQUEST, **{"shards": None, **wrong})  # type: ignore[arg-type]
