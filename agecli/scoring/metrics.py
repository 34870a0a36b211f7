"""Metrics: what is said of faces whose ages are known, and how far off it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agecli.core import ages
from agecli.core.ages import AgeGrid, Floats, Readout
from agecli.core.errors import InputError
from agecli.core.files import read_csv, write_csv, write_whole
from agecli.core.records import Sample
from agecli.scoring.calibration import Calibration, interval

PREDICTION_COLUMNS = ("path", "subject", "age", "predicted", "std", "low", "high")
CS_YEARS = range(11)  # CS(0) to CS(10); the tables of papers show CS(5)
METRIC_COLUMNS = (
    *("images", "mae", "cs5", "bias", "coverage", "width", "median", "p95", "nll", "crps"),
    *(f"cs{years}" for years in CS_YEARS if years != 5),
)
COLUMNS = ("pmf", "predicted", "std", "low", "high")  # the arrays of `Predictions`
LEAST = 1e-12  # probability of a year: an age that a model rules out costs 28 nats, not infinitely many


@dataclass(frozen=True)
class Predictions:
    """What a model says of n faces whose ages are known."""

    samples: tuple[Sample, ...]
    pmf: NDArray[np.float32]  # (n, A): all the rest follows from it, the readout and the calibration
    grid: AgeGrid
    predicted: Floats  # (n,), and so are these
    std: Floats
    low: Floats
    high: Floats
    calibrated: bool  # whether low and high are, or plain quantiles of the pmf

    def __len__(self) -> int:
        return len(self.samples)

    @property
    def age(self) -> Floats:
        return np.array([sample.age for sample in self.samples])

    @property
    def error(self) -> Floats:
        return np.asarray(self.predicted - self.age)

    @property
    def covered(self) -> NDArray[np.bool_]:
        return np.asarray((self.low <= self.age) & (self.age <= self.high))

    def rows(self) -> list[dict[str, Any]]:
        numbers = zip(self.predicted.tolist(), self.std.tolist(), self.low.tolist(), self.high.tolist(), strict=True)
        return [
            dict(zip(PREDICTION_COLUMNS, (s.path, s.subject, *(tidy(v) for v in (s.age, *row))), strict=True))
            for s, row in zip(self.samples, numbers, strict=True)
        ]


def predictions(
    pmf: NDArray[np.float32],
    samples: Sequence[Sample],
    readout: Readout,
    grid: AgeGrid,
    calibration: Calibration | None = None,
) -> Predictions:
    """An age, its spread and an interval from each pmf.   pmf: (n, A), n samples"""
    predicted = ages.read(pmf, readout, grid)
    low, high = interval(pmf, grid, calibration)
    low, high = np.minimum(low, predicted), np.maximum(high, predicted)  # whatever the readout, it lies inside
    return Predictions(
        tuple(samples), pmf, grid, predicted, ages.std(pmf, grid), low, high, calibrated=calibration is not None
    )


def pool(parts: Sequence[Predictions]) -> Predictions:
    """The predictions of several folds as one."""
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in COLUMNS}
    samples = tuple(sample for part in parts for sample in part.samples)
    return Predictions(samples, grid=parts[0].grid, calibrated=all(part.calibrated for part in parts), **columns)


def pick(said: Predictions, chosen: Sequence[int]) -> Predictions:
    """The predictions of some of the faces, in that order."""
    order = np.asarray(chosen, dtype=int)
    columns = {name: getattr(said, name)[order] for name in COLUMNS}
    samples = tuple(said.samples[i] for i in chosen)
    return Predictions(samples, grid=said.grid, calibrated=said.calibrated, **columns)


@dataclass(frozen=True)
class Metrics:
    images: int
    mae: float  # mean of |error|, in years
    bias: float  # mean of error
    coverage: float  # the share of faces whose age lies in the interval
    width: float  # of the interval, on average
    median: float  # of |error|
    p95: float  # the 95th percentile of |error|
    nll: float  # -log p(age), on average, in nats
    crps: float  # continuous ranked probability score, in years; the MAE of a whole distribution
    cs: tuple[float, ...]  # CS(0), CS(1), …: the share of faces with |error| <= so many years

    @property
    def cs5(self) -> float:
        return self.cs[5]

    def row(self) -> dict[str, Any]:
        values = {**vars(self), **{f"cs{years}": share for years, share in zip(CS_YEARS, self.cs, strict=True)}}
        return {name: tidy(values[name]) for name in METRIC_COLUMNS}


def measure(said: Predictions) -> Metrics:
    if len(said) == 0:
        raise InputError("there is no face to measure on", hint="could none of the test pictures be read?")
    error = np.abs(said.error)
    return Metrics(
        images=len(said),
        mae=float(error.mean()),
        bias=float(said.error.mean()),
        coverage=float(said.covered.mean()),
        width=float((said.high - said.low).mean()),
        median=float(np.median(error)),
        p95=float(np.percentile(error, 95)),
        nll=float(nll(said.pmf, said.age, said.grid).mean()),
        crps=float(crps(said.pmf, said.age, said.grid).mean()),
        cs=tuple(float(within(said, years).mean()) for years in CS_YEARS),
    )


def within(said: Predictions, years: float) -> NDArray[np.bool_]:
    """Which faces CS(years) counts: an error of exactly that many years does, also after rounding of the last bit."""
    return np.asarray(np.abs(said.error) <= years + 1e-9)


def nll(pmf: NDArray[Any], age: Floats, grid: AgeGrid) -> Floats:
    """-log of the density at the true age, each year's mass spread evenly over the year around it.   (n, A), (n,) -> (n,)"""
    year = np.clip(np.floor(age + 0.5), grid.low, grid.high).astype(int) - grid.low
    mass = np.take_along_axis(pmf, year[:, None], 1)[:, 0].astype(np.float64)
    return np.asarray(-np.log(np.maximum(mass, LEAST)))


