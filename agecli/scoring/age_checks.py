"""Age checks: false positive and false negative rates of decisions by predicted age, such as "18 or older"."""

from __future__ import annotations

from collections.abc import Sequence

from agecli.core.ages import parse_age
from agecli.core.errors import InputError
from agecli.scoring.metrics import Predictions
from agecli.scoring.rates import Mask


def parse_challenge(text: str | None) -> tuple[float, ...]:
    """The ages of `--challenge`, in years and sorted: "25, 18" -> (18.0, 25.0). None or "" gives ().

    Raises InputError if the text is no list of positive numbers.
    """
    if not text:
        return ()
    ages = [parse_age(part) for part in text.split(",")]
    if any(age is None or age <= 0 for age in ages):
        raise InputError(f"`{text}` is no list of ages", hint="write --challenge 18 or --challenge 18,25")
    return tuple(sorted({age for age in ages if age is not None}))


def check_names(challenge: Sequence[float]) -> tuple[str, ...]:
    """The names of all error rates for these ages, without their confidence limits: fpr_18, fnr_18, fpr_18_25, …"""
    return tuple(f"{rate}_{_name(*pair)}" for pair in _pairs(challenge) for rate in ("fpr", "fnr"))


def error_rates(predictions: Predictions, challenge: Sequence[float]) -> dict[str, tuple[Mask, Mask]]:
    """For each error rate by name: which faces are wrongly classified, (n,), and which faces it is a share of, (n,).

    A person passes if the predicted age is at least the challenge age, and is entitled if the true age is at least the
    legal age. The false positive rate is the share of those who are not entitled that pass; the false negative rate is
    the share of those who are entitled that do not pass. fpr_18 has both ages at 18; fpr_18_25 has the legal age 18 and
    the challenge age 25 ("Challenge 25").

    challenge: ages in years; each is a legal age, and a challenge age for those not above it
    """
    rates = {}
    for legal, limit in _pairs(challenge):
        entitled, passed = predictions.age >= legal, predictions.predicted >= limit
        rates[f"fpr_{_name(legal, limit)}"] = (passed & ~entitled, ~entitled)
        rates[f"fnr_{_name(legal, limit)}"] = (~passed & entitled, entitled)
    return rates


def describe_rate(name: str) -> str:
    """An error rate in words: "fpr_18_25" -> "younger than 18, predicted 25 or older"."""
    rate, legal, *limits = name.split("_")
    limit = limits[0] if limits else legal
    if rate == "fpr":
        return f"younger than {legal}, predicted {limit} or older"
    return f"{legal} or older, predicted younger than {limit}"


def _pairs(challenge: Sequence[float]) -> list[tuple[float, float]]:
    """All pairs of a legal age and a challenge age that is not below it."""
    return [(legal, limit) for legal in challenge for limit in challenge if limit >= legal]


def _name(legal: float, limit: float) -> str:
    return f"{legal:g}" if limit == legal else f"{legal:g}_{limit:g}"
