"""Split conformal calibration of prediction intervals, on faces that the model was not trained on.

The nonconformity score of an age y is its distance from the median of the face's pmf, in units of the half width of the
pmf's central interval on that side. The interval holds the ages whose score is at most a bound that 90 % of the
calibration faces kept. It then covers at least 90 % of new faces from the same distribution, whatever the model. The
bound depends on the age and on the prediction:

    bound(y, pmf) = scale * by_age[decade of y] * by_prediction[decade of the pmf's mean]

`by_age` allows larger scores at ages with larger errors, such as the rare old ones, so that coverage is similar at all
ages; `by_prediction` does the same for the predicted age, which is what a user sees; `scale` brings coverage to 90 %.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agecli.core import ages
from agecli.core.ages import COVERAGE, AgeGrid, Floats

DECADES = 13  # 0-9, 10-19, …, 120 and above
LEAST_FACES = 30  # fewer are too few for a 90 % quantile
DECADE_FACES = 50  # a decade with fewer is merged with its neighbour towards the median age
SHRINKAGE = 100  # faces: with this many, a decade's own quantile and the default have the same weight
HALF_YEAR = 0.5  # added to half widths, so that they are positive for a pmf on one year
STEP = 0.5  # years: resolution of the ends of an interval


@dataclass(frozen=True)
class Calibration:
    """The factors of the bound; stored in checkpoints."""

    faces: int  # number of calibration faces
    scale: float
    by_age: tuple[float, ...]  # (DECADES,)
    by_prediction: tuple[float, ...]  # (DECADES,)
    coverage: float = COVERAGE
    bias: tuple[
        float, ...
    ] = ()  # (DECADES,), years that `corrected` subtracts at the middle of each decade; () for none

    def header(self) -> dict[str, Any]:
        """The fields, for the header of a checkpoint; `read` is the inverse."""
        return asdict(self)

    @classmethod
    def read(cls, header: Mapping[str, Any] | None) -> Calibration | None:
        """The calibration in the header of a checkpoint; None if there is none."""
        if not header:
            return None
        lists = {name: tuple(float(v) for v in header[name]) for name in ("by_age", "by_prediction")}
        bias = tuple(float(v) for v in header.get("bias", ()))
        if len(bias) not in (0, DECADES) or not np.isfinite(bias).all():
            raise ValueError(f"a bias correction has {DECADES} finite numbers")
        return cls(int(header["faces"]), float(header["scale"]), **lists, coverage=float(header["coverage"]), bias=bias)


def calibrate(pmf: NDArray[Any], age: Floats, grid: AgeGrid, coverage: float = COVERAGE) -> Calibration | None:
    """Calibrate on predictions for n faces that the model was not trained on.

    pmf: (n, A); age: true ages, (n,), years
    Returns None if n is less than LEAST_FACES.
    Example: `calibrate(predictions.pmf, predictions.age, predictions.grid)`
    """
    if len(age) < LEAST_FACES:
        return None
    scores = _scores(pmf, age[:, None], grid)[:, 0]
    overall = conformal_quantile(scores, coverage)
    by_age = _by_decade(scores, age, overall, coverage, shrinkage=0)
    predicted = ages.mean(pmf, grid)
    by_prediction = _by_decade(scores / by_age[decade(age)], predicted, 1.0, coverage, SHRINKAGE)
    y, needed = _needed_scale(pmf, grid, by_age, by_prediction[decade(predicted)])
    place = np.clip(np.round((age - grid.low) / STEP).astype(int), 0, len(y) - 1)
    scale = conformal_quantile(needed[np.arange(len(age)), place], coverage)
    return Calibration(len(age), scale, tuple(by_age.tolist()), tuple(by_prediction.tolist()), coverage)


def interval(pmf: NDArray[Any], grid: AgeGrid, calibration: Calibration | None) -> tuple[Floats, Floats]:
    """The conformal interval of each pmf, or its central interval (uncalibrated quantiles) without a calibration.

    pmf: (n, A).   Returns the lower and upper ends, (n,) each, years.
    """
    if calibration is None:
        return ages.interval(pmf, COVERAGE, grid)
    by_prediction = np.array(calibration.by_prediction)[decade(ages.mean(pmf, grid))]
    y, needed = _needed_scale(pmf, grid, np.array(calibration.by_age), by_prediction)
    inside = needed <= calibration.scale
    return y[inside.argmax(-1)], y[len(y) - 1 - inside[:, ::-1].argmax(-1)]


def widening(pmf: NDArray[Any], age: Floats, grid: AgeGrid, calibration: Calibration) -> float:
    """The factor on the calibration's scale at which its intervals have their nominal coverage on these faces.

    For faces of a data set that it was not calibrated on; above 1 if the intervals are too narrow there.

    pmf: (n, A); age: true ages, (n,), years
    Example: `widened(calibration, widening(pmf, age, grid, calibration))` has 90 % coverage on those faces.
    """
    by_prediction = np.array(calibration.by_prediction)[decade(ages.mean(pmf, grid))]
    y, needed = _needed_scale(pmf, grid, np.array(calibration.by_age), by_prediction)
    place = np.clip(np.round((age - grid.low) / STEP).astype(int), 0, len(y) - 1)
    return conformal_quantile(needed[np.arange(len(age)), place], calibration.coverage) / calibration.scale


def corrected(pmf: NDArray[Any], grid: AgeGrid, calibration: Calibration | None) -> NDArray[Any]:
    """The distributions of a model after the bias correction of its calibration, if it has one.   (n, A) -> (n, A)

    Each is moved down by the bias at its mean, interpolated between the middles of decades; what would leave the grid
    stays at its end.
    """
    if calibration is None or not calibration.bias:
        return pmf
    shift = bias_at(ages.mean(pmf, grid), calibration.bias)
    whole = np.floor(shift).astype(int)
    part = (shift - whole)[:, None]
    rows, places = np.arange(len(pmf))[:, None], np.arange(pmf.shape[1])
    moved = np.zeros(pmf.shape)
    for extra, weight in ((0, 1 - part), (1, part)):
        target = np.clip(places - (whole[:, None] + extra), 0, pmf.shape[1] - 1)
        np.add.at(moved, (np.broadcast_to(rows, target.shape), target), weight * pmf)
    return moved.astype(pmf.dtype)


def bias_at(predicted: Floats, bias: Sequence[float]) -> Floats:
    """The bias at predicted ages, interpolated between the middles of decades.   (n,) years, (DECADES,) -> (n,) years"""
    return np.asarray(np.interp(predicted, np.arange(DECADES) * 10 + 5, bias))


def widened(calibration: Calibration, factor: float) -> Calibration:
    """The calibration with a scale `factor` times as large."""
    return replace(calibration, scale=calibration.scale * factor)


def _needed_scale(pmf: NDArray[Any], grid: AgeGrid, by_age: Floats, by_prediction: Floats) -> tuple[Floats, Floats]:
    """Ages in steps of STEP, (m,), and the smallest scale at which each is in the interval of each face, (n, m).

    An interval has no gaps: an age is also in it if one further out is. So the scale never decreases away from the
    median.

    by_age: (DECADES,); by_prediction: (n,), of the decade of each face's prediction
    """
    y = np.arange(grid.low, grid.high + STEP, STEP)
    needed = _scores(pmf, y[None], grid) / (by_age[decade(y)] * by_prediction[:, None])
    middle = np.abs(y - ages.median(pmf, grid)[:, None]).argmin(-1)[:, None]
    from_right = np.minimum.accumulate(needed[:, ::-1], axis=1)[:, ::-1]  # smallest scale of this age and those above
    from_left = np.minimum.accumulate(needed, axis=1)
    needed = np.where(np.arange(len(y)) < middle, from_left, from_right)
    np.put_along_axis(needed, middle, 0.0, axis=1)  # the interval is never empty
    return y, needed


def decade(age: Floats) -> NDArray[np.int64]:
    """The index of the decade of each age, of the same shape: 0 for 0-9, …, at most DECADES - 1."""
    return np.asarray(np.clip(age // 10, 0, DECADES - 1).astype(np.int64))


def conformal_quantile(scores: Floats, coverage: float) -> float:
    """The bound that a new score from the same distribution keeps with at least this probability.

    That is the ceil((n + 1) * coverage)-th smallest of the n scores; the largest if n is too small.   scores: (n,).
    """
    rank = min(len(scores), math.ceil((len(scores) + 1) * coverage))
    return float(max(np.partition(scores, rank - 1)[rank - 1], 1e-6))


def _scores(pmf: NDArray[Any], y: Floats, grid: AgeGrid) -> Floats:
    """Nonconformity scores: distances of ages from the median, in half widths of the central interval.

    pmf: (n, A); y: ages, (n or 1, m).   Returns (n, m).
    """
    low, high = ages.interval(pmf, COVERAGE, grid)
    middle = ages.median(pmf, grid)
    below, above = (middle - low + HALF_YEAR)[:, None], (high - middle + HALF_YEAR)[:, None]
    distance = y - middle[:, None]
    return np.asarray(np.where(distance < 0, -distance / below, distance / above))


def _by_decade(scores: Floats, age: Floats, default: float, coverage: float, shrinkage: float) -> Floats:
    """The conformal quantile of each decade, shrunk towards `default` as `shrinkage` faces would.   (DECADES,)"""
    group = _join(np.bincount(decade(age), minlength=DECADES))
    member = group[decade(age)]
    factors = np.full(DECADES, default)
    for name in set(member.tolist()):
        some = scores[member == name]
        own = conformal_quantile(some, coverage)
        factors[group == name] = (len(some) * own + shrinkage * default) / (len(some) + shrinkage)
    return factors


def _join(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The group of each decade: from both ends inwards, decades are merged until a group has DECADE_FACES faces."""
    middle = int(np.searchsorted(np.cumsum(counts), counts.sum() / 2))
    group = np.full(len(counts), middle)
    for way in (range(middle), range(len(counts) - 1, middle, -1)):
        waiting: list[int] = []
        for name in way:
            waiting.append(name)
            if counts[waiting].sum() >= DECADE_FACES:
                group[waiting] = name
                waiting = []
        # those still waiting belong to the group of the median age
    return group
