"""The state of a sharded run: shards that are done, running, missing or failed, and the time left."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agecli.core.errors import InputError
from agecli.core.locks import is_locked
from agecli.scaling.parts import LOCK, error_path, part_path, read_footers
from agecli.scaling.places import Place, modified, names_in, place
from agecli.scaling.plan import Plan, read_plan
from agecli.scaling.selection import array_of_missing

MOST_REASON = 4096  # bytes of the reason of a failure
RECENT = 3600.0  # seconds of finished shards from which the rate is taken


@dataclass(frozen=True)
class State:
    """What `agecli status` shows. Shards are numbers of a plan, from 0."""

    plan: Plan
    done: int  # shards
    running: tuple[int, ...]
    failed: tuple[tuple[int, str], ...]  # shards whose last attempt failed, or whose part is damaged, with the reason
    missing: tuple[int, ...]  # neither done nor running; the failed ones included
    inputs: int  # of the shards that are done
    inputs_failed: int  # inputs without a result, of these
    rate: float | None  # inputs per second of the last hour in which shards were finished

    @property
    def seconds_left(self) -> float | None:
        """The time left at this rate; None if it is not known."""
        return (self.plan.inputs - self.inputs) / self.rate if self.rate else None

    def rows(self) -> list[dict[str, Any]]:
        """The same as rows of a table with the columns `what` and `count`."""
        lines: list[tuple[str, Any]] = [
            ("shards", self.plan.shards),
            ("done", self.done),
            ("running", len(self.running)),
            ("missing", len(self.missing)),
            ("failed", len(self.failed)),
            ("inputs", self.plan.inputs),
            ("inputs done", self.inputs),
            ("inputs failed", self.inputs_failed),
        ]
        if self.rate:
            lines.append(("inputs per second", round(self.rate, 1)))
            lines.append(("seconds left", round(self.seconds_left or 0)))
        return [{"what": what, "count": count} for what, count in lines]


def status(folder: str | Path | Place) -> State:
    """The state of the run in a folder that `--out` named. It reads footers and locks, and no results.

    folder: a path or an address. Stores have no locks: shards that are running there are among the missing ones.

    Raises MissingError if there is no plan, InputError if it is not one of this version.

    Example: `agecli.status("ages").missing`
    """
    where = place(folder)
    plan = read_plan(where)
    locks = {match[1] for name in names_in(where) if (match := LOCK.fullmatch(name))}
    running, missing, times = list[int](), list[int](), list[tuple[float, int, float]]()
    broken: list[tuple[int, str]] = []
    done = inputs = failed = 0
    for number, footer in read_footers(where, plan, range(plan.shards)):
        path = part_path(where, plan, number)
        if footer is not None:
            done, inputs, failed = done + 1, inputs + footer.inputs, failed + footer.failed
            times.append((modified(path), footer.inputs, footer.seconds))
        elif isinstance(path, Path) and path.name in locks and is_locked(path):
            running.append(number)
        else:
            missing.append(number)
            if reason := _reason(where, plan, number):
                broken.append((number, reason))
    return State(plan, done, tuple(running), tuple(broken), tuple(missing), inputs, failed, _rate(times))


def _reason(folder: Place, plan: Plan, number: int) -> str:
    """Why a shard that is neither done nor running failed; empty if it was not tried."""
    note = error_path(folder, number)
    with suppress(OSError):
        if note.is_file():  # and no pipe, which would be waited for
            with note.open("rb") as file:
                return file.read(MOST_REASON).decode("utf-8", "replace").strip()
    return "its part is damaged" if part_path(folder, plan, number).exists() else ""


def _rate(times: Sequence[tuple[float, int, float]]) -> float | None:
    """Inputs per second, from the time at which each shard was finished, its inputs and its seconds."""
    if not times:
        return None
    last = max(end for end, _, _ in times)
    recent = [entry for entry in times if last - entry[0] <= RECENT]
    began = min(end - seconds for end, _, seconds in recent)
    return sum(count for _, count, _ in recent) / max(last - began, 0.01)


def check_complete(folder: Place, plan: Plan, command: str) -> None:
    """Raise InputError, with the array expression of the missing shards, unless all shards are done."""
    missing = [number for number, footer in read_footers(folder, plan, range(plan.shards)) if footer is None]
    if missing:
        raise InputError(
            f"{folder}: {len(missing)} of {plan.shards} shards are missing",
            hint=f"run `agecli {command}` again as before, or as a job array: {array_of_missing(missing)}",
        )
