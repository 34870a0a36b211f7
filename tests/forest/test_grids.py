"""Laws of distributions that are laid on the age grid."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agecli.core.ages import AgeGrid
from agecli.forest.grids import gaussian_pmf, label_distribution, years

GRID = AgeGrid(0, 100)


@given(y=st.floats(0, 100), alpha=st.sampled_from([0.0, 0.5, 2.0, 10.0]))
def test_a_label_distribution_sums_to_one_and_peaks_at_the_age(y: float, alpha: float) -> None:
    d = label_distribution(torch.tensor([y], dtype=torch.double), alpha, GRID)
    assert d.sum().item() == pytest.approx(1)
    assert abs(d.argmax().item() - y) <= 0.5


def test_alpha_0_is_one_hot() -> None:
    d = label_distribution(torch.tensor([7.0]), 0.0, GRID)[0]
    assert d[7] == d.sum() == 1


def test_a_label_distribution_has_the_ratios_of_its_gaussian() -> None:
    d = label_distribution(torch.tensor([20.0], dtype=torch.double), 2.0, GRID)[0]
    assert (d[22] / d[20]).item() == pytest.approx(torch.tensor(-0.5).exp().item(), rel=1e-6)


@given(mean=st.floats(0, 100), variance=st.floats(0.5, 900))
def test_a_gaussian_laid_on_the_grid_keeps_its_mean_also_at_the_ends(mean: float, variance: float) -> None:
    pmf = gaussian_pmf(torch.tensor([mean]), torch.tensor([variance]), GRID)
    assert pmf.sum().item() == pytest.approx(1)
    assert (pmf * years(GRID, pmf)).sum().item() == pytest.approx(mean, abs=2e-3)


def test_away_from_the_ends_it_is_the_plain_gaussian() -> None:
    plain = torch.exp(-((years(GRID, torch.zeros(1, dtype=torch.double)) - 40.3) ** 2) / (2 * 9))
    tilted = gaussian_pmf(torch.tensor([40.3], dtype=torch.double), torch.tensor([9.0]), GRID)[0]
    assert torch.allclose(tilted, plain / plain.sum(), atol=1e-9)
