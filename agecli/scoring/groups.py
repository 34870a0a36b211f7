"""Metrics of all faces and of groups of them: decades, sex, race, their crossings, the most certain ones, age checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agecli.core.ages import Floats, decade_name, parse_age
from agecli.core.errors import InputError
from agecli.core.files import write_csv
from agecli.core.records import Sample
from agecli.scoring import bootstrap
from agecli.scoring.metrics import (
    METRIC_COLUMNS,
    PREDICTION_COLUMNS,
    Predictions,
    measure,
    pick,
    pool,
    tidy,
    within,
    write_predictions,
)

SMALL = 30  # people, or faces whose people are not known; a number from fewer is a hint at best
FEWEST = 5  # people; fewer give no confidence interval: resampling one person shows nothing
CERTAIN = tuple(range(10, 100, 10))  # shares of the most certain faces, in %: the risk-coverage curve
SURE = ("mae", "cs5", "coverage")  # metrics that get a 95 % confidence interval
LIMITS = tuple(f"{name}_{end}" for name in SURE for end in ("low", "high"))
GROUP_COLUMNS = ("by", "group", "subjects", *METRIC_COLUMNS, *LIMITS, "small")
Mask = NDArray[np.bool_]


KINDS: dict[str, Callable[[Sample], str]] = {
    "decade": lambda sample: decade_name(sample.age),
    "sex": lambda sample: sample.sex,
    "race": lambda sample: sample.race,
}


def groups(said: Predictions) -> Iterator[tuple[str, str, Mask]]:
    """What the faces are grouped by, the group's name, and its faces. Faces of unknown sex or race are in no such group."""
    yield "all", "all", np.ones(len(said), dtype=bool)
    known = {kind: np.array([name(sample) for sample in said.samples], dtype=object) for kind, name in KINDS.items()}
    for kind, names in known.items():
        for name in sorted(set(names) - {""}, key=_order):
            yield kind, name, np.asarray(names == name)
    for one, two in combinations(known, 2):
        pairs = sorted(
            {(a, b) for a, b in zip(known[one], known[two], strict=True) if a and b},
            key=lambda pair: (_order(pair[0]), _order(pair[1])),
        )
        for a, b in pairs:
            yield f"{one} x {two}", f"{a} {b}", np.asarray((known[one] == a) & (known[two] == b))
    rank = np.argsort(np.argsort(said.high - said.low, kind="stable"))
    for share in CERTAIN:
        if (mask := rank < round(share / 100 * len(said))).any():
            yield "certainty", f"{share} % with the narrowest intervals", mask


def _order(name: str) -> tuple[int, str]:
    start = name.partition("-")[0]
    return (int(start), "") if start.isdigit() else (1000, name)


def parse_challenge(text: str | None) -> tuple[float, ...]:
    """`18,25` as numbers."""
    if not text:
        return ()
    ages = [parse_age(part) for part in text.split(",")]
    if any(age is None or age <= 0 for age in ages):
        raise InputError(f"`{text}` is no list of ages", hint="write --challenge 18 or --challenge 18,25")
    return tuple(sorted({age for age in ages if age is not None}))


def checks(said: Predictions, challenge: Sequence[float]) -> dict[str, tuple[Mask, Mask]]:
    """Age checks: who is judged wrongly, among whom.

    Somebody is waved through who is predicted to be at least the challenge age, and entitled who is at least the legal
    age. A false positive is waved through though not entitled, among all who are not; a false negative is entitled but
    stopped. fpr_18 has both ages at 18; fpr_18_25 has the legal age 18 and the challenge age 25 ("Challenge 25").
    """
    found = {}
    for legal in challenge:
        entitled = said.age >= legal
        for asked in (age for age in challenge if age >= legal):
            name = f"{legal:g}" if asked == legal else f"{legal:g}_{asked:g}"
            passed = said.predicted >= asked
            found[f"fpr_{name}"] = (passed & ~entitled, ~entitled)
            found[f"fnr_{name}"] = (~passed & entitled, entitled)
    return found


