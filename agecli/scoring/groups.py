"""Metrics of all faces and of groups of them: by decade of age, sex, race, pairs of these, and interval width."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from agecli.core.ages import Floats, decade_name
from agecli.scoring import bootstrap
from agecli.scoring.age_checks import Mask, check_names, error_rates
from agecli.scoring.metrics import METRIC_COLUMNS, Predictions, measure, pick, tidy, within

SMALL = 30  # people, or faces whose people are not known: metrics of smaller groups are marked as unreliable
MIN_PEOPLE = 5  # fewer have no confidence interval: resampling one person shows nothing
NARROWEST = tuple(range(10, 100, 10))  # shares of the faces with the narrowest intervals, in %: risk-coverage
INTERVAL_METRICS = ("mae", "cs5", "coverage")  # metrics that get a 95 % CI
LIMITS = tuple(f"{name}_{end}" for name in INTERVAL_METRICS for end in ("low", "high"))
GROUP_COLUMNS = ("by", "group", "subjects", *METRIC_COLUMNS, *LIMITS, "small")
KINDS = ("decade", "sex", "race")
MetricRow = dict[str, Any]  # a row of metrics.csv: `columns(challenge)`, None where a value is not known


def columns(challenge: Sequence[float] = ()) -> tuple[str, ...]:
    """The columns of metrics.csv: `GROUP_COLUMNS`, then each error rate of the age checks with its 95 % CI."""
    return (*GROUP_COLUMNS, *(f"{name}{end}" for name in check_names(challenge) for end in ("", "_low", "_high")))


def breakdown(predictions: Predictions, challenge: Sequence[float] = ()) -> list[MetricRow]:
    """The rows of metrics.csv: one for all faces, then one for each group.

    MAE, CS@5, coverage and error rates have a 95 % CI by bootstrap over subjects.

    challenge: ages in years of age checks, see `age_checks.error_rates`
    Raises InputError if there are no predictions.
    Example: `breakdown(predictions)[0]["mae"]`
    """
    everyone = np.ones(len(predictions), dtype=bool)
    values = {"mae": np.abs(predictions.error), "cs5": within(predictions, 5), "coverage": predictions.covered}
    scores = {name: (value, everyone) for name, value in values.items()}
    scores |= error_rates(predictions, challenge)
    averaged = np.stack([np.asarray(value, dtype=float) for value, _ in scores.values()], axis=1)  # (n, m)
    counted = np.stack([among for _, among in scores.values()], axis=1)  # (n, m)
    people = bootstrap.subject_ids(predictions.samples)
    rows = []
    for by, group, faces in groups(predictions):
        some = pick(predictions, faces)
        subjects = len({sample.subject for sample in some.samples if sample.subject})
        row: MetricRow = {"by": by, "group": group, "subjects": subjects or None, **measure(some).row()}
        row["small"] = int(len(np.unique(people[faces])) < SMALL)
        limits = _confidence(averaged[faces], counted[faces], people[faces])
        for place, (name, (low, high)) in enumerate(zip(scores, limits, strict=True)):
            if name not in values:
                among = averaged[faces, place][counted[faces, place]]
                row[name] = tidy(float(among.mean())) if len(among) else None
            row[f"{name}_low"], row[f"{name}_high"] = low, high
        rows.append(row)
    return rows


def groups(predictions: Predictions) -> Iterator[tuple[str, str, NDArray[np.int64]]]:
    """Each group: what the faces are grouped by, the name of the group, and the indices of its faces, ascending.

    Faces of unknown sex or race are in no such group. The last groups are the faces with the narrowest intervals.
    """
    yield "all", "all", np.arange(len(predictions))
    labels = _labels(predictions)
    for kinds in (*combinations(KINDS, 1), *combinations(KINDS, 2)):
        for names, faces in labels.groupby(list(kinds), observed=True):
            yield " x ".join(kinds), " ".join(map(str, names)), faces.index.to_numpy()
    order = np.argsort(predictions.high - predictions.low, kind="stable")
    for share in NARROWEST:
        if count := round(share / 100 * len(predictions)):
            yield "certainty", f"{share} % with the narrowest intervals", np.sort(order[:count])


def _labels(predictions: Predictions) -> pd.DataFrame:
    """The decade, sex and race of each face as ordered categories; unknown ones are NaN."""
    labels: dict[str, list[str | None]] = {
        "decade": [decade_name(sample.age) for sample in predictions.samples],
        "sex": [sample.sex or None for sample in predictions.samples],
        "race": [sample.race or None for sample in predictions.samples],
    }
    return pd.DataFrame(
        {
            kind: pd.Categorical(names, categories=sorted({name for name in names if name}, key=_order), ordered=True)
            for kind, names in labels.items()
        }
    )


def _order(name: str) -> tuple[int, str]:
    """Sorts decades by their first year, other names alphabetically after them."""
    start = name.partition("-")[0]
    return (int(start), "") if start.isdigit() else (1000, name)


def _confidence(values: Floats, counted: Mask, people: NDArray[np.int64]) -> list[tuple[Any, Any]]:
    """The 95 % CI of the mean of each column over its counted faces; (None, None) for fewer than MIN_PEOPLE people.

    values, counted: (n, m); people: (n,).   Returns m pairs.
    """
    _, member = np.unique(people, return_inverse=True)
    means = bootstrap.resampled_means(values * counted, counted.astype(float), member)
    lows, highs = bootstrap.percentile_interval(means)
    limits: list[tuple[Any, Any]] = []
    for place, (low, high) in enumerate(zip(lows.tolist(), highs.tolist(), strict=True)):
        among = values[counted[:, place], place]
        persons = len(np.unique(people[counted[:, place]]))
        if persons < MIN_PEOPLE:
            limits.append((None, None))
        elif among.min() == among.max() and low == high and low in (0.0, 1.0):  # no resample can vary it
            limits.append(tuple(map(tidy, bootstrap.wilson_interval(low, persons))))
        else:
            limits.append((_number(low), _number(high)))
    return limits


def _number(value: float) -> Any:
    return None if np.isnan(value) else tidy(float(value))
