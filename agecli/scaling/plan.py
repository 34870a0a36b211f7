"""The plan: which inputs and options a sharded run has, and where its shards begin. All processes of the run read it.

A folder of a run has `plan.json`, the list `plan.inputs.jsonl` (a JSON value for each input, in order), and a part for
each shard. Nothing is passed between processes but this folder.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

from agecli.core.errors import InputError, MissingError
from agecli.core.reading import shown
from agecli.scaling.places import Place, locked, names_in, write_text, write_whole
from agecli.scaling.run_files import INPUTS, NAME
from agecli.scaling.stored_values import is_count, is_list_of_text, is_text, parse_json

SCHEMA = 1
SHARD_SIZE = 10_000  # inputs, if neither the size nor the number of shards is given
MOST_SHARDS = 1_000_000
FOREVER = float("inf")  # seconds


@dataclass(frozen=True)
class Request:
    """The run that a command asks for.

    command: its name;   options: what the results depend on, by name, as JSON values;   arguments: the inputs as they were
    given;   base: the folder that relative names begin in;   shards, size: number of shards, or of inputs in each; None
    takes what the plan has, and SHARD_SIZE for a new one.
    """

    command: str
    options: Mapping[str, Any]
    arguments: Sequence[str]
    base: str
    shards: int | None = None
    size: int | None = None

    def __post_init__(self) -> None:
        if self.shards is not None and self.size is not None:
            raise InputError("--shards and --shard-size exclude each other", hint="choose one of them")
        for name, value in (("--shards", self.shards), ("--shard-size", self.size)):
            if value is not None and not 1 <= value <= MOST_SHARDS:
                raise InputError(f"{name} {value} is out of range", hint=f"use 1 to {MOST_SHARDS:,}")


@dataclass(frozen=True)
class Plan:
    """A plan as it is stored. `starts` has the number of the first input of each shard, and its offset in the list."""

    schema: int
    command: str
    options: dict[str, Any]
    arguments: list[str]
    base: str
    inputs: int
    sha256: str  # of the list
    starts: list[list[int]]  # [first input, offset in bytes] of each shard, and of the end

    @property
    def shards(self) -> int:
        """The number of shards; they are numbered from 0."""
        return len(self.starts) - 1

    @cached_property
    def key(self) -> str:
        """The hash of the plan, which parts carry, so that parts of two plans are never mixed."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:16]

    def size(self, number: int) -> int:
        """The number of inputs of a shard."""
        return self.starts[number + 1][0] - self.starts[number][0]

    def to_json(self) -> str:
        """The content of plan.json. Names that are not UTF-8 are escaped."""
        lines = (f" {json.dumps(name)}: {json.dumps(value)}" for name, value in asdict(self).items())
        return "{\n" + ",\n".join(lines) + "\n}\n"

    def entries(self, folder: Place, number: int) -> Iterator[Any]:
        """The inputs of a shard, as they were listed. Raises InputError if the list is not that of the plan."""
        offset, end = self.starts[number][1], self.starts[number + 1][1]
        with (folder / INPUTS).open("rb") as file:
            file.seek(offset)
            while offset < end:
                line = file.readline(end - offset)
                offset += len(line)
                try:
                    entry = parse_json(line.decode("ascii"))
                except ValueError:
                    raise damaged_list(folder) from None
                yield entry


def read_plan(folder: Place) -> Plan:
    """The plan of a folder. Raises MissingError if there is none, InputError if it is no plan of this version."""
    path = folder / NAME
    if not path.is_file():
        raise MissingError(f"{folder} has no {NAME}", hint="name the folder of --out")
    try:
        plan = Plan(**parse_json(path.read_text(encoding="utf-8")))
        known = _is_plan(plan)
    except (ValueError, TypeError):
        known = False
    if not known:
        raise InputError(f"{path} is no plan of this version of agecli", hint="name another folder with --out")
    return plan


def _is_plan(plan: Plan) -> bool:
    """Whether a plan, whose fields may hold any JSON values, is one of this version. Options are checked by their command."""
    return (
        (type(plan.schema), plan.schema) == (int, SCHEMA)
        and all(is_text(text) for text in (plan.command, plan.base, plan.sha256))
        and isinstance(plan.options, dict)
        and plan.options.get("format", "jsonl") in ("jsonl", "parquet")
        and is_list_of_text(plan.arguments)
        and is_count(plan.inputs)
        and _are_starts(plan.starts, plan.inputs)
    )


def _are_starts(starts: object, inputs: int) -> bool:
    """Whether a JSON value has the first input and the offset of each shard, and of the end."""
    if not isinstance(starts, list) or not 2 <= len(starts) <= MOST_SHARDS + 1:
        return False
    if not all(isinstance(start, list) and len(start) == 2 and all(map(is_count, start)) for start in starts):
        return False
    rising = all(a <= c and b <= d for (a, b), (c, d) in pairwise(starts))
    return rising and starts[0] == [0, 0] and bool(starts[-1][0] == inputs)


