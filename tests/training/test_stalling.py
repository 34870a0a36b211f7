"""Stalled runs are told of, once, and with a remedy."""

from __future__ import annotations

import math

import pytest

from agecli.core.config import Config, replace
from agecli.training.stalling import PATIENCE, StallCheck

MOST = math.log(32)


def test_a_run_at_the_largest_entropy_is_stalled_once() -> None:
    check = StallCheck(Config())
    said = [check(MOST, 0.0) for _ in range(3 * PATIENCE)]
    assert [text for text in said if text] == [said[PATIENCE - 1]]


@pytest.mark.parametrize(("entropy", "T"), [(MOST, 0.5), (0.9 * MOST, 0.0)])
def test_warm_splits_and_deciding_splits_are_not_stalled(entropy: float, T: float) -> None:
    check = StallCheck(Config())
    assert not any(check(entropy, T) for _ in range(3 * PATIENCE))


@pytest.mark.parametrize(("standardise", "says"), [("true", "--lr"), ("false", "forest.standardise=true")])
def test_it_says_what_to_do(standardise: str, says: str) -> None:
    assert says in StallCheck(replace(Config(), {"forest.standardise": standardise})).message()
