"""Protocols: divide the faces of a manifest into folds of training, validation and test parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agecli.core.config import DataConfig
from agecli.core.errors import InputError
from agecli.core.records import Sample
from agecli.core.seeding import generator

REPEATS = 5  # random splits in the paper's setups I and II
SETUP_I_IMAGES = 5492  # of White subjects
SETUP_III_GROUPS = {("Black", "F"): 1285, ("White", "F"): 1285, ("Black", "M"): 3980, ("White", "M"): 3980}
VAL_RANK, TEST_RANK = 2, 5  # CACD: celebrities up to rank 2 validate, up to 5 test, all others train
FAEB_FOLDERS = frozenset(map(str, range(10)))
FAEB_SPLITS = (  # folders of the training, validation and test parts (doc/data_formats.md of the benchmark)
    ((0, 1, 2, 3, 4, 5), (6, 7), (8, 9)),
    ((2, 3, 4, 5, 6, 7), (8, 9), (0, 1)),
    ((4, 5, 6, 7, 8, 9), (0, 1), (2, 3)),
    ((5, 6, 7, 8, 9, 0), (1, 2), (3, 4)),
    ((6, 7, 8, 9, 0, 1), (2, 3), (4, 5)),
)
ADULT, SENIOR = 18, 60  # years
MOST_ROWS = 50_000_000  # in all parts of all folds: leave-one-person-out with 13,000 subjects would fill the memory


@dataclass(frozen=True)
class Fold:
    """The parts of one fold, as sorted indices into the samples of the manifest."""

    number: int  # from 1
    train: tuple[int, ...]
    val: tuple[int, ...]  # held out of the training part; may be empty
    test: tuple[int, ...]

    @property
    def parts(self) -> dict[str, tuple[int, ...]]:
        """The parts by name: train, val, test."""
        return {"train": self.train, "val": self.val, "test": self.test}


def make_folds(samples: Sequence[Sample], config: DataConfig, seed: int, listed: bool = False) -> list[Fold]:
    """The folds of a setup; they depend on the samples and the seed only.

    samples: sorted by path, as in a Manifest.   config: the setup and its shares.
    listed: the samples are a published list already, so setup I does not draw a subset of its own.

    Raises InputError if the setup needs labels that the samples lack, or leaves a part empty.

        make_folds(manifest.samples, DataConfig(setup="lopo"), seed=0)[0].test
    """
    folds = []
    for number, (train, val, test) in enumerate(_parts(samples, config, seed, listed), 1):
        if not val and train:
            val = _hold_out(samples, train, config, seed, number)
        rest = tuple(sorted(set(train) - set(val)))
        for part, name in ((rest, "training"), (test, "test")):
            if not part:
                raise InputError(
                    f"setup {config.setup} leaves no face for the {name} part of fold {number}, of {len(samples)} in all",
                    hint="use more faces, or change data.train_share or data.val_share",
                )
        folds.append(Fold(number, rest, tuple(sorted(val)), tuple(sorted(test))))
    return folds


def leakage(samples: Sequence[Sample], fold: Fold) -> float | None:
    """The share of test faces, 0 to 1, that are in training or validation themselves or by another photo of their subject.

    Faces without a subject count as unseen, so with some of them it is a lower bound; None if no subject is known.
    """
    seen = {*fold.train, *fold.val}
    people = {samples[i].subject for i in seen} - {""}
    if not seen & set(fold.test) and (not people or not any(samples[i].subject for i in fold.test)):
        return None
    return sum(i in seen or samples[i].subject in people for i in fold.test) / len(fold.test)


Parts = tuple[Sequence[int], Sequence[int], Sequence[int]]  # training, validation (empty: not chosen yet) and test


def _parts(samples: Sequence[Sample], config: DataConfig, seed: int, listed: bool) -> list[Parts]:
    """The parts of each fold of a setup, before a validation part is held out."""
    everyone = range(len(samples))
    share = config.train_share
    makers: dict[str, Callable[[], list[Parts]]] = {
        "random": lambda: [_random(everyone, share, seed, 1)],
        "I": lambda: [_random(_white(samples, seed, listed), share, seed, repeat) for repeat in range(1, REPEATS + 1)],
        "II": lambda: [_random(everyone, share, seed, repeat) for repeat in range(1, REPEATS + 1)],
        "III": lambda: _balanced_halves(samples, seed),
        "lopo": lambda: _leave_one_person_out(samples),
        "cacd-train": lambda: [_by_rank(samples, config)],
        "cacd-val": lambda: [_by_rank(samples, config)],
        "subject": lambda: _by_subject(samples, config.folds, seed),
        "column": lambda: [_by_column(samples)],
        "fae-b": lambda: _published_folders(samples),
        "minors": lambda: [_zero_shot_minors(samples)],
    }
    return makers[config.setup]()


def _random(among: Sequence[int], share: float, seed: int, repeat: int) -> Parts:
    """A random split with a share of the faces for training, whoever is on them."""
    order = [among[i] for i in generator(seed, "split", repeat).permutation(len(among)).tolist()]
    cut = round(share * len(among))
    return order[:cut], (), order[cut:]


def _no_race(samples: Sequence[Sample]) -> str:
    """The hint for a group with too few faces."""
    if not any(sample.race for sample in samples):
        return "the labels have no race: put MORPH's own CSV beside its photos, or fill the column race"
    return "this is a protocol for MORPH Album 2; use --setup subject for another data set"


def _white(samples: Sequence[Sample], seed: int, listed: bool) -> Sequence[int]:
    """The faces of setup I. The paper's list is not published, so a random subset is drawn unless a list was given."""
    if listed:
        return range(len(samples))
    white = [i for i, sample in enumerate(samples) if sample.race == "White"]
    if len(white) < SETUP_I_IMAGES:
        raise InputError(
            f"setup I takes {SETUP_I_IMAGES} faces of White subjects, and there are {len(white)}",
            hint=_no_race(samples),
        )
    drawn = generator(seed, "split", "I").permutation(len(white))[:SETUP_I_IMAGES]
    return sorted(white[i] for i in drawn.tolist())


