"""A rate has its own numerator, denominator and interval, over people where they are known."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from agecli.scoring.groups import breakdown
from agecli.scoring.rates import measure_rates, wilson_rate
from tests.scoring.test_groups import predictions_of


def test_three_of_eleven_is_said_as_three_of_eleven() -> None:
    minors = [(17, 30 if i < 3 else 15, "F", "") for i in range(11)]
    row = breakdown(predictions_of(*minors, *[(30, 30, "F", "")] * 163), (18.0,))[0]
    assert row["images"] == 174
    assert (row["fpr_18"], row["fpr_18_count"], row["fpr_18_of"], row["fpr_18_small"]) == (0.2727, 3, 11, 1)
    # Wilson, z = 1.96: (3/11 + z²/22 ± z sqrt(3/11 * 8/11 / 11 + z²/484)) / (1 + z²/11)
    assert (row["fpr_18_low"], row["fpr_18_high"]) == (pytest.approx(0.0975, abs=1e-4), pytest.approx(0.5656, abs=1e-4))
    assert (row["fnr_18_count"], row["fnr_18_of"], row["fnr_18_small"], row["small"]) == (0, 163, 0, 0)


def test_intervals_of_people_who_are_not_known_are_over_photos() -> None:
    faces = predictions_of(*[(20, 20 + i % 12, "F", "") for i in range(60)])
    nobody = dataclasses.replace(faces, samples=tuple(dataclasses.replace(s, subject="") for s in faces.samples))
    assert breakdown(faces)[0]["over"] == "people"
    row = breakdown(nobody)[0]
    expected = wilson_rate(30, 60)
    assert row["over"] == "photos"
    assert (row["cs5_count"], row["cs5_of"]) == (30, 60)
    assert (row["cs5_low"], row["cs5_high"]) == (round(expected.low or 0, 4), round(expected.high or 0, 4))


def test_photos_of_one_person_do_not_make_a_rate_certain() -> None:
    hits, among = np.arange(400)[:, None] % 2 == 0, np.ones((400, 1), dtype=bool)
    each, ten = np.arange(400), np.arange(400) // 40  # 400 people, or 10 with 40 photos each
    (over_many,), (over_few,) = (measure_rates(hits, among, people, known=True) for people in (each, ten))
    assert (over_many.count, over_many.of, over_many.people, over_few.people) == (200, 400, 400, 10)
    assert (over_few.high or 0) - (over_few.low or 0) > 4 * ((over_many.high or 0) - (over_many.low or 0))
    assert over_few.small
    assert not over_many.small


def test_a_rate_of_nobody_has_no_value() -> None:
    (rate,) = measure_rates(np.ones((3, 1), dtype=bool), np.zeros((3, 1), dtype=bool), np.arange(3), known=True)
    assert (rate.share, rate.low, rate.high, rate.row()["rate_of"]) == (None, None, None, 0)
