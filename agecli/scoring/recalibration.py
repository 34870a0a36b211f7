"""Recalibration: intervals, and a bias correction if it holds up, for photos of another kind, from a few labelled faces.

Nothing is trained. The bias at the middle of each decade of predicted age is fitted by least squares with a penalty on
differences between neighbouring decades, and shrunk towards 0, most where faces are few. How much is chosen by the error
of faces that it was not fitted on; the correction is used only if it lowers that error by more than one standard error. The
intervals are conformal, on distributions corrected without the face itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agecli.core import ages
from agecli.core.ages import COVERAGE, AgeGrid, Floats, Readout
from agecli.core.seeding import generator
from agecli.scoring.calibration import (
    DECADES,
    Calibration,
    bias_at,
    calibrate,
    corrected,
    interval,
    widened,
    widening,
)

FOLDS = 10  # of cross-validation
SMOOTHNESS = 20.0  # faces: the weight of the difference between two decades
SHRINKAGE = (1.0, 3.0, 10.0)  # faces: the weight of a bias of 0 in each decade; one of these, by cross-validation
OWN_SHAPE = 500  # faces; with fewer, the intervals keep their dependence on age, and only their scale is new


@dataclass(frozen=True)
class Accuracy:
    """What a model is worth on some faces."""

    mae: float  # years
    bias: float  # mean of predicted minus true age, years
    coverage: float  # of the 90 % interval
    width: float  # mean of the interval, years


@dataclass(frozen=True)
class Recalibration:
    """A new calibration, and what it changes. `after` is cross-validated: each face was left out of its calibration."""

    calibration: Calibration
    faces: int
    before: Accuracy
    after: Accuracy


def recalibrate(
    pmf: NDArray[Any],
    age: Floats,
    people: NDArray[np.int64],
    grid: AgeGrid,
    readout: Readout,
    old: Calibration | None,
) -> Recalibration:
    """Calibrate a model on n faces of a new kind.

    pmf: (n, A), the model's own, without a bias correction;   age: (n,), true ages in years
    people: (n,), the number of the subject of each face: one person's faces are left out together
    old: the calibration so far
    """
    before = _accuracy(corrected(pmf, grid, old), age, grid, readout, old)
    parts: list[tuple[NDArray[np.int64], Floats, Floats, Floats]] = []
    for rest, out in _folds(people):
        some = _fit(pmf[rest], age[rest], people[rest], grid, readout, old)
        moved = corrected(pmf[out], grid, some)
        parts.append((out, ages.read(moved, readout, grid) - age[out], *interval(moved, grid, some)))
    order = np.concatenate([part[0] for part in parts])
    error, low, high = (np.concatenate([part[place] for part in parts]) for place in (1, 2, 3))
    after = _summary(error, low, high, age[order])
    return Recalibration(_fit(pmf, age, people, grid, readout, old), len(age), before, after)


def fit_bias(predicted: Floats, error: Floats, shrinkage: float = SHRINKAGE[0]) -> tuple[float, ...]:
    """The bias at the middle of each decade, smooth and shrunk.

    predicted: (n,), ages;   error: (n,), predicted minus true age, years
    shrinkage: faces: the weight of a bias of 0 in each decade.   Returns DECADES numbers, years.
    """
    place = np.clip((predicted - 5) / 10, 0, DECADES - 1)
    lower = np.minimum(place.astype(int), DECADES - 2)
    weights = np.zeros((len(place), DECADES))  # of linear interpolation between the middles of decades
    weights[np.arange(len(place)), lower] = 1 - (place - lower)
    weights[np.arange(len(place)), lower + 1] = place - lower
    differences = np.diff(np.eye(DECADES), axis=0)
    penalty = SMOOTHNESS * differences.T @ differences + shrinkage * np.eye(DECADES)
    return tuple(np.linalg.solve(weights.T @ weights + penalty, weights.T @ error).tolist())


def _fit(
    pmf: NDArray[Any], age: Floats, people: NDArray[np.int64], grid: AgeGrid, readout: Readout, old: Calibration | None
) -> Calibration:
    """The calibration of some faces, with the bias correction if it holds up on faces that it was not fitted on."""
    predicted, error = ages.mean(pmf, grid), ages.read(pmf, readout, grid) - age
    shrinkage = choose_shrinkage(predicted, error, people)
    moved = np.array(pmf)
    for rest, out in _folds(people):
        moved[out] = corrected(pmf[out], grid, _only_bias(fit_bias(predicted[rest], error[rest], shrinkage)))
    gain = np.abs(error) - np.abs(ages.read(moved, readout, grid) - age)
    holds = gain.mean() > gain.std() / np.sqrt(len(gain))
    if not holds:
        moved = pmf
    own = calibrate(moved, age, grid) if old is None or len(age) >= OWN_SHAPE else None
    base = own or old or _only_bias(())
    if own is None:
        base = widened(base, widening(moved, age, grid, base))
    return replace(base, faces=len(age), bias=fit_bias(predicted, error, shrinkage) if holds else ())


def choose_shrinkage(predicted: Floats, error: Floats, people: NDArray[np.int64]) -> float:
    """The shrinkage with the smallest mean absolute error on people that the bias was not fitted on.

    predicted, error: as for `fit_bias`;   people: (n,), the number of the subject of each face
    """
    left = {shrinkage: np.zeros(len(error)) for shrinkage in SHRINKAGE}
    for rest, out in _folds(people):
        for shrinkage, errors in left.items():
            bias = fit_bias(predicted[rest], error[rest], shrinkage)
            errors[out] = np.abs(error[out] - bias_at(predicted[out], bias))
    return min(SHRINKAGE, key=lambda shrinkage: left[shrinkage].mean())


def _only_bias(bias: Sequence[float]) -> Calibration:
    """A calibration of a bias alone, whose intervals are the central ones."""
    return Calibration(0, 1.0, (1.0,) * DECADES, (1.0,) * DECADES, COVERAGE, tuple(bias))


def _folds(people: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """The faces to fit on and those left out, so that each is left out once; one person's faces together."""
    names, member = np.unique(people, return_inverse=True)
    fold = generator(0, "recalibration").permutation(len(names)) % min(FOLDS, len(names))
    for number in range(min(FOLDS, len(names))):
        out = fold[member] == number
        if not out.all():
            yield np.flatnonzero(~out), np.flatnonzero(out)


def _accuracy(
    pmf: NDArray[Any], age: Floats, grid: AgeGrid, readout: Readout, calibration: Calibration | None
) -> Accuracy:
    return _summary(ages.read(pmf, readout, grid) - age, *interval(pmf, grid, calibration), age)


def _summary(error: Floats, low: Floats, high: Floats, age: Floats) -> Accuracy:
    inside = (low <= age) & (age <= high)
    return Accuracy(
        *(float(values.mean()) for values in (np.abs(error), np.asarray(error), inside.astype(float), high - low))
    )
