"""Laws of splits: every face in one part, no subject in two where it must not be, and the seed decides all."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agecli.core.config import DataConfig, Setup
from agecli.core.errors import InputError
from agecli.core.records import Sample
from agecli.datasets.protocols import Fold, leakage, make_folds

GROUPS = [("Black", "F"), ("White", "F"), ("Black", "M"), ("White", "M")]


def people(subjects: int = 12, faces: int = 5) -> list[Sample]:
    return [Sample(f"{s:02d}_{i}.jpg", 20.0 + i, subject=f"{s:02d}") for s in range(subjects) for i in range(faces)]


@given(
    setup=st.sampled_from(["random", "I", "II", "subject", "lopo"]),
    seed=st.integers(0, 1000),
    val=st.sampled_from([0.0, 0.1, 0.3]),
    subjects=st.integers(5, 20),
)
def test_no_face_is_in_two_parts_and_each_is_in_one(setup: Setup, seed: int, val: float, subjects: int) -> None:
    samples = people(subjects)
    for fold in make_folds(samples, DataConfig(setup=setup, val_share=val), seed, listed=True):
        assert sorted((*fold.train, *fold.val, *fold.test)) == list(range(len(samples)))
        assert not {samples[i].subject for i in fold.val} & {samples[i].subject for i in fold.train}
        assert bool(fold.val) == (val > 0)


@pytest.mark.parametrize(("setup", "count"), [("subject", 5), ("lopo", 12)])
def test_folds_by_subject_test_each_face_once_and_leak_nothing(setup: Setup, count: int) -> None:
    samples = people()
    folds = make_folds(samples, DataConfig(setup=setup), 0)
    assert len(folds) == count
    assert sorted(i for fold in folds for i in fold.test) == list(range(len(samples)))
    assert all(leakage(samples, fold) == 0 for fold in folds)


def test_setup_ii_is_five_random_80_20_splits() -> None:
    samples = people(20)
    folds = make_folds(samples, DataConfig(setup="II", val_share=0), 0)
    assert [(len(fold.train), len(fold.test)) for fold in folds] == [(80, 20)] * 5
    assert len({fold.test for fold in folds}) == 5
    assert all((leakage(samples, fold) or 0) > 0.9 for fold in folds)


def morph(women: int = 2600, men: int = 8000, others: int = 500) -> list[Sample]:
    """Faces of Black and White women and men, and of others, several of each person."""
    counts = [(*group, women if group[1] == "F" else men) for group in GROUPS] + [("Asian", "M", others)]
    return [
        Sample(f"{race}{sex}{i:05d}.jpg", 20.0 + i % 40, f"{race}{sex}{i // 4}", sex, race)
        for race, sex, count in counts
        for i in range(count)
    ]


@pytest.mark.parametrize("val", [0.0, 0.1])
def test_setup_iii_trains_on_one_balanced_half_and_tests_on_all_the_rest(val: float) -> None:
    samples = morph()
    one, two = make_folds(samples, DataConfig(setup="III", val_share=val), 0)
    s1, s2 = ({*fold.train, *fold.val} for fold in (one, two))
    assert len(s1) == len(s2) == 10_530
    assert not s1 & s2
    for half in (s1, s2):
        count = [sum((samples[i].race, samples[i].sex) == group for i in half) for group in GROUPS]
        assert count == [1285, 1285, 3980, 3980]
    for fold, half in ((one, s1), (two, s2)):
        assert sorted(half) + sorted(fold.test) == sorted(half) + sorted(set(range(len(samples))) - half)
        assert not set(fold.train) & set(fold.val)
        assert (leakage(samples, fold) or 0) > 0.3  # the protocol's halves share people


def test_setup_iii_is_an_error_when_a_group_is_short_or_race_is_not_known() -> None:
    with pytest.raises(InputError, match="2 x 1285 faces of Black women, and there are 2569"):
        make_folds(morph(women=2569), DataConfig(setup="III"), 0)
    with pytest.raises(InputError) as caught:
        make_folds([dataclasses.replace(s, race="") for s in morph()], DataConfig(setup="III"), 0)
    assert "labels have no race" in caught.value.hint


def test_setup_i_draws_5492_faces_of_white_subjects_and_splits_them_five_times() -> None:
    samples = morph()
    folds = make_folds(samples, DataConfig(setup="I", val_share=0), 0)
    faces = [{*fold.train, *fold.test} for fold in folds]
    assert len(folds) == 5
    assert all(used == faces[0] for used in faces)
    assert {samples[i].race for i in faces[0]} == {"White"}
    assert [(len(fold.train), len(fold.test)) for fold in folds] == [(4394, 1098)] * 5
    with pytest.raises(InputError, match="5492 faces of White subjects, and there are 60"):
        make_folds([dataclasses.replace(s, race="White") for s in people()], DataConfig(setup="I"), 0)


def celebrities() -> list[Sample]:
    return [
        Sample(f"{name:02d}_{i}.jpg", 30.0, f"{name:02d}", rank=str(rank))
        for name, rank in enumerate([*range(1, 9)] * 3)
        for i in range(4)
    ]


def test_cacd_goes_by_rank_and_always_tests_on_the_test_set() -> None:
    samples = celebrities()
    (train,) = make_folds(samples, DataConfig(setup="cacd-train"), 0)
    (val,) = make_folds(samples, DataConfig(setup="cacd-val"), 0)
    ranks = {part: {int(samples[i].rank) for i in indices} for part, indices in train.parts.items()}
    assert ranks == {"train": {6, 7, 8}, "val": {1, 2}, "test": {3, 4, 5}}
    assert val.test == train.test
    assert {int(samples[i].rank) for i in (*val.train, *val.val)} == {1, 2}
    for fold in (train, val):
        subjects = [{samples[i].subject for i in part} for part in fold.parts.values()]
        assert not any(a & b for n, a in enumerate(subjects) for b in subjects[n + 1 :])
        assert leakage(samples, fold) == 0
    with pytest.raises(InputError, match=r"goes by the rank of a celebrity, and 00_0\.jpg has none"):
        make_folds(people(), DataConfig(setup="cacd-train"), 0)


def test_leaving_one_of_very_many_people_out_is_refused() -> None:
    crowd = [Sample(f"{i:05d}.jpg", 20.0, subject=str(i)) for i in range(8000)]
    with pytest.raises(InputError, match="8000 models"):
        make_folds(crowd, DataConfig(setup="lopo"), 0)


def test_the_seed_decides() -> None:  # and not the order of files: tests/datasets/test_splitting.py
    samples = people()
    one = make_folds(samples, DataConfig(), 3)
    assert one == make_folds(samples, DataConfig(), 3)
    assert one != make_folds(samples, DataConfig(), 4)


def test_a_split_of_known_names_stays_what_it_is() -> None:
    """A published number depends on it: the draw must not change with platforms or versions."""
    fold = make_folds(people(4), DataConfig(val_share=0), 0)[0]
    assert fold.test == (4, 6, 13, 14)


def test_the_manifests_own_column() -> None:
    parts = ["train"] * 6 + ["val"] * 2 + ["Test"] * 2
    samples = [Sample(f"{i}.jpg", 20.0, split=part) for i, part in enumerate(parts)]
    (fold,) = make_folds(samples, DataConfig(setup="column"), 0)
    assert (len(fold.train), fold.val, fold.test) == (6, (6, 7), (8, 9))
    with pytest.raises(InputError, match="split"):
        make_folds([dataclasses.replace(samples[0], split="")], DataConfig(setup="column"), 0)


@pytest.mark.parametrize("setup", ["subject", "lopo"])
def test_one_subject_or_none_is_an_error(setup: Setup) -> None:
    with pytest.raises(InputError, match="at least two subjects, and all faces are of '00'"):
        make_folds(people(1), DataConfig(setup=setup), 0)
    with pytest.raises(InputError, match=r"a\.jpg has no subject"):
        make_folds([Sample("a.jpg", 3.0)], DataConfig(setup=setup), 0)


def test_one_subject_leaves_nobody_to_hold_out() -> None:
    with pytest.raises(InputError, match="one subject, '00'"):
        make_folds(people(1), DataConfig(), 0)


@pytest.mark.parametrize("config", [DataConfig(setup="column"), DataConfig(train_share=0.001)])
def test_a_part_without_faces_is_an_error(config: DataConfig) -> None:
    samples = [dataclasses.replace(sample, split="test") for sample in people()]
    with pytest.raises(InputError, match="no face for the training part"):
        make_folds(samples, config, 0)


def test_a_face_that_was_trained_on_counts_as_seen() -> None:
    samples = [Sample(f"{i}.jpg", 20.0) for i in range(10)]
    assert leakage(samples, Fold(1, (0, 1, 2), (), (2, 3, 4, 5))) == 0.25


def test_leakage_is_a_lower_bound_if_some_people_are_not_known() -> None:
    samples = [*people(4), Sample("a.jpg", 20.0)]
    fold = make_folds(people(4), DataConfig(val_share=0), 0)[0]
    assert leakage(samples, Fold(1, fold.train, (), (*fold.test, len(samples) - 1))) == pytest.approx(4 / 5)


def test_leakage_is_not_known_without_subjects() -> None:
    samples = [Sample(f"{i}.jpg", 20.0) for i in range(10)]
    assert leakage(samples, make_folds(samples, DataConfig(), 0)[0]) is None


def faeb(*folders: int) -> list[Sample]:
    return [Sample(f"{n:03}.jpg", 30.0, split=str(folder)) for n, folder in enumerate(folders)]


def test_fae_b_has_its_five_published_splits() -> None:
    folds = make_folds(faeb(*range(10)), DataConfig(setup="fae-b"), seed=0)
    assert [fold.test for fold in folds] == [(8, 9), (0, 1), (2, 3), (3, 4), (4, 5)]
    assert [fold.val for fold in folds] == [(6, 7), (8, 9), (0, 1), (1, 2), (2, 3)]
    assert folds[3].train == (0, 5, 6, 7, 8, 9)
    (own,) = make_folds(faeb(0, 1, 2, 0), DataConfig(setup="fae-b"), seed=0)  # a set with parts of its own
    assert (own.train, own.val, own.test) == ((0, 3), (1,), (2,))
    with pytest.raises(InputError, match="not the number of a folder"):
        make_folds(faeb(0, 1, 12), DataConfig(setup="fae-b"), seed=0)


def test_zero_shot_minors_are_tested_by_a_model_that_never_saw_one() -> None:
    samples = [Sample(f"{age:03}.jpg", float(age)) for age in (5, 17, 18, 40, 59, 60, 80)]
    (fold,) = make_folds(samples, DataConfig(setup="minors"), seed=0)
    assert (fold.train, fold.val, fold.test) == ((2, 3, 4), (5, 6), (0, 1))
