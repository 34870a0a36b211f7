"""Metrics: what is said of faces whose ages are known, and how far off it is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from agecli import ages
from agecli.ages import COVERAGE, AgeGrid, Readout
from agecli.data.manifest import Sample
from agecli.errors import InputError
from agecli.files import read_csv, write_csv

PREDICTION_COLUMNS = ("path", "subject", "age", "predicted", "std", "low", "high")
METRIC_COLUMNS = ("images", "mae", "cs5", "bias", "coverage", "width")


@dataclass(frozen=True)
class Prediction:
    """What is said of one face whose age is known."""

    path: str
    subject: str
    age: float
    predicted: float
    std: float
    low: float
    high: float

    @property
    def error(self) -> float:
        return self.predicted - self.age

    def row(self) -> dict[str, Any]:
        return {name: tidy(getattr(self, name)) for name in PREDICTION_COLUMNS}


@dataclass(frozen=True)
class Metrics:
    images: int
    mae: float  # mean of |error|, in years
    cs5: float  # CS(5): the share of faces with |error| <= 5
    bias: float  # mean of error
    coverage: float  # the share of faces whose age lies in the interval
    width: float  # of the interval, on average

    def row(self) -> dict[str, Any]:
        return {name: tidy(getattr(self, name)) for name in METRIC_COLUMNS}


def tidy(value: Any) -> Any:
    """Numbers as they are written: four decimals are more than a year of error is worth, and 26 is not 26.0."""
    if not isinstance(value, float):
        return value
    short = round(value, 4)
    return int(short) if short.is_integer() else short


def predictions(pmf: Tensor, samples: Sequence[Sample], readout: Readout, grid: AgeGrid) -> list[Prediction]:
    """One record for each pmf.   pmf: (n, A), n samples"""
    pmf = pmf.double()
    low, high = ages.interval(pmf, COVERAGE, grid)
    columns = (ages.read(pmf, readout, grid), ages.std(pmf, grid), low, high)
    numbers = zip(*(column.tolist() for column in columns), strict=True)
    return [Prediction(s.path, s.subject, s.age, *row) for s, row in zip(samples, numbers, strict=True)]


def measure(results: Sequence[Prediction]) -> Metrics:
    n = len(results)
    if n == 0:
        raise InputError("there is no face to measure on", hint="could none of the test pictures be read?")
    return Metrics(
        images=n,
        mae=math.fsum(abs(p.error) for p in results) / n,
        cs5=sum(within(p, 5) for p in results) / n,
        bias=math.fsum(p.error for p in results) / n,
        coverage=sum(p.low <= p.age <= p.high for p in results) / n,
        width=math.fsum(p.high - p.low for p in results) / n,
    )


def within(prediction: Prediction, years: float) -> bool:
    """Whether CS(years) counts it: an error of exactly that many years does, also after rounding of the last bit."""
    return abs(prediction.error) <= years + 1e-9


def write_results(folder: Path, results: Sequence[Prediction], metrics: Metrics) -> None:
    """predictions.csv and metrics.csv; metrics.csv last, so that its presence means that both are whole."""
    write_csv(folder / "predictions.csv", (p.row() for p in results), PREDICTION_COLUMNS)
    write_csv(folder / "metrics.csv", [metrics.row()], METRIC_COLUMNS)


def read_results(folder: Path) -> list[Prediction]:
    rows = read_csv(folder / "predictions.csv")
    return [
        Prediction(row["path"], row["subject"], *(float(row[name]) for name in PREDICTION_COLUMNS[2:])) for row in rows
    ]
