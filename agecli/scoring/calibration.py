"""Intervals that keep their word: conformal calibration on faces that the model did not learn from.

How odd an age y is for a face is its distance from the median of the face's pmf, in units of that pmf's own half width.
The interval holds the ages that are no odder than 90 % of the calibration faces were: a promise that holds for new
faces of the same kind whatever the model (split conformal prediction). Three numbers multiply to that bound:

    bound(y, pmf) = scale * by_age[decade of y] * by_prediction[decade of the pmf's mean]

`by_age` lets ages that the model finds hard, such as the rare old ones, lie further out than common ones, so that they
are covered as often; `by_prediction` does so for what the user sees, the predicted age; `scale` brings all of it to 90 %.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agecli.core import ages
from agecli.core.ages import COVERAGE, AgeGrid, Floats

DECADES = 13  # 0-9, 10-19, …, 120 and above
LEAST_FACES = 30  # fewer say nothing of a 90 % interval
DECADE_FACES = 50  # a decade with fewer joins its neighbour towards the middle
SHRINKAGE = 100  # faces: how many of its own a decade of predictions needs to count as much as all others together
HALF_YEAR = 0.5  # added to half widths, so that a pmf on one year has one
STEP = 0.5  # years between the ages that an interval may end at


@dataclass(frozen=True)
class Calibration:
    faces: int  # that it was made from
    scale: float
    by_age: tuple[float, ...]  # (DECADES,)
    by_prediction: tuple[float, ...]  # (DECADES,)
    coverage: float = COVERAGE

    def header(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def read(cls, header: Mapping[str, Any] | None) -> Calibration | None:
        """From a checkpoint's header; None if it was not calibrated."""
        if not header:
            return None
        lists = {name: tuple(float(v) for v in header[name]) for name in ("by_age", "by_prediction")}
        return cls(int(header["faces"]), float(header["scale"]), **lists, coverage=float(header["coverage"]))


def calibrate(pmf: NDArray[Any], age: Floats, grid: AgeGrid, coverage: float = COVERAGE) -> Calibration | None:
    """From what a model says of faces that it did not learn from.   (n, A), (n,);  None if they are too few"""
    if len(age) < LEAST_FACES:
        return None
    odd = _oddness(pmf, age[:, None], grid)[:, 0]
    everyone = conformal_quantile(odd, coverage)
    by_age = _by_decade(odd, age, everyone, coverage, shrinkage=0)
    said = decade(ages.mean(pmf, grid))
    by_prediction = _by_decade(odd / by_age[decade(age)], ages.mean(pmf, grid), 1.0, coverage, SHRINKAGE)
    y, needed = _needed(pmf, grid, by_age, by_prediction[said])
    place = np.clip(np.round((age - grid.low) / STEP).astype(int), 0, len(y) - 1)
    scale = conformal_quantile(needed[np.arange(len(age)), place], coverage)
    return Calibration(len(age), scale, tuple(by_age.tolist()), tuple(by_prediction.tolist()), coverage)


def interval(pmf: NDArray[Any], grid: AgeGrid, calibration: Calibration | None) -> tuple[Floats, Floats]:
    """The calibrated interval of each pmf; its plain quantiles if there is no calibration.   (n, A) -> (n,), (n,)"""
    if calibration is None:
        return ages.interval(pmf, COVERAGE, grid)
    by_prediction = np.array(calibration.by_prediction)[decade(ages.mean(pmf, grid))]
    y, needed = _needed(pmf, grid, np.array(calibration.by_age), by_prediction)
    inside = needed <= calibration.scale
    return y[inside.argmax(-1)], y[len(y) - 1 - inside[:, ::-1].argmax(-1)]


