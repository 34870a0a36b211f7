"""Batches are functions of the seed and the iteration: not of workers, ranks or where one starts."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agecli.core.ages import AgeGrid
from agecli.core.records import Sample
from agecli.datasets.manifest import read_manifest
from agecli.images.reading import PictureSpec
from agecli.training.augmentation import augmentation
from agecli.training.batches import Batch, Faces, Stream, every_face, sampling_weights, training_batches

SPEC = PictureSpec(48, 0.875, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))


@given(n=st.integers(1, 50), size=st.integers(1, 20), start=st.integers(0, 30), seed=st.integers(0, 99))
def test_a_stream_that_starts_later_goes_on_where_the_other_is(n: int, size: int, start: int, seed: int) -> None:
    assert list(Stream(n, size, seed, 0, 40))[start:] == list(Stream(n, size, seed, start, 40))


@given(n=st.integers(1, 50), size=st.integers(1, 20), seed=st.integers(0, 99))
def test_each_pass_shows_each_face_once(n: int, size: int, seed: int) -> None:
    drawn = [index for batch in Stream(n, size, seed, 0, 3 * n) for index, _ in batch]
    assert sorted(drawn[:n]) == sorted(drawn[n : 2 * n]) == list(range(n))


@given(weights=st.lists(st.floats(0.01, 10), min_size=1, max_size=50), seed=st.integers(0, 99))
def test_a_weighted_pass_shows_each_face_as_often_as_its_weight_says(weights: list[float], seed: int) -> None:
    n, array = len(weights), np.array(weights)
    stream = Stream(n, n, seed, 0, 3, weights=array)
    for batch in stream:
        shown = np.bincount([index for index, _ in batch], minlength=n)
        assert shown.sum() == n
        assert (abs(shown - array * n / array.sum()) < 1 + 1e-9).all()
    assert list(stream)[1:] == list(Stream(n, n, seed, 1, 3, weights=array))


def test_equal_weights_show_each_face_once() -> None:
    drawn = [index for batch in Stream(50, 10, 0, 0, 5, weights=np.ones(50)) for index, _ in batch]
    assert sorted(drawn) == list(range(50))


def test_rarity_makes_up_for_the_number_of_faces_of_an_age() -> None:
    ages = [5.0] * 10 + [40.0] * 1000
    child, adult = sampling_weights(ages, 1)[[0, -1]]  # type: ignore[index]
    assert child / adult == pytest.approx(100)
    half = sampling_weights(ages, 0.5)
    assert half is not None
    assert half[0] / half[-1] == pytest.approx(10)
    assert sampling_weights(ages, 0) is None


def test_a_face_is_drawn_as_often_as_its_weight_says() -> None:
    weights = sampling_weights([30.0] * 4, 0, [1, 1, 1, 3])
    drawn = [index for batch in Stream(4, 6, 0, 0, 100, weights=weights) for index, _ in batch]
    assert drawn.count(3) / len(drawn) == pytest.approx(0.5, abs=0.01)


def test_balance_evens_out_the_weights_of_ages() -> None:
    weights = sampling_weights([5.0, 40.0, 40.0], 1, [1, 1, 9])
    assert weights is not None
    assert weights[0] == pytest.approx(weights[1:].sum())
    assert weights[2] / weights[1] == pytest.approx(9)


@given(n=st.integers(1, 50), size=st.integers(1, 20), ranks=st.integers(1, 4))
def test_ranks_share_out_each_batch(n: int, size: int, ranks: int) -> None:
    whole = list(Stream(n, size, 0, 0, 5))
    parts = [list(Stream(n, size, 0, 0, 5, rank, ranks)) for rank in range(ranks)]
    for iteration, batch in enumerate(whole):
        assert sorted(key for part in parts for key in part[iteration]) == sorted(batch)


def batches(toy: Path, workers: int, name: str) -> list[Batch]:
    samples = read_manifest(toy, AgeGrid()).samples
    faces = Faces(toy, samples, SPEC, pickle.loads(pickle.dumps(augmentation(name, SPEC))), seed=3)  # as to a worker
    return list(training_batches(faces, Stream(len(samples), 8, 3, 0, 3), workers, pin=False))


@pytest.mark.parametrize("name", ["paper", "modern", "mixed", "wild"])
def test_augmentation_is_the_same_with_and_without_workers(toy: Path, name: str) -> None:
    torch.manual_seed(0)
    alone = batches(toy, 0, name)
    torch.manual_seed(1)
    helped = batches(toy, 2, name)
    assert all(
        torch.equal(a.inputs, b.inputs) and torch.equal(a.ages, b.ages) for a, b in zip(alone, helped, strict=True)
    )
    assert alone[0].inputs.shape == (8, 3, 48, 48)
    assert alone[0].inputs.dtype == torch.uint8


@pytest.mark.parametrize("name", ["paper", "modern", "mixed", "wild"])
def test_augmentation_changes_the_picture_from_pass_to_pass(toy: Path, name: str) -> None:
    faces = Faces(toy, read_manifest(toy, AgeGrid()).samples, SPEC, augmentation(name, SPEC), seed=3)
    first, second = faces[0, 0][0], faces[0, 120][0]
    assert first is not None
    assert second is not None
    assert not torch.equal(first, second)


def test_a_broken_picture_is_named_and_left_out(toy: Path, tmp_path: Path) -> None:
    good = read_manifest(toy, AgeGrid()).samples[0]
    (tmp_path / "bad.jpg").write_text("no picture")
    (tmp_path / "cut.jpg").write_bytes((toy / good.path).read_bytes()[:900])
    (tmp_path / "good.jpg").write_bytes((toy / good.path).read_bytes())
    samples = [Sample(name, 30.0) for name in ("bad.jpg", "cut.jpg", "good.jpg", "gone.jpg")]
    (batch,) = every_face(Faces(tmp_path, samples, SPEC), 8, workers=0)
    assert batch.indices == (2,)
    assert {path: reason.split(":")[0] for path, reason in batch.broken} == {
        "bad.jpg": "it is not a picture, or of a kind that can't be read",
        "cut.jpg": "it is damaged",
        "gone.jpg": "there is no such file",
    }
