"""Both temperatures are pure functions of the number of leaf updates."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agecli.forest.schedules import leaf_temperature, split_temperature


def test_the_papers_schedule() -> None:
    assert [split_temperature(n, 1.0, 0.9) for n in range(3)] == pytest.approx([1.0, 0.9, 0.81])
    assert [leaf_temperature(n, 0.5, 0.9) for n in range(3)] == pytest.approx([0.5, 0.5 / 0.9, 0.5 / 0.81])
    assert leaf_temperature(6, 0.5, 0.9) < 1
    assert leaf_temperature(7, 0.5, 0.9) == 1


def test_a_cold_split_temperature_is_exactly_zero() -> None:
    assert split_temperature(65, 1.0, 0.9) > 0
    assert split_temperature(66, 1.0, 0.9) == 0
    assert split_temperature(0, 0.0, 0.9) == 0


@given(start=st.floats(0.01, 1), cooling=st.floats(0.1, 0.99), n=st.integers(0, 200))
def test_each_update_cools_by_eta(start: float, cooling: float, n: int) -> None:
    now, then = split_temperature(n, start, cooling), split_temperature(n + 1, start, cooling)
    assert then in (0.0, pytest.approx(cooling * now))
    assert leaf_temperature(n + 1, start, cooling) == pytest.approx(
        min(1.0, leaf_temperature(n, start, cooling) / cooling)
    )
