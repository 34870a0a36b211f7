"""The rates of a model in words, each with its counts: CS, coverage, failures, age checks and the band of 13 to 16."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from agecli.core.ages import COVERAGE
from agecli.scoring.age_checks import describe_rate
from agecli.scoring.challenge import (
    DECISIONS,
    LEGAL_AGES,
    MOST,
    CheckPoint,
    band_rates,
    curve,
    recommended,
)
from agecli.scoring.metrics import Predictions
from agecli.scoring.rates import RATE_ENDS, Rate

WORDS = {"cs5": "off by at most 5 years (CS@5)", "coverage": f"age in the {100 * COVERAGE:.0f} % interval"}


def main_rates(row: Mapping[str, Any], failures: Mapping[str, Rate]) -> list[dict[str, Any]]:
    """CS@5, coverage and the requested age checks of a row of metrics.csv, and the failures of its data folder."""
    names = [key.removesuffix("_of") for key in row if key.endswith("_of")]
    found = [
        {"rate": WORDS.get(name) or describe_rate(name), **{f"share{end}": row[f"{name}{end}"] for end in RATE_ENDS}}
        for name in names
        if row[f"{name}_of"]
    ]
    words = {"no face": "photos without a face", "unreadable": "unreadable photos", "failed": "photos that failed"}
    return found + [{"rate": words[name], **rate.row("share")} for name, rate in failures.items()]


def recommended_checks(predictions: Predictions) -> dict[float, list[tuple[str, CheckPoint | None, list[CheckPoint]]]]:
    """For each legal age with minors in the data: each kind of decision, its recommended threshold, and its curve."""
    checks: dict[float, list[tuple[str, CheckPoint | None, list[CheckPoint]]]] = {}
    for legal in LEGAL_AGES:
        if (predictions.age < legal).any() and (predictions.age >= legal).any():
            curves = {decision: curve(predictions, legal, decision) for decision in DECISIONS}
            checks[legal] = [(decision, recommended(points), points) for decision, points in curves.items()]
    return checks


def check_rates(predictions: Predictions) -> Iterator[dict[str, Any]]:
    """The false accepts and refusals of each legal age at its recommended threshold, then the band of 13 to 16."""
    for legal, decisions in recommended_checks(predictions).items():
        for _, best, points in decisions:
            point = best or points[-1]
            rule = threshold_words(point)
            missed = "" if best else f" (over {100 * MOST:g} %)"
            yield {
                "rate": f"under {legal:g}, accepted at {rule}{missed}",
                **point.accepted.row("share"),
                "point": point,
            }
            yield {"rate": f"{legal:g} and older, refused at {rule}", **point.refused.row("share")}
    for who, rate in band_rates(predictions).items():
        if rate.of:
            yield {"rate": f"{who}, predicted 13 to 16", **rate.row("share")}


def threshold_words(point: CheckPoint) -> str:
    """The rule of an age check: "predicted age >= 25", or "P(18+) >= 0.97"."""
    if point.decision == "age":
        return f"predicted age >= {point.threshold:g}"
    return f"P({point.legal:g}+) >= {point.threshold:g}"
