"""Metrics of all faces and of groups of them: by age, sex, race, pairs of these, photo conditions, and interval width."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from agecli.core.ages import Floats, decade_name
from agecli.scoring import bootstrap
from agecli.scoring.age_checks import check_names, error_rates
from agecli.scoring.metrics import METRIC_COLUMNS, Predictions, measure, pick, tidy, within
from agecli.scoring.rates import SMALL as SMALL
from agecli.scoring.rates import measure_rates, people_known, rate_columns

MIN_PEOPLE = 5  # fewer have no confidence interval of the MAE: resampling one person shows nothing
NARROWEST = tuple(range(10, 100, 10))  # shares of the faces with the narrowest intervals, in %: risk-coverage
RATES = ("cs5", "coverage")  # rates that have counts and a 95 % CI
LIMITS = ("mae_low", "mae_high", *(name for name in rate_columns(RATES) if name not in RATES))
GROUP_COLUMNS = ("by", "group", "subjects", *METRIC_COLUMNS, *LIMITS, "small", "over")
KINDS = ("decade", "sex", "race")
YEARS = range(31)  # single years of age that are groups of their own, for age checks
FACE_SIZES = (0, 32, 64, 128)  # pixels between the eyes: the first of each group
Group = tuple[str, str, NDArray[np.int64]]  # what faces are grouped by, its name, indices of its faces, ascending
MetricRow = dict[str, Any]  # a row of metrics.csv: `columns(challenge)`, None where a value is not known


def columns(challenge: Sequence[float] = ()) -> tuple[str, ...]:
    """The columns of metrics.csv: `GROUP_COLUMNS`, then each error rate of the age checks with counts and 95 % CI."""
    return (*GROUP_COLUMNS, *rate_columns(check_names(challenge)))


def breakdown(predictions: Predictions, challenge: Sequence[float] = ()) -> list[MetricRow]:
    """The rows of metrics.csv: one for all faces, then one for each group.

    MAE, CS@5, coverage and error rates have a 95 % CI over subjects (`over`: people), or over photos if subjects are not
    known. A rate is small if fewer than SMALL people are in its denominator, and a group if it has fewer.

    challenge: ages in years of age checks, see `age_checks.error_rates`
    Raises InputError if there are no predictions.
    Example: `breakdown(predictions)[0]["mae"]`
    """
    return _rows(predictions, groups(predictions), challenge)


def condition_rows(predictions: Predictions, challenge: Sequence[float] = ()) -> list[MetricRow]:
    """The rows of conditions.csv: as of `breakdown`, for groups by face size and sharpness, where they are known."""
    return _rows(predictions, condition_groups(predictions), challenge)


def _rows(predictions: Predictions, some_groups: Iterable[Group], challenge: Sequence[float]) -> list[MetricRow]:
    """A row of metrics for each group."""
    everyone = np.ones(len(predictions), dtype=bool)
    rates = {"cs5": (within(predictions, 5), everyone), "coverage": (predictions.covered, everyone)}
    rates |= error_rates(predictions, challenge)
    hits = np.stack([hit for hit, _ in rates.values()], axis=1)  # (n, m)
    among = np.stack([counted for _, counted in rates.values()], axis=1)  # (n, m)
    people, known = bootstrap.subject_ids(predictions.samples), people_known(predictions.samples)
    rows = []
    for by, group, faces in some_groups:
        some = pick(predictions, faces)
        subjects = len({sample.subject for sample in some.samples if sample.subject})
        row: MetricRow = {"by": by, "group": group, "subjects": subjects or None, **measure(some).row()}
        row["small"] = int(len(np.unique(people[faces])) < SMALL)
        row["over"] = "people" if known else "photos"
        row["mae_low"], row["mae_high"] = mean_interval(np.abs(some.error), people[faces])
        for name, rate in zip(rates, measure_rates(hits[faces], among[faces], people[faces], known), strict=True):
            row |= rate.row(name)
        rows.append(row)
    return rows


def groups(predictions: Predictions) -> Iterator[Group]:
    """Each group of faces. Faces of unknown sex or race are in no such group; the last have the narrowest intervals."""
    yield "all", "all", np.arange(len(predictions))
    labels = _labels(predictions)
    for kinds in (*combinations(KINDS, 1), *combinations(KINDS, 2)):
        for names, faces in labels.groupby(list(kinds), observed=True):
            yield " x ".join(kinds), " ".join(map(str, names)), faces.index.to_numpy()
    year = np.floor(predictions.age)
    for y in YEARS:
        if (year == y).any():
            yield "year", str(y), np.flatnonzero(year == y)
    order = np.argsort(predictions.high - predictions.low, kind="stable")
    for share in NARROWEST:
        if count := round(share / 100 * len(predictions)):
            yield "certainty", f"{share} % with the narrowest intervals", np.sort(order[:count])


def condition_groups(predictions: Predictions) -> Iterator[Group]:
    """Groups by face size and sharpness, of the faces whose `Predictions.conditions` has them."""
    sizes, sharpness = (predictions.conditions.get(name) for name in ("face size", "sharpness"))
    for by, name, faces in (*_face_sizes(sizes), *_quarters(sharpness)):
        if faces.any():
            yield by, name, np.flatnonzero(faces)


def _face_sizes(pixels: Floats | None) -> Iterator[tuple[str, str, NDArray[np.bool_]]]:
    """Groups by the distance between the eyes in the original photo.  pixels: (n,), NaN if not known."""
    if pixels is None:
        return
    for start, end in zip(FACE_SIZES, (*FACE_SIZES[1:], None), strict=True):
        name = f"{start} px or more" if end is None else f"{start} to {end - 1} px" if start else f"below {end} px"
        yield "face size", name, (pixels >= start) & (pixels < (end or np.inf))


def _quarters(values: Floats | None) -> Iterator[tuple[str, str, NDArray[np.bool_]]]:
    """Four groups of equal size by sharpness, the blurriest first.  values: (n,), NaN if not known."""
    if values is None or np.isfinite(values).sum() < 4:
        return
    place = np.full(len(values), -1)
    known = np.flatnonzero(np.isfinite(values))
    place[known[np.argsort(values[known], kind="stable")]] = np.arange(len(known)) * 4 // len(known)
    for number, name in enumerate(("blurriest quarter", "second quarter", "third quarter", "sharpest quarter")):
        yield "sharpness", name, place == number


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


def mean_interval(values: Floats, people: NDArray[np.int64]) -> tuple[Any, Any]:
    """The 95 % CI of a mean by bootstrap over people, rounded; (None, None) for fewer than MIN_PEOPLE of them.

    values, people: (n,)
    """
    _, member = np.unique(people, return_inverse=True)
    if member.max() + 1 < MIN_PEOPLE:
        return None, None
    draws = bootstrap.resampled_means(values[:, None], np.ones((len(values), 1)), member)
    low, high = bootstrap.percentile_interval(draws)
    return tidy(float(low[0])), tidy(float(high[0]))
