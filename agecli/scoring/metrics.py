"""Predictions for faces whose ages are known, and their error metrics: MAE, CS, bias, coverage, NLL, CRPS."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agecli.core import ages
from agecli.core.ages import AgeGrid, Floats, Readout
from agecli.core.errors import InputError
from agecli.core.records import Sample
from agecli.scoring.averages import balanced_mae, concordance, nist_mae, rmse
from agecli.scoring.calibration import Calibration, interval

PREDICTION_COLUMNS = ("path", "subject", "age", "predicted", "std", "low", "high")
CS_YEARS = range(11)  # CS(0) to CS(10); the tables of papers show CS(5)
METRIC_COLUMNS = (
    *("images", "mae", "cs5", "bias", "coverage", "width", "median", "p95", "nll", "crps"),
    *("error_std", "rmse", "ccc", "balanced_mae", "nist_mae", "nist_cells"),
    *(f"cs{years}" for years in CS_YEARS if years != 5),
)
ARRAYS = ("pmf", "predicted", "std", "low", "high")  # the fields of `Predictions` with a row for each face
MIN_PROBABILITY = 1e-12  # of a year, in the NLL: an age that a model rules out costs 28 nats, not infinitely many


@dataclass(frozen=True)
class Predictions:
    """The predicted age distributions of n faces whose ages are known, and what is read out from them."""

    samples: tuple[Sample, ...]  # n of them
    pmf: NDArray[np.float32]  # (n, A): probability of each year of the grid; the fields below follow from it
    grid: AgeGrid
    predicted: Floats  # (n,), years
    std: Floats  # (n,), years
    low: Floats  # (n,), years: lower end of the 90 % interval
    high: Floats  # (n,), years: its upper end
    calibrated: bool  # whether low and high are conformal; otherwise they are uncalibrated quantiles of the pmf
    conditions: Mapping[str, Floats] = field(default_factory=dict)  # (n,) each: properties of the photos, see `groups`

    def __len__(self) -> int:
        return len(self.samples)

    @classmethod
    def from_pmf(
        cls,
        pmf: NDArray[np.float32],
        samples: Sequence[Sample],
        readout: Readout,
        grid: AgeGrid,
        calibration: Calibration | None = None,
    ) -> Predictions:
        """Read out an age, its std and its 90 % interval from each pmf. The interval always contains the age.

        pmf: (n, A), for n samples
        calibration: of the conformal interval; without one, the interval is the uncalibrated central one
        Example: `Predictions.from_pmf(pmf, manifest.samples, "mean", AgeGrid(0, 120))`
        """
        predicted = ages.read(pmf, readout, grid)
        low, high = interval(pmf, grid, calibration)
        low, high = np.minimum(low, predicted), np.maximum(high, predicted)
        std = ages.std(pmf, grid)
        return cls(tuple(samples), pmf, grid, predicted, std, low, high, calibrated=calibration is not None)

    @property
    def age(self) -> Floats:
        """True ages, (n,), years."""
        return np.array([sample.age for sample in self.samples])

    @property
    def error(self) -> Floats:
        """Predicted minus true age, (n,), years."""
        return np.asarray(self.predicted - self.age)

    @property
    def covered(self) -> NDArray[np.bool_]:
        """Whether the true age lies in the interval, (n,)."""
        return np.asarray((self.low <= self.age) & (self.age <= self.high))

    def rows(self) -> list[dict[str, Any]]:
        """The rows of predictions.csv: a dict with `PREDICTION_COLUMNS` for each face, rounded."""
        numbers = zip(self.predicted.tolist(), self.std.tolist(), self.low.tolist(), self.high.tolist(), strict=True)
        return [
            dict(zip(PREDICTION_COLUMNS, (s.path, s.subject, *(tidy(v) for v in (s.age, *row))), strict=True))
            for s, row in zip(self.samples, numbers, strict=True)
        ]


def pool(parts: Sequence[Predictions]) -> Predictions:
    """Concatenate the predictions of several folds, in that order. All must have the same age grid."""
    arrays = {name: np.concatenate([getattr(part, name) for part in parts]) for name in ARRAYS}
    samples = tuple(sample for part in parts for sample in part.samples)
    known = [name for name in parts[0].conditions if all(name in part.conditions for part in parts)]
    conditions = {name: np.concatenate([part.conditions[name] for part in parts]) for name in known}
    calibrated = all(part.calibrated for part in parts)
    return Predictions(samples, grid=parts[0].grid, calibrated=calibrated, conditions=conditions, **arrays)


def pick(predictions: Predictions, chosen: Sequence[int] | NDArray[np.int64]) -> Predictions:
    """The predictions of the faces with these indices, in the order given."""
    order = np.asarray(chosen, dtype=int)
    arrays = {name: getattr(predictions, name)[order] for name in ARRAYS}
    samples = tuple(predictions.samples[i] for i in order.tolist())
    conditions = {name: values[order] for name, values in predictions.conditions.items()}
    return Predictions(
        samples, grid=predictions.grid, calibrated=predictions.calibrated, conditions=conditions, **arrays
    )


@dataclass(frozen=True)
class Metrics:
    """Error metrics over a set of faces. Shares are between 0 and 1."""

    images: int  # number of faces
    mae: float  # mean absolute error, in years
    bias: float  # mean of predicted minus true age, in years
    coverage: float  # share of faces whose true age lies in the interval
    width: float  # mean width of the interval, in years
    median: float  # median absolute error, in years
    p95: float  # 95th percentile of the absolute error, in years
    nll: float  # mean negative log likelihood of the true age, in nats
    crps: float  # mean continuous ranked probability score, in years; the MAE generalised to distributions
    error_std: float  # standard deviation of the absolute error, in years
    rmse: float  # root of the mean squared error, in years
    ccc: float | None  # Lin's concordance correlation coefficient; None for a single face without error
    balanced_mae: float  # mean of the MAEs of the decades, in years
    nist_mae: float | None  # mean of the MAEs of each sex and year from 18 to 30, in years; None if there is none
    nist_cells: int  # how many of these 26 MAEs there are
    cs: tuple[float, ...]  # cumulative scores CS(0), CS(1), …: share of faces with |error| <= so many years

    @property
    def cs5(self) -> float:
        """CS(5): share of faces that are off by at most five years."""
        return self.cs[5]

    def row(self) -> dict[str, Any]:
        """The metrics as columns of a CSV file, `METRIC_COLUMNS`, rounded."""
        values = {**vars(self), **{f"cs{years}": share for years, share in zip(CS_YEARS, self.cs, strict=True)}}
        return {name: tidy(values[name]) for name in METRIC_COLUMNS}


def measure(predictions: Predictions) -> Metrics:
    """Compute all metrics.

    Raises InputError if there are no predictions.
    Example: `measure(predictions).mae`
    """
    if len(predictions) == 0:
        raise InputError("there is no face to measure on", hint="could none of the test pictures be read?")
    error = np.abs(predictions.error)
    averaged, cells = nist_mae(predictions.error, predictions.age, [sample.sex for sample in predictions.samples])
    return Metrics(
        images=len(predictions),
        mae=float(error.mean()),
        bias=float(predictions.error.mean()),
        coverage=float(predictions.covered.mean()),
        width=float((predictions.high - predictions.low).mean()),
        median=float(np.median(error)),
        p95=float(np.percentile(error, 95)),
        nll=float(nll(predictions.pmf, predictions.age, predictions.grid).mean()),
        crps=float(crps(predictions.pmf, predictions.age, predictions.grid).mean()),
        error_std=float(error.std()),
        rmse=rmse(predictions.error),
        ccc=concordance(predictions.predicted, predictions.age),
        balanced_mae=balanced_mae(predictions.error, predictions.age),
        nist_mae=averaged,
        nist_cells=cells,
        cs=tuple(float(within(predictions, years).mean()) for years in CS_YEARS),
    )


def within(predictions: Predictions, years: float) -> NDArray[np.bool_]:
    """Which faces CS(years) counts, (n,): |error| <= years, with a tolerance of 1e-9 for rounding in binary."""
    return np.asarray(np.abs(predictions.error) <= years + 1e-9)


def nll(pmf: NDArray[Any], age: Floats, grid: AgeGrid) -> Floats:
    """Negative log density at the true age, each year's probability spread uniformly over the year around it.

    pmf: (n, A); age: (n,), years.   Returns (n,), nats.
    """
    year = np.clip(np.floor(age + 0.5), grid.low, grid.high).astype(int) - grid.low
    mass = np.take_along_axis(pmf, year[:, None], 1)[:, 0].astype(np.float64)
    return np.asarray(-np.log(np.maximum(mass, MIN_PROBABILITY)))


def crps(pmf: NDArray[Any], age: Floats, grid: AgeGrid) -> Floats:
    """Continuous ranked probability score: the integral of (F(x) - [x >= age])^2 = E|X - age| - E|X - X'| / 2.

    F is the distribution function of the pmf with each year's probability spread uniformly over the year around it, so
    |X - age| has the mean |c - age| in a year c that does not hold the age, and d^2 + 1/4 in the one that does, at a
    distance d from its centre.

    pmf: (n, A); age: (n,), years.   Returns (n,), years.
    """
    pmf = pmf.astype(np.float64) / pmf.sum(-1, keepdims=True, dtype=np.float64)
    distance = np.abs(grid.years - age[:, None])
    to_age = (pmf * np.where(distance < 0.5, distance**2 + 0.25, distance)).sum(-1)
    cdf = np.cumsum(pmf, axis=-1)
    spread = 2 * (cdf * (1 - cdf)).sum(-1) + (pmf**2).sum(-1) / 3  # two draws from the same year are 1/3 apart
    return np.asarray(to_age - spread / 2)


def tidy(value: Any) -> Any:
    """Round a float to four decimals, and to an int if nothing is lost (26.0 -> 26). Other values are unchanged."""
    if not isinstance(value, float):
        return value
    short = round(value, 4)
    return int(short) if short.is_integer() else short
