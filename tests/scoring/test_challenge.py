"""Challenge ages by hand."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from agecli.scoring.challenge import CHECK_COLUMNS, band_rates, check_rows, curve, recommended, refused_by_year
from agecli.scoring.rates import Rate
from tests.scoring.test_groups import predictions_of

FACES = predictions_of(
    (12, 19, "F", ""),  # taken for an adult, 6 years under
    (17, 24.5, "M", ""),  # 1 year under
    (17, 15, "M", ""),
    (9, 8, "F", ""),
    (18, 17, "F", ""),
    (18, 26, "F", ""),
    (25, 24, "M", ""),
    (40, 45, "M", ""),
)


def counts(rate: Rate) -> tuple[int, int]:
    return rate.count, rate.of


def test_false_accepts_fall_with_the_challenge_age_by_hand() -> None:
    points = {point.threshold: point for point in curve(FACES, 18)}
    assert [counts(points[age].accepted) for age in (18, 19, 20, 24, 25)] == [(2, 4), (2, 4), (1, 4), (1, 4), (0, 4)]
    assert [counts(points[age].refused) for age in (18, 25, 46)] == [(1, 4), (2, 4), (4, 4)]
    assert (points[18].years_under, points[18].years_under_most) == ((6 + 1) / 2, 6)
    assert points[18].overestimate == pytest.approx((7 + 7.5) / 2)
    assert points[25].years_under is None
    shares = [point.accepted.share or 0 for point in points.values()]
    assert shares == sorted(shares, reverse=True)


def test_the_recommended_challenge_age_and_its_cost_by_hand() -> None:
    best = recommended(curve(FACES, 18))
    assert best is not None
    assert best.threshold == 25  # at 24 one of four minors passes
    cost = refused_by_year(FACES, best)
    assert [counts(cost[year]) for year in ("18", "19", "25", "31 and older")] == [(1, 2), (0, 0), (1, 1), (0, 1)]
    assert recommended(curve(predictions_of((30, 30, "F", "")), 18)) is None  # nobody is a minor: nothing is known


def test_decisions_by_probability_by_hand() -> None:
    pmf = np.zeros((8, 121), np.float32)
    over = [0.62, 0.97, 0.2, 0.0, 0.7, 0.99, 1.0, 1.0]  # P(18 or older)
    pmf[:, 17], pmf[:, 18] = 1 - np.array(over), over
    faces = dataclasses.replace(FACES, pmf=pmf)
    points = {point.threshold: point for point in curve(faces, 18, "probability")}
    assert [counts(points[p].accepted) for p in (0.5, 0.6, 0.65, 0.96)] == [(2, 4), (2, 4), (1, 4), (1, 4)]
    assert counts(points[0.98].accepted) == (0, 4)
    assert counts(points[0.98].refused) == (1, 4)  # the one with 0.7
    best = recommended([*points.values()])
    assert best is not None
    assert best.threshold == 0.98
    assert counts(refused_by_year(faces, best)["18"]) == (1, 2)


def test_the_band_of_13_to_16_by_hand() -> None:
    faces = predictions_of(
        (13, 13, "F", ""), (16, 16.9, "F", ""), (16, 17, "F", ""), (14, 12.9, "F", ""),
        (12, 13, "F", ""), (8, 9, "F", ""), (7, 14, "F", ""),
        (17, 16, "F", ""), (22, 15, "F", ""), (20, 20, "F", ""), (23, 14, "F", ""),
    )  # fmt: skip
    rates = band_rates(faces)
    assert {who: counts(rate) for who, rate in rates.items()} == {
        "13 to 16": (2, 4),
        "8 to 12": (1, 2),
        "17 to 22": (2, 3),
    }


def test_rows_for_programs_have_every_curve_with_counts() -> None:
    rows = list(check_rows(FACES))
    assert all(set(row) <= set(CHECK_COLUMNS) for row in rows)
    (row,) = (
        row
        for row in rows
        if (row["check"], row["decision"], row.get("legal"), row.get("threshold")) == ("false accept", "age", 18, 20)
    )
    assert (row["rate"], row["rate_count"], row["rate_of"], row["rate_small"], row["years_under"]) == (0.25, 1, 4, 1, 1)
    assert {row["legal"] for row in rows if row["check"] == "refused"} == {13, 16, 18, 21}
    assert "compliant" not in repr(rows)