def damaged_plan(folder: Place, why: object) -> InputError:
    """The error for a plan whose options are not those of its command.   why: the reason"""
    return InputError(f"{folder / NAME} is damaged: {shown(why)}", hint=f"remove {folder}, and run again")


def damaged_list(folder: Place) -> InputError:
    """The error for a list of inputs that is not the one of the plan."""
    return InputError(f"{folder / INPUTS} is damaged", hint=f"remove {folder}, and run again")


def make_plan(
    folder: Place,
    request: Request,
    entries: Callable[[], Iterable[Any]],
    check_inputs: bool,
    check: Callable[[int], object] = lambda shards: None,
) -> Plan:
    """The plan of a folder: the one that is there, if it is for the same run, or a new one.

    entries: lists the inputs, as JSON values; memory does not grow with them.
    check_inputs: list them again for an existing plan, too. Many processes of one run need not do that.
    check: called with the number of shards of a new plan; if it raises, nothing is written.
    Of several processes that start at once, one makes the plan and the others wait for it.
    Raises InputError, which names the difference, if the folder has the plan of another run or files of another origin.
    """
    if not (folder / NAME).exists():
        with locked(folder / NAME, patience=FOREVER):
            if not (folder / NAME).exists():
                return _new_plan(folder, request, entries(), check)
    plan = read_plan(folder)
    _compare(folder, plan, request)
    if check_inputs:
        digest = hashlib.sha256()
        for line in _lines(entries()):
            digest.update(line)
        if digest.hexdigest() != plan.sha256:
            raise InputError(
                f"the inputs are not those of {folder / NAME}: files were added, removed or renamed",
                hint="restore them, or name another folder with --out",
            )
    return plan


def _new_plan(folder: Place, request: Request, entries: Iterable[Any], check: Callable[[int], object]) -> Plan:
    """List the inputs, divide them, and write the plan; the plan last, so that its list is always there."""
    if foreign := next((name for name in names_in(folder) if name.startswith("part-")), None):
        raise InputError(f"{folder / foreign} belongs to no plan", hint="name another folder with --out")
    digest, count = hashlib.sha256(), 0
    with write_whole(folder / INPUTS) as temporary:
        with temporary.open("wb") as file:
            for line in _lines(entries):
                file.write(line)
                digest.update(line)
                count += 1
        shards = request.shards or max(1, -(-count // (request.size or SHARD_SIZE)))
        check(shards)
        firsts = [number * count // shards for number in range(shards + 1)]
        if request.shards is None:
            size = request.size or SHARD_SIZE
            firsts = [min(number * size, count) for number in range(shards + 1)]
        starts = _offsets(temporary, firsts)
    plan = Plan(
        SCHEMA,
        request.command,
        dict(request.options),
        list(request.arguments),
        request.base,
        count,
        digest.hexdigest(),
        starts,
    )
    write_text(folder / NAME, plan.to_json())
    return plan


def _lines(entries: Iterable[Any]) -> Iterator[bytes]:
    """The lines of the list: ASCII, whatever the names."""
    return (json.dumps(entry).encode("ascii") + b"\n" for entry in entries)


def _offsets(path: Path, firsts: Sequence[int]) -> list[list[int]]:
    """Each number of `firsts`, which do not decrease, with the offset of that line."""
    starts: list[list[int]] = []
    line = offset = 0
    with path.open("rb") as file:
        for first in firsts:
            while line < first:
                offset += len(file.readline())
                line += 1
            starts.append([first, offset])
    return starts


def _compare(folder: Place, plan: Plan, request: Request) -> None:
    """Raise InputError if a plan is for another run than the one requested, with the first differences."""
    different = []
    if plan.command != request.command:
        different.append(f"it is of `{plan.command}`")
    options = {**plan.options, **request.options}
    different += [
        f"--{name.replace('_', '-')} was {plan.options.get(name)!r:.40} and is {request.options.get(name)!r:.40}"
        for name in options
        if plan.options.get(name) != request.options.get(name)
    ]
    relative = not all(os.path.isabs(argument) for argument in request.arguments)
    if plan.arguments != list(request.arguments):
        different.append("it has other inputs")
    elif relative and plan.base != request.base:
        different.append(f"its inputs are relative to {plan.base}, not to {request.base}")
    if request.shards not in (None, plan.shards):
        different.append(f"it has {plan.shards} shards, not {request.shards}")
    if request.size is not None and plan.shards != max(1, -(-plan.inputs // request.size)):
        different.append(f"it has {plan.shards} shards of up to {plan.size(0)} inputs, not {request.size}")
    if different:
        raise InputError(
            f"{folder / NAME} is the plan of another run: {'; '.join(different[:3])}",
            hint="use the same inputs and options, or name another folder with --out",
        )
