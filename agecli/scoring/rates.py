"""Rates with their counts: numerator, denominator, and a 95 % CI over people, or over photos where people are not known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agecli.core.records import Sample
from agecli.scoring import bootstrap

Mask = NDArray[np.bool_]
SMALL = 30  # people, or faces whose people are not known: figures of fewer are marked as unreliable
FEW = 5  # people; a bootstrap of a rate with fewer hits or misses is too narrow
RATE_ENDS = ("", "_low", "_high", "_count", "_of", "_small")  # the columns of a rate, after its name


@dataclass(frozen=True)
class Rate:
    """A share of faces: `count` of `of`."""

    count: int
    of: int
    people: int  # distinct people among the `of` faces; a photo of an unknown person is a person
    low: float | None  # 95 % CI; None if `of` is 0
    high: float | None

    @property
    def share(self) -> float | None:
        """count / of, 0 to 1; None if there are no such faces."""
        return self.count / self.of if self.of else None

    @property
    def small(self) -> bool:
        """Whether it is a share of fewer than SMALL people."""
        return self.people < SMALL

    def row(self, name: str = "rate") -> dict[str, Any]:
        """The columns of a CSV file, `name` + `RATE_ENDS`, rounded: cs5, cs5_low, cs5_high, cs5_count, cs5_of, cs5_small."""
        shares = (None if value is None else round(value, 4) for value in (self.share, self.low, self.high))
        values = (*shares, self.count, self.of, int(self.small))
        return {f"{name}{end}": value for end, value in zip(RATE_ENDS, values, strict=True)}


def rate_columns(names: Sequence[str]) -> tuple[str, ...]:
    """The columns of some rates in CSV files."""
    return tuple(f"{name}{end}" for name in names for end in RATE_ENDS)


def people_known(samples: Sequence[Sample]) -> bool:
    """Whether the person on any of the photos is known: then intervals are over people, otherwise over photos."""
    return any(sample.subject for sample in samples)


def wilson_rate(count: int, of: int) -> Rate:
    """The rate of `count` among `of` independent photos, with its Wilson interval.  Example: `wilson_rate(3, 11).high`"""
    low, high = bootstrap.wilson_interval(count / of, of) if of else (None, None)
    return Rate(count, of, of, low, high)


def measure_rates(hits: Mask, among: Mask, people: NDArray[np.int64], known: bool) -> list[Rate]:
    """A rate for each column: the faces that are hits, of those that are counted.

    The 95 % CI is a bootstrap over people. It is the Wilson interval, with the number of people as the sample size, where
    people are not known, where there are fewer than SMALL, and for rates near 0 % and 100 %: resamples of a few hits
    vary too little.

    hits, among: (n, m); people: (n,), as of `bootstrap.subject_ids`; known: as of `people_known`
    """
    hits = hits & among
    rates: list[Rate] = []
    for place in range(hits.shape[1]):
        count, of = int(hits[:, place].sum()), int(among[:, place].sum())
        persons = len(np.unique(people[among[:, place]]))
        limits = bootstrap.wilson_interval(count / of, persons) if of else (None, None)
        rates.append(Rate(count, of, persons, *limits))
    varied = [
        i for i, rate in enumerate(rates) if known and not rate.small and _varies(hits[:, i], among[:, i], people)
    ]
    if varied:
        _, member = np.unique(people, return_inverse=True)
        draws = bootstrap.resampled_means(hits[:, varied].astype(float), among[:, varied].astype(float), member)
        for place, low, high in zip(varied, *map(np.ndarray.tolist, bootstrap.percentile_interval(draws)), strict=True):
            rates[place] = Rate(rates[place].count, rates[place].of, rates[place].people, low, high)
    return rates


def _varies(hits: Mask, among: Mask, people: NDArray[np.int64]) -> bool:
    """Whether at least FEW people are hits, and as many are counted and no hits.  hits, among, people: (n,)."""
    return min(len(np.unique(people[hits])), len(np.unique(people[among & ~hits]))) >= FEW
