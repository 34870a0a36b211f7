"""Confidence intervals keep their word in simulated repeats, also when the faces of a person fail together."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from agecli.core.ages import Floats
from agecli.core.records import Sample
from agecli.scoring.bootstrap import percentile_interval, resampled_means, subject_ids, two_sided_p, wilson_interval


def simulated(dice: np.random.Generator, subjects: int = 80) -> tuple[Floats, NDArray[np.int64]]:
    """|error| of some faces of each subject, who has an error of their own; the true mean is 5."""
    who = np.repeat(np.arange(subjects), dice.integers(1, 8, subjects))
    own = dice.gamma(4, 1.0, subjects)  # mean 4
    return own[who] + dice.gamma(1, 1.0, len(who)), who


@pytest.mark.parametrize("by_subject", [True, False])
def test_intervals_cover_the_truth_in_about_95_of_100_repeats(by_subject: bool) -> None:
    dice = np.random.default_rng(0)
    covered = 0
    for _ in range(400):
        error, who = simulated(dice)
        who = who if by_subject else np.arange(len(who))
        low, high = percentile_interval(resampled_means(error[:, None], np.ones((len(error), 1)), who, resamples=300))
        covered += bool(low[0] <= 5 <= high[0])
    if by_subject:
        assert 0.915 <= covered / 400 <= 0.975
    else:  # faces are not independent: whoever resamples them is far too sure
        assert covered / 400 < 0.85


def test_a_paired_difference_has_a_narrower_interval_than_its_parts() -> None:
    dice = np.random.default_rng(1)
    error, who = simulated(dice)
    both = np.stack([error, error + dice.normal(0.2, 0.3, len(error))], axis=1)
    draws = resampled_means(both, np.ones_like(both), who)
    low, high = percentile_interval(draws)
    difference = draws[:, 1] - draws[:, 0]
    ends = percentile_interval(difference[:, None])
    assert high[0] > low[1]  # each alone could be the better one
    assert ends[0][0] > 0  # face by face it is sure
    assert two_sided_p(difference) < 0.01
    assert two_sided_p(-difference) < 0.01
    assert two_sided_p(dice.normal(0, 1, 1000)) > 0.5


def test_each_column_is_a_mean_over_its_own_faces() -> None:
    values = np.array([[1.0, 1.0], [2.0, 0.0], [3.0, 0.0]])
    among = np.array([[1.0, 1.0], [1.0, 0.0], [1.0, 0.0]])
    draws = resampled_means(values, among, np.arange(3))
    assert draws[:, 0].mean() == pytest.approx(2, abs=0.1)
    assert set(draws[~np.isnan(draws[:, 1]), 1]) == {1.0}
    assert np.isnan(draws[:, 1]).any()  # the one face it is about is not in every sample
    assert np.isnan(percentile_interval(draws * np.nan)[0]).all()


def test_a_face_without_a_subject_is_its_own() -> None:
    faces = [Sample(path, 30.0, subject) for path, subject in zip("vwxyzw", ["a", "", "a", "", "b", ""], strict=True)]
    assert subject_ids(faces).tolist() == [0, 1, 0, 2, 3, 1]  # also if it is tested twice


def test_shares_of_0_and_1_have_an_interval() -> None:
    low, high = wilson_interval(0.0, 8)
    assert low == 0
    assert high == pytest.approx(0.324, abs=0.002)
    assert wilson_interval(1.0, 8)[0] == pytest.approx(1 - high)


def test_the_same_faces_give_the_same_interval() -> None:
    error, who = simulated(np.random.default_rng(2))
    one, two = (resampled_means(error[:, None], np.ones((len(error), 1)), who) for _ in range(2))
    assert np.array_equal(one, two)
