"""Groups and age checks by hand."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from agecli.core.ages import AgeGrid
from agecli.core.errors import InputError
from agecli.core.files import read_csv
from agecli.core.records import Sample
from agecli.scoring.groups import GROUP_COLUMNS, breakdown, columns, parse_challenge, write_pooled, write_results
from agecli.scoring.metrics import Predictions


def said(*faces: tuple[float, float, str, str]) -> Predictions:
    """Each is (age, predicted, sex, race); the surest are those with the smallest errors."""
    samples = tuple(Sample(f"{i}.jpg", age, f"s{i}", sex, race) for i, (age, _, sex, race) in enumerate(faces))
    predicted = np.array([face[1] for face in faces], dtype=float)
    width = 1 + np.abs(predicted - [face[0] for face in faces])
    pmf = np.full((len(faces), 121), 1 / 121, np.float32)
    return Predictions(
        samples, pmf, AgeGrid(), predicted, width, predicted - width, predicted + width, calibrated=False
    )


FACES = said(
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


def test_age_checks_by_hand() -> None:
    row = breakdown(FACES, (18.0, 25.0))[0]
    assert row["fpr_18_low"] is None  # three people under 18 are too few for a confidence interval
    assert row["fpr_18"] == pytest.approx(2 / 3, abs=1e-4)  # of three under 18, those of 15 and 17 taken for 20 and 26
    assert row["fnr_18"] == pytest.approx(1 / 3, abs=1e-4)  # of three entitled, the one of 18 taken for 17
    assert row["fpr_18_25"] == pytest.approx(1 / 3, abs=1e-4)  # under 18 and taken for at least 25
    assert row["fnr_18_25"] == pytest.approx(2 / 3, abs=1e-4)  # entitled at 18, but asked for a paper
    assert row["fpr_25"] == pytest.approx(1 / 4, abs=1e-4)
    assert row["fnr_25"] == pytest.approx(1 / 2, abs=1e-4)
    by_group = {row["group"]: row for row in breakdown(FACES, (18.0,)) if row["by"] == "decade"}
    assert by_group["30-39"]["fpr_18"] is None  # nobody there is under 18
    assert set(row) <= set(columns((18.0, 25.0)))


def test_a_rate_of_nothing_is_not_sure() -> None:
    row = breakdown(said(*[(10, 11, "F", "Black")] * 8), (18.0,))[0]
    assert (row["fpr_18"], row["fpr_18_low"]) == (0, 0)
    assert row["fpr_18_high"] > 0.3
    assert row["coverage"] == row["coverage_high"] == 1
    assert row["coverage_low"] < 0.7


def test_faces_of_one_person_have_no_confidence_interval() -> None:
    faces = said(*[(20 + i, 30, "F", "Black") for i in range(40)])
    one = dataclasses.replace(faces, samples=tuple(dataclasses.replace(s, subject="x") for s in faces.samples))
    row = breakdown(one)[0]
    assert (row["mae_low"], row["mae_high"], row["small"]) == (None, None, 1)
    assert breakdown(faces)[0]["small"] == 0


def test_several_folds_are_written_as_one_with_the_fold_of_each_row(tmp_path: Path) -> None:
    write_pooled(tmp_path, {"1": FACES, "2": FACES})
    assert [row["fold"] for row in read_csv(tmp_path / "predictions.csv")] == ["1"] * 6 + ["2"] * 6
    assert read_csv(tmp_path / "metrics.csv")[0]["images"] == "12"


@pytest.mark.parametrize("text", ["nan", "-5", "inf", "18;25", "x"])
def test_only_ages_can_be_checked(text: str) -> None:
    with pytest.raises(InputError, match="no list of ages"):
        parse_challenge(text)


def test_what_is_no_age_is_said() -> None:
    assert parse_challenge("25, 18") == (18.0, 25.0)
    assert parse_challenge(None) == ()
    with pytest.raises(InputError, match="`18;25` is no list of ages"):
        parse_challenge("18;25")


def test_metrics_csv_begins_with_all_faces(tmp_path: Path) -> None:
    write_results(tmp_path, FACES, {})
    rows = read_csv(tmp_path / "metrics.csv")
    assert list(rows[0]) == list(GROUP_COLUMNS)
    assert (rows[0]["by"], rows[0]["images"]) == ("all", "6")
    assert float(rows[0]["mae_low"]) <= float(rows[0]["mae"]) <= float(rows[0]["mae_high"])