def crps(pmf: NDArray[Any], age: Floats, grid: AgeGrid) -> Floats:
    """The integral of (F(x) - [x >= age])^2, which is E|X - age| - E|X - X'| / 2.   (n, A), (n,) -> (n,)

    F is that of the pmf with each year's mass spread evenly over the year around it, so E|X - age| is |c - age| for
    other years and d^2 + 1/4 for the year that the age lies in, at a distance d from its middle.
    """
    pmf = pmf.astype(np.float64) / pmf.sum(-1, keepdims=True, dtype=np.float64)
    distance = np.abs(grid.years - age[:, None])
    to_age = (pmf * np.where(distance < 0.5, distance**2 + 0.25, distance)).sum(-1)
    upto = np.cumsum(pmf, axis=-1)
    apart = 2 * (upto * (1 - upto)).sum(-1) + (pmf**2).sum(-1) / 3  # two draws from the same year are 1/3 apart
    return np.asarray(to_age - apart / 2)


def tidy(value: Any) -> Any:
    """Numbers as they are written: four decimals are more than a year of error is worth, and 26 is not 26.0."""
    if not isinstance(value, float):
        return value
    short = round(value, 4)
    return int(short) if short.is_integer() else short


def write_predictions(folder: Path, said: Predictions, source: Mapping[str, str]) -> None:
    """predictions.csv, and distributions.npz with what else is needed to read and measure them in another way.

    `source` says what they came from, so that a later reader can tell whether they are still true.
    """
    write_csv(folder / "predictions.csv", said.rows(), PREDICTION_COLUMNS)
    with write_whole(folder / "distributions.npz") as part, part.open("wb") as file:
        arrays: dict[str, Any] = {
            "pmf": said.pmf,
            "grid": np.array([said.grid.low, said.grid.high]),
            "calibrated": np.array(said.calibrated),
            "sex": np.array([sample.sex for sample in said.samples], dtype=str),
            "race": np.array([sample.race for sample in said.samples], dtype=str),
            **{f"source_{name}": np.array(value) for name, value in source.items()},
        }
        np.savez_compressed(file, **arrays)


def read_predictions(folder: Path, source: Mapping[str, str] | None = None) -> Predictions | None:
    """What was written; None if it is not there, not whole, or came from something else."""
    try:
        rows = read_csv(folder / "predictions.csv")
        with np.load(folder / "distributions.npz", allow_pickle=False) as stored:
            arrays = dict(stored)
        if any(str(arrays[f"source_{name}"]) != value for name, value in (source or {}).items()):
            return None
        samples = tuple(
            Sample(row["path"], float(row["age"]), row["subject"], str(sex), str(race))
            for row, sex, race in zip(rows, arrays["sex"], arrays["race"], strict=True)
        )
        columns = {name: np.array([float(row[name]) for row in rows]) for name in PREDICTION_COLUMNS[3:]}
        grid = AgeGrid(*arrays["grid"].tolist())
        return Predictions(samples, arrays["pmf"], grid, **columns, calibrated=bool(arrays["calibrated"]))
    except (OSError, KeyError, ValueError):
        return None
