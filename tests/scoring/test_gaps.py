"""The largest gap between groups, by hand and by its law: it is found when it is there and unsure when it is not."""

from __future__ import annotations

import numpy as np
import pytest

from agecli.scoring.gaps import GAP_COLUMNS, largest_gaps
from tests.scoring.test_groups import predictions_of

RACES = ("A", "B", "C")


def test_the_two_groups_that_differ_most_by_hand() -> None:
    errors = {"A": 1, "B": -4, "C": 2}
    faces = [(30, 30 + errors[race], "F", race) for race in RACES for _ in range(40)]
    small = [(30, 90, "F", "D")] * 29  # too few to be compared
    gaps = {(row["by"], row["metric"]): row for row in largest_gaps(predictions_of(*faces, *small))}
    mae, bias = gaps["race", "mae"], gaps["race", "bias"]
    assert (mae["group"], mae["other"], mae["difference"], mae["pairs"]) == ("B", "A", 3, 3)
    assert (bias["group"], bias["other"], bias["difference"]) == ("C", "B", 6)
    assert (mae["images"], mae["other_images"], mae["value"], mae["other_value"]) == (40, 40, 4, 1)
    assert ("sex", "mae") not in gaps  # one sex alone has no gap
    assert set(mae) <= set(GAP_COLUMNS)


def test_the_interval_of_the_difference_is_that_of_two_means() -> None:
    random = np.random.default_rng(1)
    faces = [(30, 30 + abs(random.normal(4, 2)), sex, "") for sex in "FM" for _ in range(200)]
    gap = next(row for row in largest_gaps(predictions_of(*faces)) if row["metric"] == "mae")
    assert gap["difference_low"] < gap["difference"] < gap["difference_high"]
    width = gap["difference_high"] - gap["difference_low"]
    assert width == pytest.approx(2 * 1.96 * 2 * (2 / 200) ** 0.5, rel=0.2)  # two means with sigma 2
