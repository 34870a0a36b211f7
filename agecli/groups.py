"""Metrics of all faces and of groups of them: decades, sex, race, their crossings, the most certain ones, age checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agecli import bootstrap
from agecli.ages import Floats
from agecli.data.manifest import Sample
from agecli.errors import InputError
from agecli.files import write_csv
from agecli.metrics import METRIC_COLUMNS, Predictions, measure, pick, tidy, within, write_predictions

SMALL = 30  # faces; a number from fewer is a hint at best
CERTAIN = tuple(range(10, 100, 10))  # shares of the most certain faces, in %: the risk-coverage curve
SURE = ("mae", "cs5", "coverage")  # metrics that get a 95 % confidence interval
LIMITS = tuple(f"{name}_{end}" for name in SURE for end in ("low", "high"))
GROUP_COLUMNS = ("by", "group", "subjects", *METRIC_COLUMNS, *LIMITS, "small")
Mask = NDArray[np.bool_]


def decade_name(age: float) -> str:
    start = int(age // 10) * 10
    return f"{start}-{start + 9}"


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
    try:
        return tuple(sorted({float(part) for part in text.split(",")}))
    except ValueError:
        raise InputError(f"`{text}` is no list of ages", hint="write --challenge 18 or --challenge 18,25") from None


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
    found = list(groups(said))
    rates = checks(said, challenge)
    tops: list[Floats] = [np.abs(said.error), within(said, 5).astype(float), said.covered.astype(float)]
    bottoms: list[Floats] = [np.ones(len(said))] * len(SURE)
    tops += [wrong.astype(float) for wrong, _ in rates.values()]
    bottoms += [among.astype(float) for _, among in rates.values()]
    masks = np.stack([mask for _, _, mask in found], axis=1)  # (n, groups)
    top = np.hstack([masks * column[:, None] for column in tops])
    bottom = np.hstack([masks * column[:, None] for column in bottoms])
    who = bootstrap.people([sample.subject for sample in said.samples])
    low, high = (
        part.reshape(len(tops), len(found)) for part in bootstrap.limits(bootstrap.resampled(top, bottom, who))
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        value = (top.sum(0) / bottom.sum(0)).reshape(len(tops), len(found))
    rows = []
    for number, (by, group, mask) in enumerate(found):
        some = pick(said, np.flatnonzero(mask).tolist())
        subjects = len({sample.subject for sample in some.samples if sample.subject})
        row = {"by": by, "group": group, "subjects": subjects or None, **measure(some).row()}
        row["small"] = int(len(some) < SMALL)
        for place, name in enumerate((*SURE, *rates)):
            if name in rates:
                row[name] = _number(value[place, number])
            row[f"{name}_low"], row[f"{name}_high"] = _number(low[place, number]), _number(high[place, number])
        rows.append(row)
    return rows


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
