"""The age checks of the HTML page: recommended thresholds, how far off false accepts are, and the cost by year of age."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agecli.reports.rate_rows import recommended_checks, threshold_words
from agecli.scoring.challenge import CheckPoint, band_rates, refused_by_year
from agecli.scoring.metrics import Predictions
from agecli.scoring.rates import Rate


@dataclass(frozen=True)
class AgeChecks:
    """What a page shows of the age checks of one model."""

    curves: dict[float, list[CheckPoint]]  # decisions by predicted age, by legal age
    costs: dict[str, dict[str, Rate]]  # refusals by year of age at the recommended challenge ages, by the rule
    rows: list[dict[str, Any]]  # `CHECK_KEYS`: a row for each legal age and kind of decision
    years: list[dict[str, Any]]  # the costs as a table: "rule", then a rate for each year
    band: list[dict[str, Any]]  # who is predicted to be 13 to 16


CHECK_KEYS = ("legal", "rule", "accepted", "refused", "years_under", "years_under_most", "overestimate")


def age_checks(predictions: Predictions) -> AgeChecks:
    """The age checks of some predictions, at the legal ages of `scoring.challenge`."""
    checks = recommended_checks(predictions)
    curves = {legal: points for legal, kinds in checks.items() for kind, _, points in kinds if kind == "age"}
    costs: dict[str, dict[str, Rate]] = {}
    rows: list[dict[str, Any]] = []
    years: list[dict[str, Any]] = []
    for legal, kinds in checks.items():
        for kind, best, points in kinds:
            if best is None:
                rows.append({"legal": f"{legal:g}", "rule": "none keeps it", **points[-1].accepted.row("accepted")})
                continue
            rule = threshold_words(best)
            far = {name: getattr(best, name) for name in CHECK_KEYS[-3:]}
            rates = {**best.accepted.row("accepted"), **best.refused.row("refused")}
            rows.append({"legal": f"{legal:g}", "rule": rule, **rates, **far})
            if kind == "age":
                costs[f"{legal:g}: challenge {best.threshold:g}"] = refused_by_year(predictions, best)
    for name, rates_by_year in costs.items():
        years += [
            {"rule": name, "year": year, **rate.row("refused")} for year, rate in rates_by_year.items() if rate.of
        ]
    band = [{"who": who, **rate.row("share")} for who, rate in band_rates(predictions).items() if rate.of]
    return AgeChecks(curves, costs, rows, years, band)
