"""Perceptual hashes do not change with light, change in a known way in a mirror, and near ones are all found."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from agecli.datasets.perceptual_hash import (
    BITS,
    MIRROR,
    RADIUS,
    SIDE,
    Floats,
    candidates,
    differing_bits,
    fingerprint,
    hashes_of,
    near_pairs,
)


def pictures() -> st.SearchStrategy[np.ndarray[tuple[int, ...], np.dtype[np.float32]]]:
    def smooth(seed: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        noise = np.random.default_rng(seed).integers(0, 256, (12, 12)).astype(np.uint8)
        return np.asarray(Image.fromarray(noise).resize((SIDE, SIDE), Image.Resampling.BICUBIC), dtype=np.float32)

    return st.builds(smooth, st.integers(0, 2**32 - 1))


@given(picture=pictures(), gain=st.floats(0.2, 3), lift=st.floats(-100, 100))
def test_light_and_contrast_do_not_change_a_print(picture: Floats, gain: float, lift: float) -> None:
    changed = (picture * gain + lift).astype(np.float32)
    assert fingerprint(picture) @ fingerprint(changed) == pytest.approx(1, abs=1e-3)


@given(picture=pictures())
def test_a_mirror_image_has_the_mirrored_print(picture: Floats) -> None:
    mirrored = fingerprint(np.ascontiguousarray(picture[:, ::-1]))
    assert np.allclose(mirrored, fingerprint(picture) * MIRROR, atol=1e-4)
    assert np.allclose(mirrored * MIRROR * MIRROR, mirrored)


@given(seed=st.integers(0, 2**32 - 1), count=st.integers(0, 200), planted=st.integers(0, 40))
def test_the_banded_search_finds_what_comparing_all_pairs_finds(seed: int, count: int, planted: int) -> None:
    dice = np.random.default_rng(seed)
    hashes = dice.integers(0, 2**64, count, dtype=np.uint64)
    for _ in range(planted if count else 0):  # near ones, at the radius, just beyond it and at 0
        copy = hashes[dice.integers(count)]
        for bit in dice.choice(BITS, dice.integers(0, RADIUS + 3), replace=False):
            copy ^= np.uint64(1) << np.uint64(bit)
        hashes = np.append(hashes, copy)
    others = hashes ^ np.uint64(int(dice.integers(2)) * 0x0123456789ABCDEF)
    quick = {pair for one, two in near_pairs(hashes, others) for pair in zip(one.tolist(), two.tolist(), strict=True)}
    one, two = np.nonzero(differing_bits(hashes[:, None], others) <= RADIUS)
    assert quick == {(a, b) for a, b in zip(one.tolist(), two.tolist(), strict=True) if a < b}


@given(numbers=st.lists(st.integers(0, 2**64 - 1), min_size=1))
def test_differing_bits_are_counted(numbers: list[int]) -> None:
    hashes = np.array(numbers, dtype=np.uint64)
    expected = [[bin(a ^ b).count("1") for b in numbers] for a in numbers]
    assert differing_bits(hashes[:, None], hashes).tolist() == expected


def test_a_flat_picture_is_like_no_other() -> None:
    flat = fingerprint(np.full((SIDE, SIDE), 200, dtype=np.float32))
    assert not flat.any()
    assert candidates(np.stack([flat, flat, flat])) == []
    assert candidates(np.zeros((0, BITS), dtype=np.float32)) == []


@given(picture=pictures())
def test_a_hash_is_the_signs_of_the_frequencies(picture: Floats) -> None:
    prints = np.stack([fingerprint(picture)])
    (number,) = hashes_of(prints).tolist()
    assert [number >> bit & 1 for bit in range(BITS)] == (prints[0] > 0).astype(int).tolist()