def columns(challenge: Sequence[float] = ()) -> tuple[str, ...]:
    pairs = [(a, b) for a in challenge for b in challenge if b >= a]
    names = [f"{a:g}" if a == b else f"{a:g}_{b:g}" for a, b in pairs]
    return (
        *GROUP_COLUMNS,
        *(f"{rate}_{name}{end}" for name in names for rate in ("fpr", "fnr") for end in ("", "_low", "_high")),
    )


def breakdown(said: Predictions, challenge: Sequence[float] = ()) -> list[dict[str, Any]]:
    """A row for all faces and one for each group, each with 95 % confidence by bootstrap over subjects."""
    who = bootstrap.people(said.samples)
    values = {"mae": np.abs(said.error), "cs5": within(said, 5), "coverage": said.covered}
    rates = checks(said, challenge)
    rows = []
    for by, group, mask in groups(said):
        some, persons = pick(said, np.flatnonzero(mask).tolist()), np.unique(who[mask])
        subjects = len({sample.subject for sample in some.samples if sample.subject})
        row = {"by": by, "group": group, "subjects": subjects or None, **measure(some).row()}
        row["small"] = int(len(persons) < SMALL)
        measured = {name: (np.asarray(value, dtype=float), mask) for name, value in values.items()}
        measured |= {name: (wrong.astype(float), among & mask) for name, (wrong, among) in rates.items()}
        limits = _limits(list(measured.values()), who)
        for (name, (value, among)), (low, high) in zip(measured.items(), limits, strict=True):
            if name in rates:
                row[name] = tidy(float(value[among].mean())) if among.any() else None
            row[f"{name}_low"], row[f"{name}_high"] = low, high
        rows.append(row)
    return rows


def _limits(measured: Sequence[tuple[Floats, Mask]], who: NDArray[np.int64]) -> list[tuple[Any, Any]]:
    """The 95 % confidence of the mean of each column over its faces; None where too few people speak for one."""
    anyone = np.logical_or.reduce([among for _, among in measured])
    _, member = np.unique(who[anyone], return_inverse=True)
    top = np.stack([(value * among)[anyone] for value, among in measured], axis=1)
    bottom = np.stack([among[anyone].astype(float) for _, among in measured], axis=1)
    lows, highs = bootstrap.limits(bootstrap.resampled(top, bottom, member))
    found: list[tuple[Any, Any]] = []
    for (value, among), low, high in zip(measured, lows.tolist(), highs.tolist(), strict=True):
        persons = len(np.unique(who[among]))
        if persons < FEWEST:
            found.append((None, None))
        elif low == high and value[among].min() == value[among].max() and low in (0.0, 1.0):
            found.append(tuple(map(tidy, bootstrap.rate_limits(low, persons))))
        else:
            found.append((_number(low), _number(high)))
    return found


def _number(value: float) -> Any:
    return None if np.isnan(value) else tidy(float(value))


def write_results(
    folder: Path, said: Predictions, source: Mapping[str, str], challenge: Sequence[float] = ()
) -> list[dict[str, Any]]:
    """predictions.csv, distributions.npz and metrics.csv, the last one last: its presence means that all are whole."""
    write_predictions(folder, said, source)
    rows = breakdown(said, challenge)
    write_csv(folder / "metrics.csv", rows, columns(challenge))
    return rows


def write_pooled(
    folder: Path, parts: Mapping[str, Predictions], challenge: Sequence[float] = ()
) -> list[dict[str, Any]]:
    """The same for several folds taken together: predictions.csv says which fold each row is of."""
    rows = ({"fold": name, **row} for name, said in parts.items() for row in said.rows())
    write_csv(folder / "predictions.csv", rows, ("fold", *PREDICTION_COLUMNS))
    found = breakdown(pool(list(parts.values())), challenge)
    write_csv(folder / "metrics.csv", found, columns(challenge))
    return found
