"""Protocols: which faces a model learns from and which it is tested on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agecli.config import DataConfig
from agecli.data.manifest import Sample
from agecli.errors import InputError
from agecli.randomness import generator

REPEATS = 5  # of the random split, in the paper's setups I and II


@dataclass(frozen=True)
class Fold:
    """Indices into the manifest's samples. `val` was held out of the training part."""

    number: int  # from 1
    train: tuple[int, ...]
    val: tuple[int, ...]
    test: tuple[int, ...]


def make_folds(samples: Sequence[Sample], config: DataConfig, seed: int) -> list[Fold]:
    """The folds of a setup, a function of the samples and the seed alone."""
    folds = []
    for number, (train, test) in enumerate(_pairs(samples, config, seed), 1):
        val = _hold_out(samples, train, config, seed, number) if train else ()
        rest = tuple(sorted(set(train) - set(val)))
        for part, name in ((rest, "training"), (test, "test")):
            if not part:
                raise InputError(
                    f"setup {config.setup} leaves no face for the {name} part of fold {number}, of {len(samples)} in all",
                    hint="use more faces, or change data.train_share or data.val_share",
                )
        folds.append(Fold(number, rest, val, tuple(sorted(test))))
    return folds


def leakage(samples: Sequence[Sample], fold: Fold) -> float | None:
    """The share of test faces that were seen in training or validation, or whose subject was; None if that is not known."""
    seen = {*fold.train, *fold.val}
    people = {samples[i].subject for i in seen}
    if not all(samples[i].subject for i in (*seen, *fold.test)) and not seen & set(fold.test):
        return None
    return sum(i in seen or (samples[i].subject != "" and samples[i].subject in people) for i in fold.test) / len(
        fold.test
    )


Pair = tuple[Sequence[int], Sequence[int]]  # the training and the test part


def _pairs(samples: Sequence[Sample], config: DataConfig, seed: int) -> list[Pair]:
    if config.setup == "subject":
        return _by_subject(samples, config.folds, seed)
    if config.setup == "lopo":
        return _leave_one_person_out(samples)
    if config.setup == "column":
        return [_by_column(samples)]
    repeats = REPEATS if config.setup == "II" else 1
    return [_random(samples, config.train_share, seed, repeat) for repeat in range(1, repeats + 1)]


def _random(samples: Sequence[Sample], share: float, seed: int, repeat: int) -> Pair:
    order = generator(seed, "split", repeat).permutation(len(samples)).tolist()
    cut = round(share * len(samples))
    return order[:cut], order[cut:]


def _subjects(samples: Sequence[Sample], indices: Sequence[int], setup: str) -> dict[str, list[int]]:
    """The faces of each subject."""
    groups: dict[str, list[int]] = {}
    for i in indices:
        if not samples[i].subject:
            raise InputError(
                f"setup {setup} needs to know whose face each is, and {samples[i].path} has no subject",
                hint="fill the column subject, or use --setup random",
            )
        groups.setdefault(samples[i].subject, []).append(i)
    if len(groups) < 2:
        raise InputError(
            f"setup {setup} needs at least two subjects, and all faces are of {next(iter(groups))!r}",
            hint="use --setup random, or add faces of other people",
        )
    return dict(sorted(groups.items()))


def _by_subject(samples: Sequence[Sample], folds: int, seed: int) -> list[Pair]:
    """k folds of about as many faces each, no subject in two of them."""
    groups = _subjects(samples, range(len(samples)), "subject")
    if not 2 <= folds <= len(groups):
        raise InputError(
            f"{len(groups)} subjects can't be put in {folds} folds", hint=f"set data.folds to 2 to {len(groups)}"
        )
    names = list(groups)
    order = [names[i] for i in generator(seed, "split", "subject").permutation(len(names))]
    parts: list[list[int]] = [[] for _ in range(folds)]
    for name in sorted(order, key=lambda name: -len(groups[name])):  # the largest first, each to the smallest part
        min(parts, key=len).extend(groups[name])
    everyone = set(range(len(samples)))
    return [(sorted(everyone - set(part)), part) for part in parts]


def _leave_one_person_out(samples: Sequence[Sample]) -> list[Pair]:
    groups = _subjects(samples, range(len(samples)), "lopo")
    everyone = set(range(len(samples)))
    return [(sorted(everyone - set(faces)), faces) for faces in groups.values()]


def _by_column(samples: Sequence[Sample]) -> Pair:
    parts: dict[str, list[int]] = {"train": [], "test": []}
    for i, sample in enumerate(samples):
        name = {"val": "train", "valid": "train", "validation": "train"}.get(sample.split.lower(), sample.split.lower())
        if name not in parts:
            raise InputError(
                f"setup column: {sample.path} has {sample.split!r} in the column split",
                hint="it takes train, val or test",
            )
        parts[name].append(i)
    return parts["train"], parts["test"]


def _hold_out(
    samples: Sequence[Sample], train: Sequence[int], config: DataConfig, seed: int, number: int
) -> tuple[int, ...]:
    """The validation part: the manifest's own if its column says so, else whole subjects where they are known."""
    if config.setup == "column" and any(samples[i].split.lower().startswith("val") for i in train):
        return tuple(i for i in sorted(train) if samples[i].split.lower().startswith("val"))
    if config.val_share == 0:
        return ()
    groups: dict[str, list[int]] = {}
    for i in sorted(train):
        groups.setdefault(samples[i].subject or f"\0{i}", []).append(i)  # a face without a subject is its own
    if len(groups) < 2:
        raise InputError(
            f"all training faces are of one subject, {samples[train[0]].subject!r}: none can be held out for validation",
            hint="add faces of other people, or use --set data.val_share=0 --set training.select=last",
        )
    order = generator(seed, "val", number).permutation(len(groups))
    names, wanted = list(groups), max(1, round(config.val_share * len(train)))
    val: list[int] = []
    for position in order[:-1]:  # one subject at least stays in training
        if len(val) >= wanted:
            break
        val += groups[names[position]]
    return tuple(sorted(val))
