"""Augmentation: functions of a seed alone that keep the face where it is."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from agecli.images.reading import PictureSpec, cut
from agecli.training.augmentation import Augmentation, hide_outside, old_print, wild

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


def test_a_mask_hides_some_margins_and_keeps_the_middle() -> None:
    face = np.asarray(picture())
    hidden = [hide_outside(face, np.random.default_rng(seed)) for seed in range(20)]
    assert all((masked[62:100, 50:94] == face[62:100, 50:94]).all() for masked in hidden)
    shares = [(masked == 128).all(axis=2).mean() for masked in hidden]
    assert max(shares) < 0.6
    assert np.mean(np.array(shares) > 0.05) > 0.8


def test_masks_are_turned_as_the_frames_of_leaning_heads_are() -> None:
    white = np.full((144, 144, 3), 255, np.uint8)
    masks = [hide_outside(white, np.random.default_rng(seed))[:, :, 0] == 128 for seed in range(20)]
    slanted = [mask[:, 20:124].any() and (mask.argmin(0)[20:124].std() > 1) for mask in masks]
    assert np.mean(slanted) > 0.3


def test_an_old_print_keeps_the_face_and_fades_its_colours() -> None:
    light = np.random.default_rng(1).random((112, 112, 3)).astype(np.float32)
    for seed in range(10):
        faded = old_print(light, np.random.default_rng(seed))
        assert faded.shape == light.shape
        assert np.isfinite(faded).all()
        assert np.corrcoef(faded.mean(2).ravel(), light.mean(2).ravel())[0, 1] > 0.5
        assert np.ptp(faded, axis=2).mean() < np.ptp(light, axis=2).mean()