def widening(pmf: NDArray[Any], age: Floats, grid: AgeGrid, calibration: Calibration) -> float:
    """The factor on the calibration's scale at which its intervals hold its share of these faces.   (n, A), (n,)

    For faces of a source that it was not calibrated on; above 1 if the intervals are too narrow there.

    Example: `widened(calibration, widening(pmf, age, grid, calibration))` has 90 % coverage on those faces.
    """
    by_prediction = np.array(calibration.by_prediction)[decade(ages.mean(pmf, grid))]
    y, needed = _needed(pmf, grid, np.array(calibration.by_age), by_prediction)
    place = np.clip(np.round((age - grid.low) / STEP).astype(int), 0, len(y) - 1)
    return conformal_quantile(needed[np.arange(len(age)), place], calibration.coverage) / calibration.scale


def widened(calibration: Calibration, factor: float) -> Calibration:
    """The calibration with a scale `factor` times as large."""
    return replace(calibration, scale=calibration.scale * factor)


def _needed(pmf: NDArray[Any], grid: AgeGrid, by_age: Floats, by_prediction: Floats) -> tuple[Floats, Floats]:
    """Ages in small steps, and the scale from which on each lies in a face's interval.   (m,), (n, m)

    An interval has no holes: an age is in it, too, if one further out is. So what is needed never falls on the way out.
    """
    y = np.arange(grid.low, grid.high + STEP, STEP)
    needed = _oddness(pmf, y[None], grid) / (by_age[decade(y)] * by_prediction[:, None])
    middle = np.abs(y - ages.median(pmf, grid)[:, None]).argmin(-1)[:, None]
    from_right = np.minimum.accumulate(needed[:, ::-1], axis=1)[:, ::-1]  # the least of this age and those above
    from_left = np.minimum.accumulate(needed, axis=1)
    needed = np.where(np.arange(len(y)) < middle, from_left, from_right)
    np.put_along_axis(needed, middle, 0.0, axis=1)  # never empty
    return y, needed


def decade(age: Floats) -> NDArray[np.int64]:
    return np.asarray(np.clip(age // 10, 0, DECADES - 1).astype(np.int64))


def conformal_quantile(scores: Floats, coverage: float) -> float:
    """The smallest bound that a new score, drawn like these n, does not exceed with at least this probability.

    That is the ceil((n + 1) * coverage)-th of them, not the plain quantile; the largest if n is too small for one.
    """
    rank = min(len(scores), math.ceil((len(scores) + 1) * coverage))
    return float(max(np.partition(scores, rank - 1)[rank - 1], 1e-6))


def _oddness(pmf: NDArray[Any], y: Floats, grid: AgeGrid) -> Floats:
    """How far ages lie from the median, in half widths of the central interval.   (n, A), (n or 1, m) -> (n, m)"""
    low, high = ages.interval(pmf, COVERAGE, grid)
    middle = ages.median(pmf, grid)
    below, above = (middle - low + HALF_YEAR)[:, None], (high - middle + HALF_YEAR)[:, None]
    distance = y - middle[:, None]
    return np.asarray(np.where(distance < 0, -distance / below, distance / above))


def _by_decade(scores: Floats, age: Floats, default: float, coverage: float, shrinkage: float) -> Floats:
    """The conformal quantile of each decade; near `default` where few faces speak against it.   (DECADES,)"""
    group = _join(np.bincount(decade(age), minlength=DECADES))
    member = group[decade(age)]
    factors = np.full(DECADES, default)
    for name in set(member.tolist()):
        some = scores[member == name]
        own = conformal_quantile(some, coverage)
        factors[group == name] = (len(some) * own + shrinkage * default) / (len(some) + shrinkage)
    return factors


def _join(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """A group for each decade: from both ends towards the middle, a decade joins the next until they have enough faces."""
    middle = int(np.searchsorted(np.cumsum(counts), counts.sum() / 2))
    group = np.full(len(counts), middle)
    for way in (range(middle), range(len(counts) - 1, middle, -1)):
        waiting: list[int] = []
        for name in way:
            waiting.append(name)
            if counts[waiting].sum() >= DECADE_FACES:
                group[waiting] = name
                waiting = []
        # those still waiting stay with the middle
    return group
