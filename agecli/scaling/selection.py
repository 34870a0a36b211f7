"""Which shards a process does: `--shard 42/1000`, `--shard env` in a job array, and the way array expressions are written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from agecli.core.errors import InputError

MOST_TASKS = 1000  # SLURM's MaxArraySize is 1001 by default; with more shards, each task does several
# the variables of job arrays: the number of a task, and where known the first and last number
ARRAYS = {
    "SLURM": ("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_MAX", "SLURM_ARRAY_TASK_COUNT"),
    "PBS": ("PBS_ARRAY_INDEX",),
    "Torque": ("PBS_ARRAYID",),
    "SGE": ("SGE_TASK_ID", "SGE_TASK_FIRST", "SGE_TASK_LAST"),
    "Kubernetes": ("JOB_COMPLETION_INDEX",),
}


def shards_in_choice(choice: str | None) -> int | None:
    """The number of shards that a choice names: 1000 for `42/1000`; None for `env` and None."""
    match = re.fullmatch(r"\d+/(\d+)", choice or "")
    return int(match[1]) if match else None


def select(choice: str | None, shards: int, environment: Mapping[str, str]) -> list[int]:
    """The numbers of the shards that a process does.

    choice: None for all; `I/N` for every N-th shard from shard I on, which is shard I alone if there are N; `env` for the
        number of the task in a job array. Tasks 0 to N - 1 of SLURM, and 1 to N of SGE, do every N-th shard as `I/N` does;
        in other arrays, as in one that does missing shards only, task I does shard I.
    shards: of the plan.   environment: variables.

    Raises InputError for any other text, a number out of range, or `env` outside of a job array.

    >>> select("1/3", 7, {})
    [1, 4]
    """
    if choice is None:
        return list(range(shards))
    if choice == "env":
        number, step = _from_environment(shards, environment)
    else:
        match = re.fullmatch(r"(\d+)/(\d+)", choice)
        if not match:
            raise InputError(f"--shard {choice} can't be read", hint="write --shard 42/1000, or --shard env")
        number, step = int(match[1]), int(match[2])
        if step > shards:
            raise InputError(f"--shard {choice}: the plan has {shards} shards", hint=f"write --shard {number}/{shards}")
    if not 0 <= number < min(step, shards):
        raise InputError(
            f"--shard {choice}: there is no shard {number}", hint=f"shards are numbered 0 to {min(step, shards) - 1}"
        )
    return list(range(number, shards, step))


def _from_environment(shards: int, environment: Mapping[str, str]) -> tuple[int, int]:
    """The first shard of this task, and the step to the next one, which is `shards` if there is none."""
    for system, (name, *more) in ARRAYS.items():
        value = environment.get(name, "")
        if not value or value == "undefined":  # SGE, outside of an array
            continue
        try:
            number, known = int(value), [int(environment[other]) for other in more if other in environment]
        except ValueError:
            raise InputError(f"{name} is `{value}`, not a number", hint="write --shard 42/1000") from None
        if system == "SGE":  # whose tasks are numbered from 1
            first, last = known if len(known) == 2 else (0, 0)
            return number - 1, last if first == 1 and last < shards else shards
        if system == "SLURM" and len(known) == 3 and known[0] == 0 and known[1] + 1 == known[2] < shards:
            return number, known[2]
        return number, shards
    names = ", ".join(names[0] for names in ARRAYS.values())
    raise InputError(f"--shard env: none of {names} is set", hint="run it in a job array, or write --shard 42/1000")


def array_expression(numbers: Iterable[int]) -> str:
    """Numbers, which increase, as job arrays take them: ranges where there are any.

    >>> array_expression([3, 17, 40, 41, 42, 43, 44])
    '3,17,40-44'
    """
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def array_of_missing(missing: Sequence[int]) -> str:
    """The options of job arrays that do missing shards: of SLURM and, in brackets, of SGE.

    missing: at least one shard, in rising order. SLURM has the shards themselves. SGE counts from 1 and takes one range, in
    which shards that are done are skipped. With numbers of MOST_TASKS and more, which SLURM refuses, it is an array of all
    tasks, each of which does every MOST_TASKS-th shard that is not done.

    >>> array_of_missing([2, 3, 6])
    '--array=2-3,6 (SGE: -t 3-7)'
    """
    if missing[-1] >= MOST_TASKS:
        return f"--array=0-{MOST_TASKS - 1} (SGE: -t 1-{MOST_TASKS})"
    return f"--array={array_expression(missing)} (SGE: -t {missing[0] + 1}-{missing[-1] + 1})"
