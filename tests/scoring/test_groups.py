"""Groups and age checks by hand."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from agecli.core.ages import AgeGrid
from agecli.core.records import Sample
from agecli.scoring.groups import breakdown
from agecli.scoring.metrics import Predictions


def predictions_of(*faces: tuple[float, float, str, str]) -> Predictions:
    """Each is (age, predicted, sex, race); intervals are narrower for smaller errors."""
    samples = tuple(Sample(f"{i}.jpg", age, f"s{i}", sex, race) for i, (age, _, sex, race) in enumerate(faces))
    predicted = np.array([face[1] for face in faces], dtype=float)
    width = 1 + np.abs(predicted - [face[0] for face in faces])
    pmf = np.full((len(faces), 121), 1 / 121, np.float32)
    return Predictions(
        samples, pmf, AgeGrid(), predicted, width, predicted - width, predicted + width, calibrated=False
    )


FACES = predictions_of(
    (15, 20, "F", "Black"),
    (17, 17, "M", "Black"),
    (17, 26, "M", "White"),
    (18, 17, "F", "White"),
    (30, 24, "F", ""),
    (40, 41, "", "White"),
)


def test_each_face_is_in_its_groups_and_in_their_crossings() -> None:
    rows = {(row["by"], row["group"]): row for row in breakdown(FACES)}
    assert rows["all", "all"]["images"] == 6
    assert rows["decade", "10-19"]["images"] == 4
    assert rows["decade", "10-19"]["mae"] == pytest.approx((5 + 0 + 9 + 1) / 4)
    assert {group: row["images"] for (by, group), row in rows.items() if by == "sex"} == {"F": 3, "M": 2}
    assert {group: row["images"] for (by, group), row in rows.items() if by == "race"} == {"Black": 2, "White": 3}
    assert rows["sex x race", "F Black"]["images"] == 1
    assert rows["decade x sex", "30-39 F"]["bias"] == -6
    assert all(row["small"] for row in rows.values())
    order = [group for by, group in rows if by == "decade"]
    assert order == ["10-19", "30-39", "40-49"]


def test_the_most_certain_faces_are_those_with_the_narrowest_intervals() -> None:
    rows = {row["group"]: row for row in breakdown(FACES) if row["by"] == "certainty"}
    assert rows["50 % with the narrowest intervals"]["mae"] == pytest.approx((0 + 1 + 1) / 3, abs=1e-4)


def test_a_rate_of_0_has_an_interval() -> None:
    row = breakdown(predictions_of(*[(10, 11, "F", "Black")] * 8), (18.0,))[0]
    assert (row["fpr_18"], row["fpr_18_low"]) == (0, 0)
    assert row["fpr_18_high"] > 0.3
    assert row["coverage"] == row["coverage_high"] == 1
    assert row["coverage_low"] < 0.7


def test_faces_of_one_person_have_no_confidence_interval() -> None:
    faces = predictions_of(*[(20 + i, 30, "F", "Black") for i in range(40)])
    one = dataclasses.replace(faces, samples=tuple(dataclasses.replace(s, subject="x") for s in faces.samples))
    row = breakdown(one)[0]
    assert (row["mae_low"], row["mae_high"], row["small"]) == (None, None, 1)
    assert breakdown(faces)[0]["small"] == 0
