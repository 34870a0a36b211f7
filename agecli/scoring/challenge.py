"""Challenge ages: false accepts against the threshold of an age check, and what a threshold costs those who are old enough.

A person is accepted if the decision value is at least a threshold; the others are asked for a proof of age. The decision
value is the predicted age (the threshold is the challenge age, years) or P(age >= legal age) (the threshold is a
probability). An accepted person who is younger than the legal age is a false accept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from agecli.core.ages import Floats, probability_over
from agecli.scoring import bootstrap
from agecli.scoring.metrics import Predictions, tidy
from agecli.scoring.rates import Mask, Rate, measure_rates, people_known, rate_columns

LEGAL_AGES = (13, 16, 18, 21)  # years
DECISIONS = ("age", "probability")
MOST = 0.01  # false accept rate that the recommended threshold keeps
MARGIN = 30  # years above the legal age: the largest challenge age of a curve
CONFIDENCES = (*(round(0.5 + 0.05 * step, 2) for step in range(10)), 0.96, 0.97, 0.98, 0.99, 0.995, 0.999)
ADULT_YEARS = 13  # single years from the legal age on whose refusals are reported; older people are one group
BAND = (13, 17)  # NIST FATE AEV, child online safety: 13 to 16 years
BAND_OTHERS = ((8, 13), (17, 23))  # those who should not be taken for 13 to 16: 8 to 12, and 17 to 22
CHECK_COLUMNS = (
    *("check", "decision", "legal", "threshold", "who", "recommended"),
    *rate_columns(("rate",)),
    *("years_under", "years_under_most", "overestimate"),
)


@dataclass(frozen=True)
class CheckPoint:
    """An age check with one threshold."""

    decision: str  # age or probability
    legal: float  # years
    threshold: float  # years, or a probability
    accepted: Rate  # false accepts: of those younger than the legal age, who is accepted
    refused: Rate  # of those who are old enough, who is not accepted
    years_under: float | None  # mean of legal - true age of the false accepts, years; None if there are none
    years_under_most: float | None  # the largest of them
    overestimate: float | None  # mean of predicted - true age of the false accepts, years


def curve(predictions: Predictions, legal: float, decision: str = "age") -> list[CheckPoint]:
    """The age check at every threshold, from the least strict on.

    legal: years; decision: "age" (thresholds legal, legal + 1, … years) or "probability" (`CONFIDENCES`)
    Example: `curve(predictions, 18)[7].accepted.share` is the false accept rate of "Challenge 25"
    """
    thresholds = tuple(legal + step for step in range(MARGIN + 1)) if decision == "age" else CONFIDENCES
    value, minor = decision_value(predictions, legal, decision), predictions.age < legal
    passed = value[:, None] >= np.array(thresholds)  # (n, m)
    among = np.repeat(minor[:, None], len(thresholds), axis=1)
    accepted, refused = _rates(predictions, passed, among), _rates(predictions, ~passed, ~among)
    points = []
    for place, threshold in enumerate(thresholds):
        wrong = passed[:, place] & minor
        under = legal - predictions.age[wrong]
        far = (float(under.mean()), float(under.max()), float(predictions.error[wrong].mean())) if wrong.any() else None
        points.append(
            CheckPoint(decision, legal, threshold, accepted[place], refused[place], *(far or (None, None, None)))
        )
    return points


def recommended(points: Sequence[CheckPoint], most: float = MOST) -> CheckPoint | None:
    """The lowest threshold whose false accept rate is at most `most`; None if no threshold keeps it, or nobody is a minor."""
    return next((p for p in points if p.accepted.share is not None and p.accepted.share <= most), None)


def refused_by_year(predictions: Predictions, point: CheckPoint) -> dict[str, Rate]:
    """Of the people of each year of age from the legal age on, who is not accepted: "18", "19", …, "31 and older"."""
    refused = decision_value(predictions, point.legal, point.decision) < point.threshold
    year, last = np.floor(predictions.age), int(point.legal) + ADULT_YEARS
    who = {str(y): year == y for y in range(int(np.ceil(point.legal)), last)} | {f"{last} and older": year >= last}
    among = np.stack([*who.values()], axis=1)
    return dict(zip(who, _rates(predictions, np.repeat(refused[:, None], len(who), axis=1), among), strict=True))


def band_rates(predictions: Predictions) -> dict[str, Rate]:
    """Who is predicted to be 13 to 16: of those who are (true positives), of 8 to 12 and of 17 to 22 (false positives)."""
    age, within = predictions.age, (predictions.predicted >= BAND[0]) & (predictions.predicted < BAND[1])
    who = {f"{low} to {high - 1}": (age >= low) & (age < high) for low, high in (BAND, *BAND_OTHERS)}
    among = np.stack([*who.values()], axis=1)
    return dict(zip(who, _rates(predictions, np.repeat(within[:, None], len(who), axis=1), among), strict=True))


def check_rows(predictions: Predictions, legal_ages: Sequence[float] = LEGAL_AGES) -> Iterator[dict[str, Any]]:
    """The rows of age_checks.csv, `CHECK_COLUMNS`: every curve, the cost by year at its recommended threshold, the band."""
    for legal in legal_ages:
        for decision in DECISIONS:
            points = curve(predictions, legal, decision)
            best = recommended(points)
            for point in points:
                known = {"decision": decision, "legal": legal, "threshold": tidy(float(point.threshold))}
                known["recommended"] = int(point is best)
                far = {name: tidy(getattr(point, name)) for name in CHECK_COLUMNS[-3:]}
                yield {"check": "false accept", "who": f"under {legal:g}", **known, **point.accepted.row(), **far}
                yield {"check": "refused", "who": f"{legal:g} and older", **known, **point.refused.row()}
                if point is best:
                    for year, rate in refused_by_year(predictions, point).items():
                        yield {"check": "refused by year", "who": year, **known, **rate.row()}
    for who, rate in band_rates(predictions).items():
        yield {"check": f"predicted {BAND[0]} to {BAND[1] - 1}", "decision": "age", "who": who, **rate.row()}


def decision_value(predictions: Predictions, legal: float, decision: str) -> Floats:
    """What an age check compares with its threshold, (n,): the predicted age, or P(age >= legal)."""
    if decision == "age":
        return predictions.predicted
    return probability_over(predictions.pmf, legal, predictions.grid)


def _rates(predictions: Predictions, hits: Mask, among: Mask) -> list[Rate]:
    """A rate for each column, over people where they are known.  hits, among: (n, m)."""
    samples = predictions.samples
    return measure_rates(hits, among, bootstrap.subject_ids(samples), people_known(samples))