def _balanced_halves(samples: Sequence[Sample], seed: int) -> list[Parts]:
    """Setup III: S1 and S2, with the same numbers of each race and sex; train on one, test on all other faces."""
    halves: tuple[list[int], list[int]] = ([], [])
    for (race, sex), count in SETUP_III_GROUPS.items():
        group = [i for i, sample in enumerate(samples) if sample.race == race and sample.sex == sex]
        if len(group) < 2 * count:
            people = "women" if sex == "F" else "men"
            raise InputError(
                f"setup III takes 2 x {count} faces of {race} {people}, and there are {len(group)}",
                hint=_no_race(samples),
            )
        order = [group[i] for i in generator(seed, "split", "III", race, sex).permutation(len(group)).tolist()]
        halves[0].extend(order[:count])
        halves[1].extend(order[count : 2 * count])
    everyone = set(range(len(samples)))
    return [(sorted(half), (), sorted(everyone - set(half))) for half in halves]


def _subjects(samples: Sequence[Sample], setup: str) -> dict[str, list[int]]:
    """The faces of each subject, sorted by subject. Raises InputError for a face without one, or a single subject."""
    groups: dict[str, list[int]] = {}
    for i, sample in enumerate(samples):
        if not sample.subject:
            raise InputError(
                f"setup {setup} needs to know whose face each is, and {sample.path} has no subject",
                hint="fill the column subject, or use --setup random",
            )
        groups.setdefault(sample.subject, []).append(i)
    if len(groups) < 2:
        raise InputError(
            f"setup {setup} needs at least two subjects, and all faces are of {next(iter(groups))!r}",
            hint="use --setup random, or add faces of other people",
        )
    return dict(sorted(groups.items()))


