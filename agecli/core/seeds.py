"""Several seeds of one experiment: `--seed 0,1,2`, and the mean and std of its numbers over them."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from agecli.core.errors import InputError


def parse_seeds(text: str | None) -> tuple[int, ...]:
    """The seeds of `--seed`: "0,1,2" -> (0, 1, 2). None gives ().

    Raises InputError if the text is no list of different whole numbers.
    """
    if text is None:
        return ()
    parts = [part.strip() for part in text.split(",")]
    if not all(part.removeprefix("-").isdigit() for part in parts) or len(set(parts)) < len(parts):
        raise InputError(f"`{text}` is no list of seeds", hint="write --seed 0, or --seed 0,1,2 for several runs")
    return tuple(map(int, parts))


def mean_and_std(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> tuple[dict[str, float], dict[str, float]]:
    """The mean and the sample standard deviation of each column over the rows that have it; no std of a single value.

    Example: `mean_and_std([{"mae": 2.0}, {"mae": 4.0}], ["mae"])` is ({"mae": 3.0}, {"mae": 1.414…})
    """
    values = {name: [float(row[name]) for row in rows if row.get(name) is not None] for name in names}
    means = {name: statistics.fmean(some) for name, some in values.items() if some}
    return means, {name: statistics.stdev(some) for name, some in values.items() if len(some) > 1}
