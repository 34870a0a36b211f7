"""Blending: faces of about the same age lend each other a part of themselves."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from agecli.training.mixup import blend


@given(count=st.integers(1, 9), most=st.floats(0, 1), seed=st.integers(0, 99))
def test_a_face_and_its_age_are_blended_alike_and_with_a_neighbour_only(count: int, most: float, seed: int) -> None:
    torch.manual_seed(seed)
    ages = torch.randperm(count) * 10.0
    faces = ages.view(-1, 1, 1, 1).expand(-1, 3, 2, 2).to(torch.uint8)  # a face that shows its age
    blended, years = blend(faces, ages, most)
    assert torch.allclose(blended.mean((1, 2, 3)), years, atol=1e-4)
    assert ((years - ages).abs() <= 10 * most + 1e-4).all()
    assert torch.isclose(years.max(), ages.max()) or count % 2 == 0


def test_pairs_blend_both_ways_and_an_odd_face_stays_as_it_is() -> None:
    torch.manual_seed(0)
    ages = torch.tensor([30.0, 0.0, 10.0])
    features, years = blend(torch.eye(3), ages, 0.5)
    assert 0 < years[1] < 5 < years[2] < 10
    assert torch.equal(features[0], torch.eye(3)[0])
    assert features[1, 2] == years[1] / 10
    assert features[2, 1] > 0
