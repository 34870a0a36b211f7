"""Augmentation: functions of a seed alone that keep the face where it is."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from agecli.images.reading import PictureSpec, cut
from agecli.training.augmentation import Augmentation, hide_outside, wild

SPEC = PictureSpec(112, 112 / 144, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))


def picture() -> Image.Image:
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (144, 144, 3), dtype=np.uint8))


@pytest.mark.parametrize("name", ["paper", "modern", "mixed", "wild", "graded"])
def test_the_same_seed_gives_the_same_pixels(name: str) -> None:
    augment = Augmentation(name, SPEC, mask=0.5)
    assert augment(picture(), 7).shape == (3, 112, 112)
    assert (augment(picture(), 7) == augment(picture(), 7)).all()
    assert not (augment(picture(), 7) == augment(picture(), 8)).all()


def test_without_strength_only_the_mirror_is_left() -> None:
    plain = cut(picture(), SPEC).astype(int)
    seen = {seed: wild(picture(), 112, np.random.default_rng(seed), 0.0).astype(int) for seed in range(8)}
    same = [np.abs(pixels - plain).max() <= 1 for pixels in seen.values()]
    mirrored = [np.abs(pixels[:, :, ::-1] - plain).max() <= 1 for pixels in seen.values()]
    assert all(a or b for a, b in zip(same, mirrored, strict=True))
    assert any(same)
    assert any(mirrored)


def test_a_mask_hides_the_margins_and_keeps_the_middle() -> None:
    face = np.asarray(picture())
    for seed in range(20):
        hidden = hide_outside(face, np.random.default_rng(seed))
        assert (hidden[:20] == 128).all()
        assert (hidden[50:120, 40:104] == face[50:120, 40:104]).all()