def _by_subject(samples: Sequence[Sample], folds: int, seed: int) -> list[Parts]:
    """k folds of about equal size, with each subject in one of them."""
    groups = _subjects(samples, "subject")
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
    return [(sorted(everyone - set(part)), (), part) for part in parts]


def _leave_one_person_out(samples: Sequence[Sample]) -> list[Parts]:
    """A fold for each subject, whose faces are its test part."""
    groups = _subjects(samples, "lopo")
    if len(groups) * len(samples) > MOST_ROWS:
        raise InputError(
            f"setup lopo would train {len(groups)} models on about {len(samples)} faces each",
            hint="use --setup subject: a few folds, and no subject in two of them either",
        )
    everyone = set(range(len(samples)))
    return [(sorted(everyone - set(faces)), (), faces) for faces in groups.values()]


def _by_rank(samples: Sequence[Sample], config: DataConfig) -> Parts:
    """CACD's parts, by the rank of a celebrity among those born in the same year."""
    parts: dict[str, list[int]] = {"val": [], "test": [], "train": []}
    for i, sample in enumerate(samples):
        if not sample.rank.isdigit():
            raise InputError(
                f"setup {config.setup} goes by the rank of a celebrity, and {sample.path} has {sample.rank or 'none'}",
                hint="put celebrity2000_meta.mat beside the photos, or fill the column rank",
            )
        rank = int(sample.rank)
        parts["val" if rank <= VAL_RANK else "test" if rank <= TEST_RANK else "train"].append(i)
    if config.setup == "cacd-val":
        return parts["val"], (), parts["test"]
    return parts["train"], parts["val"] if config.val_share else (), parts["test"]


def _by_column(samples: Sequence[Sample]) -> Parts:
    """The parts that the column `split` names: train, val (or valid, validation) and test."""
    parts: dict[str, list[int]] = {"train": [], "val": [], "test": []}
    for i, sample in enumerate(samples):
        name = {"valid": "val", "validation": "val"}.get(sample.split.lower(), sample.split.lower())
        if name not in parts:
            raise InputError(
                f"setup column: {sample.path} has {sample.split!r} in the column split",
                hint="it takes train, val or test",
            )
        parts[name].append(i)
    return parts["train"], parts["val"], parts["test"]


def _published_folders(samples: Sequence[Sample]) -> list[Parts]:
    """FAE-B's splits, by the number of each photo's folder: its five, or train, val, test of a set that comes with one."""
    wrong = next((sample for sample in samples if sample.split not in FAEB_FOLDERS), None)
    if wrong:
        raise InputError(
            f"setup fae-b: {wrong.path} has {wrong.split or 'nothing'!r} in the column split, not the number of a folder",
            hint="put the benchmark's JSON file of this data set beside the photos, and preprocess them again",
        )
    folder = [int(sample.split) for sample in samples]
    splits = FAEB_SPLITS if max(folder) > 2 else (((0,), (1,), (2,)),)
    return [
        (*([i for i, number in enumerate(folder) if number in part] for part in split),)  # type: ignore[misc]
        for split in splits
    ]


def _zero_shot_minors(samples: Sequence[Sample]) -> Parts:
    """Train on ages 18 to 59, select on 60 and above, test on those under 18, whom the model has never seen."""
    ages = [sample.age for sample in samples]
    return (
        [i for i, age in enumerate(ages) if ADULT <= age < SENIOR],
        [i for i, age in enumerate(ages) if age >= SENIOR],
        [i for i, age in enumerate(ages) if age < ADULT],
    )


def _hold_out(
    samples: Sequence[Sample], train: Sequence[int], config: DataConfig, seed: int, number: int
) -> tuple[int, ...]:
    """A random validation part of about `val_share` of the training faces: whole subjects, where they are known."""
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
