"""Which shards a task does: every shard by exactly one of the tasks of an array, for every batch system."""

from __future__ import annotations

import re
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agecli.core.errors import InputError
from agecli.scaling.selection import array_expression, array_of_missing, select, shards_in_choice


@given(shards=st.integers(1, 50), data=st.data())
def test_the_tasks_of_an_array_do_every_shard_once(shards: int, data: st.DataObject) -> None:
    tasks = data.draw(st.integers(1, shards))
    by_hand = [select(f"{task}/{tasks}", shards, {}) for task in range(tasks)]
    assert sorted(chain(*by_hand)) == list(range(shards))
    slurm = [
        select(
            "env",
            shards,
            {
                "SLURM_ARRAY_TASK_ID": str(task),
                "SLURM_ARRAY_TASK_MIN": "0",
                "SLURM_ARRAY_TASK_MAX": str(tasks - 1),
                "SLURM_ARRAY_TASK_COUNT": str(tasks),
            },
        )
        for task in range(tasks)
    ]
    sge = [
        select("env", shards, {"SGE_TASK_ID": str(task + 1), "SGE_TASK_FIRST": "1", "SGE_TASK_LAST": str(tasks)})
        for task in range(tasks)
    ]
    assert slurm == sge == by_hand


@pytest.mark.parametrize("name", ["SLURM_ARRAY_TASK_ID", "PBS_ARRAY_INDEX", "PBS_ARRAYID", "JOB_COMPLETION_INDEX"])
def test_a_task_without_known_neighbours_does_the_shard_of_its_number(name: str) -> None:
    assert select("env", 50, {name: "42"}) == [42]


def test_an_array_of_missing_shards_does_these() -> None:
    numbers = [3, 17, 40, 41, 42, 43, 44]
    assert array_expression(numbers) == "3,17,40-44"
    slurm = {"SLURM_ARRAY_TASK_MIN": "3", "SLURM_ARRAY_TASK_MAX": "44", "SLURM_ARRAY_TASK_COUNT": "7"}
    found = [select("env", 50, {"SLURM_ARRAY_TASK_ID": str(number), **slurm}) for number in numbers]
    assert found == [[number] for number in numbers]


def test_all_shards_without_a_choice() -> None:
    assert select(None, 3, {"SLURM_ARRAY_TASK_ID": "1"}) == [0, 1, 2]
    assert (shards_in_choice("42/1000"), shards_in_choice("env"), shards_in_choice(None)) == (1000, None, None)


@pytest.mark.parametrize(
    ("choice", "environment", "says"),
    [
        ("3", {}, "can't be read"),
        ("1/0", {}, "no shard 1"),
        ("3/3", {}, "no shard 3"),
        ("-1/3", {}, "can't be read"),
        ("0/8", {}, "the plan has 7 shards"),
        ("env", {}, "is set"),
        ("env", {"SGE_TASK_ID": "undefined"}, "is set"),
        ("env", {"PBS_ARRAY_INDEX": "one"}, "not a number"),
        ("env", {"PBS_ARRAY_INDEX": "7"}, "no shard 7"),
    ],
)
def test_a_choice_that_cannot_be_used_is_an_error(choice: str, environment: dict[str, str], says: str) -> None:
    with pytest.raises(InputError, match=says):
        select(choice, 7, environment)


@pytest.mark.parametrize(
    ("shards", "missing"), [(5, [2, 3]), (5, [0]), (5, [0, 4]), (7, [1, 3, 6]), (2000, [3]), (2000, [5, 1500, 1999])]
)
def test_the_printed_arrays_do_all_missing_shards_in_slurm_and_sge(shards: int, missing: list[int]) -> None:
    match = re.fullmatch(r"--array=(\S+) \(SGE: -t (\d+)-(\d+)\)", array_of_missing(missing))
    assert match
    ranges = [[int(end) for end in part.split("-")] for part in match[1].split(",")]
    tasks = [task for ends in ranges for task in range(ends[0], ends[-1] + 1)]
    assert max(tasks) <= 1000  # SLURM's MaxArraySize is 1001
    slurm = {"MIN": tasks[0], "MAX": tasks[-1], "COUNT": len(tasks)}
    names = {f"SLURM_ARRAY_TASK_{name}": str(value) for name, value in slurm.items()}
    done = [select("env", shards, {**names, "SLURM_ARRAY_TASK_ID": str(task)}) for task in tasks]
    assert {shard for shards in done for shard in shards} >= set(missing)
    first, last = int(match[2]), int(match[3])
    names = {"SGE_TASK_FIRST": str(first), "SGE_TASK_LAST": str(last)}
    done = [select("env", shards, {**names, "SGE_TASK_ID": str(task)}) for task in range(first, last + 1)]
    assert {shard for shards in done for shard in shards} >= set(missing)
