"""Every setting, as one frozen tree of dataclasses: made from a preset, a TOML file and `--set`, stored in checkpoints.

A setting's type, default, meaning and bounds stand in one line, its field. The options of `agecli train`, the comments
of `agecli info --settings` and the errors for values out of bounds are made from it.
"""

# ruff: noqa: RUF009 (`setting` makes a dataclass field)
from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from agecli.core.errors import InputError
from agecli.core.reading import shown
from agecli.core.settings import Description, read_toml, replace_in, setting, walk

ModelName = Literal["drf", "dldlf", "dndf", "drf-nrf", "regression"]
Setup = Literal["random", "I", "II", "III", "lopo", "cacd-train", "cacd-val", "subject", "column", "fae-b", "minors"]
Ensemble = Literal["joint", "alternating"]
LeafInit = Literal["quantiles", "uniform", "identical", "narrow", "kmeans"]
Select = Literal["val", "last"]
MOST_LEAVES = 1 << 20  # of a forest; with a distribution in each, they take half a gigabyte


@dataclass(frozen=True)
class AgesConfig:
    """The age grid, in whole years, and how an age is read from a distribution on it."""

    low: int = setting(0, "youngest age of the grid, in years", least=0, most=200, unit="years")
    high: int = setting(120, "oldest age of the grid, in years", most=200, unit="years")
    readout: Literal["paper", "mean", "median", "mode"] = setting(
        "paper", "how an age is read from a distribution; paper: mean for drf, mode for dldlf"
    )
    prior: float = setting(
        0.0, "power of the prior 1 / (age + 3) that distributions are multiplied by; 0: none", least=0, most=10
    )  # against too high ages of young people, see models/README.md
    prior_until: float = setting(
        0.0, "age from which on the prior is flat; 0: it falls to the end", least=0, most=200, unit="years"
    )


@dataclass(frozen=True)
class ForestConfig:
    """The forest: its size, its leaves, and its annealing schedules. Letters are those of the paper."""

    trees: int = setting(5, "trees, K", above=0, most=1000, unit="trees")
    depth: int = setting(6, "levels of nodes in a tree, h, the leaves included", least=2, most=16, unit="levels")
    units: int = setting(128, "outputs of f, M", above=0, most=32_768, unit="units")
    units_std: float = setting(0.005, "std of the Gaussian that initialises the weights of f", least=0, most=100)
    standardise: bool = setting(True, "standardise the inputs of f over the first faces; always done when frozen")
    alpha: float = setting(2.0, "std of a label distribution, in years (dldlf)", least=0, most=100, unit="years")
    leaf_init: LeafInit = setting(
        "quantiles",
        "how leaves start (drf): at quantiles or k-means clusters of the ages, or uninformed (uniform, identical, narrow)",
    )
    variance_floor: float = setting(
        0.5,
        "least variance of a leaf, in years^2; 0: none but the 0.01 that the age grid needs (drf)",
        least=0,
        most=10_000,
        unit="years²",
    )  # integer ages alone have a variance of 1/12 around their true value
    pseudo_count: float = setting(
        0.01, "faces added to each leaf, spread over the age grid (dldlf)", least=0, most=1_000_000, unit="faces"
    )
    noise: float = setting(
        0.0, "share of labels taken as uniform noise; bounds the loss of a face (drf)", least=0, below=1, unit="share"
    )
    split_temperature: float = setting(1.0, "initial temperature of the splits, T_0", least=0, most=1000)
    leaf_temperature: float = setting(0.5, "initial temperature of the leaves, tau_0 (drf)", above=0, most=1000)
    cooling: float = setting(0.9, "factor of both annealing schedules at each leaf update, eta", above=0, most=1)
    update_every: int = setting(
        50, "mini-batches between two leaf updates, n_B", above=0, most=1_000_000, unit="mini-batches"
    )
    update_routing: Literal["cached", "recomputed"] = setting(
        "cached",
        "routing in a leaf update: as each mini-batch was seen (the authors' code), or at the current weights (the text)",
    )
    update_rounds: int = setting(
        20,
        "rounds of variational bounding in a leaf update; 0: leaves stay as they are",
        least=0,
        most=1000,
        unit="rounds",
    )
    assignment: int = setting(0, "number of the random assignment phi, for the same seed", least=0, most=1_000_000)
    ensemble: Ensemble = setting("joint", "trees that learn from a mini-batch: all (joint) or one (alternating, DNDF)")

    @property
    def leaves(self) -> int:
        """Leaves of a tree, L."""
        return int(2 ** (self.depth - 1))

    @property
    def splits(self) -> int:
        """Split nodes of a tree, N = L - 1."""
        return self.leaves - 1


@dataclass(frozen=True)
class BackboneConfig:
    """The network that turns a face picture into features."""

    name: str = setting("timm:tf_efficientnet_lite0", "network: vgg16, resnet18, … of torchvision, or timm:NAME")
    weights: str = setting(
        "imagenet", "initial weights: imagenet, none, a file, or default (the backbone of the bundled model)"
    )
    freeze: bool = setting(False, "keep the backbone's weights; its features are computed once and cached")
    frozen_layers: int = setting(
        0, "first layers of the backbone that are not trained; saves time", least=0, most=10_000, unit="layers"
    )
    drop_path: float = setting(
        0.0,
        "stochastic depth rate of the last block, less for earlier ones (timm)",
        least=0,
        below=1,
        unit="probability",
    )
    stages: int = setting(
        0,
        "last stages whose pooled feature maps are the features; 0: the network's own features",
        least=0,
        most=100,
        unit="stages",
    )
    mirror: bool = setting(False, "features are the mean over a face and its mirror image, which takes twice the time")
    int8: bool = setting(
        False, "linear layers learn to compute in 8-bit integers (EdgeNeXt with pooled stages): half the time"
    )
    exact: int = setting(
        0,
        "integer layers that compute in float32 all the same: those whose rounding changes the features most",
        least=0,
        most=10_000,
        unit="layers",
    )
    hidden: float = setting(
        1.0, "share of the hidden units of each MLP that is kept (EdgeNeXt with pooled stages)", above=0, most=1
    )


@dataclass(frozen=True)
class AlignmentConfig:
    """How the training faces were aligned, read from the `alignment.toml` of `preprocess`; 0 if that is not known."""

    size: int = setting(0, "side of an aligned picture, in pixels", least=0, most=4096, unit="pixels")
    eye_distance: float = setting(0.0, "distance of the eyes, as a share of the side", least=0, most=1, unit="share")
    eye_height: float = setting(
        0.0, "height of the eyes below the upper edge, as a share of the side", least=0, most=1, unit="share"
    )


@dataclass(frozen=True)
class DataConfig:
    """The protocol, the pictures and their augmentation."""

    setup: Setup = setting("random", "protocol that splits the faces into train, val and test")
    train_share: float = setting(
        0.8, "share of the images to train on, in random, I and II", above=0, most=1, unit="share"
    )
    folds: int = setting(5, "folds of the setup subject", most=10_000, unit="folds")
    val_share: float = setting(
        0.1,
        "share of the training subjects held out to select a checkpoint and calibrate intervals",
        least=0,
        below=1,
        unit="share",
    )
    size: int = setting(
        0, "side of the network's input, in pixels; 0: the backbone's own", least=0, most=1024, unit="pixels"
    )
    crop_share: float = setting(
        0.875, "side of the crop, as a share of the side of the face picture", above=0, most=1, unit="share"
    )
    augment: Literal["none", "paper", "modern", "mixed", "wild", "graded"] = setting(
        "modern", "augmentation of training pictures; graded: wild at a random strength"
    )
    mask: float = setting(
        0.0,
        "share of the training faces whose surroundings are masked, as in tightly cut data sets",
        least=0,
        below=1,
        unit="share",
    )
    blend: float = setting(
        0.0, "mixup with a face of about the same age: largest share of the other face", least=0, below=1, unit="share"
    )
    balance: float = setting(0.0, "oversampling of rare ages: 0 draws faces equally often, 1 ages", least=0, most=10)


@dataclass(frozen=True)
class TrainingConfig:
    """The optimiser, its schedule, and when to validate and save."""

    iterations: int = setting(3000, "mini-batches to learn from", above=0, most=100_000_000, unit="mini-batches")
    batch_size: int = setting(32, "faces in a mini-batch, over all processes", above=0, most=65_536, unit="faces")
    optimiser: Literal["sgd", "adamw"] = setting("adamw", "optimiser")
    lr: float = setting(1e-3, "learning rate", above=0, most=1e30)
    backbone_lr: float = setting(1.0, "learning rate of the backbone, as a multiple of lr", least=0, most=1_000_000)
    relative_lr: bool = setting(False, "learning rates of the backbone are shares of the RMS of each tensor")
    layer_decay: float = setting(
        1.0, "factor of the learning rate for each layer of the backbone below the last", above=0, most=1
    )
    unfreeze_every: int = setting(
        0,
        "iterations after which the next lower layer is unfrozen; 0: all at once",
        least=0,
        most=100_000_000,
        unit="mini-batches",
    )
    momentum: float = setting(0.9, "momentum (sgd)", least=0, most=1)
    weight_decay: float = setting(0.05, "weight decay of matrices and kernels", least=0, most=1000)
    schedule: Literal["steps", "cosine"] = setting("cosine", "learning rate schedule")
    warmup: int = setting(
        200,
        "iterations of linear warm-up, at most a tenth of all (cosine)",
        least=0,
        most=100_000_000,
        unit="mini-batches",
    )
    step_every: int = setting(
        10_000,
        "iterations between two drops of the learning rate (steps)",
        above=0,
        most=100_000_000,
        unit="mini-batches",
    )
    step_factor: float = setting(0.5, "factor of the learning rate at each drop (steps)", above=0, most=1)
    clip_norm: float = setting(5.0, "largest norm of the gradient; 0 disables clipping", least=0, most=1_000_000_000)
    eval_every: int = setting(500, "iterations between two validations", above=0, most=100_000_000, unit="mini-batches")
    patience: int = setting(
        0,
        "validations without a lower MAE after which a fold is stopped early; 0 disables it",
        least=0,
        most=100_000_000,
        unit="validations",
    )
    save_every: float = setting(
        60.0, "seconds between two saves of the training state", least=0, most=1_000_000_000, unit="seconds"
    )
    full_entropy: bool = setting(
        False, "history.csv has the entropy of the routing over the whole training part, which takes a pass over it"
    )
    average: float = setting(0.0, "EMA decay of the weights; 0 disables it", least=0, below=1)
    teacher: str = setting("", "trained model with the same forest to learn from, too: default, or a checkpoint")
    distil: float = setting(
        1.0, "weight of the teacher's routing in the loss, which is the KL divergence from it", least=0, most=1000
    )
    select: Select = setting("val", "checkpoint to test: val (lowest validation MAE) or last")
    refresh_leaves: bool = setting(True, "one more leaf update at the end, on routing in evaluation mode")
    amp: bool = setting(True, "mixed precision, on CUDA")
    seed: int = setting(0, "seed of all random numbers", least=-(2**63), most=2**63 - 1)


@dataclass(frozen=True)
class Config:
    """All settings of a run, and of a checkpoint. See `replace` and `check`.

    >>> replace(Config(), {"forest.trees": "7"}).forest.trees
    7
    """

    model: ModelName = setting("drf", "model of the paper, or regression to compare with")
    init: str = setting("", "trained model to fine-tune: default, or a checkpoint")
    ages: AgesConfig = field(default_factory=AgesConfig)
    forest: ForestConfig = field(default_factory=ForestConfig)
    backbone: BackboneConfig = field(default_factory=BackboneConfig)
    alignment: AlignmentConfig = field(default_factory=AlignmentConfig)
    data: DataConfig = field(default_factory=DataConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)


PAPER = Config(
    forest=ForestConfig(standardise=False),
    backbone=BackboneConfig(name="vgg16"),
    data=DataConfig(val_share=0.0, augment="paper"),
    training=TrainingConfig(
        iterations=30_000,
        batch_size=16,
        optimiser="sgd",
        lr=0.05,
        weight_decay=0.0,
        schedule="steps",
        warmup=0,
        clip_norm=0.0,
        select="last",
        refresh_leaves=False,
        amp=False,
    ),
)
PRESETS: dict[str, Config] = {"modern": Config(), "paper": PAPER}


# Settings that define a model of the paper's tables; settings that are given explicitly override them.
IMPLIED: dict[str, dict[str, Any]] = {
    "dndf": {"forest.alpha": 0.0, "forest.split_temperature": 0.0, "forest.ensemble": "alternating"},
    "drf-nrf": {"forest.leaf_init": "kmeans", "forest.split_temperature": 0.0, "forest.leaf_temperature": 1.0},
    # at the paper's learning rate the squared error is no number within 20 iterations (docs/equations.md)
    "regression": {
        "forest.split_temperature": 0.0,
        "forest.standardise": True,
        "training.clip_norm": 1.0,
        "training.lr": 1e-3,
    },
}


FORMER = {("forest.leaf_init", "random"): "quantiles"}  # former values of settings, which are still read


OPTIONS = {  # the settings that `agecli train` and `agecli.train` take under a short name
    "model": "model",
    "init": "init",
    "setup": "data.setup",
    "backbone": "backbone.name",
    "weights": "backbone.weights",
    "freeze": "backbone.freeze",
    "iterations": "training.iterations",
    "batch_size": "training.batch_size",
    "lr": "training.lr",
    "trees": "forest.trees",
    "depth": "forest.depth",
    "units": "forest.units",
    "alpha": "forest.alpha",
    "ensemble": "forest.ensemble",
    "leaf_init": "forest.leaf_init",
    "split_temperature": "forest.split_temperature",
    "leaf_temperature": "forest.leaf_temperature",
    "select": "training.select",
    "seed": "training.seed",
}


def preset(name: str) -> Config:
    """The settings of a preset, `modern` or `paper`. Raises InputError for another name."""
    if name not in PRESETS:
        raise InputError(f"unknown preset `{name}`", hint=f"there are: {', '.join(PRESETS)}")
    return PRESETS[name]


def implied(changes: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that follow from the model among these, by their dotted names."""
    return IMPLIED.get(str(changes.get("model")), {})


def preset_differences() -> set[str]:
    """The dotted names of the settings in which presets differ."""
    values: dict[str, set[Any]] = {}
    for config in PRESETS.values():
        for name, value in settings(config):
            values.setdefault(name, set()).add(value)
    return {name for name, different in values.items() if len(different) > 1}


def settings(config: Any) -> Iterator[tuple[str, Any]]:
    """Every setting and its value, by its dotted name: ("forest.trees", 5), …"""
    return ((name, value) for name, _, value in walk(config))


def describe(name: str) -> Description:
    """The description of a setting by its dotted name. Raises KeyError if there is none.

    >>> describe("forest.trees").about
    'trees, K'
    """
    return {known: description for known, description, _ in walk(Config())}[name]


def replace(config: Config, changes: Mapping[str, Any]) -> Config:
    """The config with some settings changed, by their dotted names. Text is read as the type of the setting.

    Raises InputError for a name that is no setting, with the nearest one, and for a value of another type.
    """
    known = dict(settings(config))
    for name in changes:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
            near = near or [other for other in known if other.split(".")[-1] == name.split(".")[-1]]
            hint = f"did you mean `{near[0]}`?" if near else "`agecli info --settings` lists them all"
            raise InputError(f"unknown setting `{name}`", hint=hint)
    changed: Config = replace_in(config, {name: _current(name, value) for name, value in changes.items()})
    return changed


def _current(name: str, value: Any) -> Any:
    """A value by its current name: configs and checkpoints of older versions have former names."""
    return FORMER.get((name, value), value) if isinstance(value, str) else value


def check(config: Config) -> Config:
    """The config itself, if it describes a run that can be trained.

    Raises InputError for a number out of its bounds, with the name, the value and the bounds, and for settings that
    contradict each other, with what to change.

    >>> check(replace(Config(), {"forest.trees": 0}))
    InputError: `forest.trees` is 0; it must be above 0
    """
    check_bounds(config)
    for contradiction in (_classes_with_spread, _nothing_to_select_on, _blended_with_teacher, _exact_without_integers):
        if error := contradiction(config):
            raise error
    return config


def check_bounds(config: Config) -> Config:
    """The config itself, if a model of these settings can be made: all numbers are within their bounds, and the age grid
    and the forest are neither empty nor too large. Raises InputError otherwise.
    """
    for name, description, value in walk(config):
        if isinstance(value, (int, float)) and not description.bounds.allow(value):
            raise InputError(f"`{name}` is {shown(value)}", hint=f"it must be {description.bounds}")
    for contradiction in (_empty_grid, _too_few_units, _too_many_leaves):
        if error := contradiction(config):
            raise error
    return config


def _empty_grid(config: Config) -> InputError | None:
    """An age grid without ages."""
    low, high = config.ages.low, config.ages.high
    if low < high:
        return None
    return InputError(f"the age grid goes from {low} to {high}", hint="set ages.high above ages.low")


def _too_few_units(config: Config) -> InputError | None:
    """Fewer units of f than split nodes in a tree."""
    forest = config.forest
    if forest.units >= forest.splits:
        return None
    return InputError(
        f"{forest.units} units can't feed the {forest.splits} split nodes of a tree of depth {forest.depth}",
        hint=f"use --units {forest.splits} or more, or a smaller --depth",
    )


def _too_many_leaves(config: Config) -> InputError | None:
    """A forest that takes gigabytes."""
    leaves = config.forest.trees * config.forest.leaves
    if leaves <= MOST_LEAVES:
        return None
    return InputError(
        f"{config.forest.trees} trees of depth {config.forest.depth} have {leaves} leaves",
        hint=f"a forest has at most {MOST_LEAVES}: use fewer --trees or a smaller --depth",
    )


def _classes_with_spread(config: Config) -> InputError | None:
    """DNDF, which has no label distributions, with a spread of them."""
    if config.model != "dndf" or not config.forest.alpha:
        return None
    return InputError(
        f"dndf has one class for each age, and no label distribution with a std of {config.forest.alpha}",
        hint="leave out --alpha, or use --model dldlf",
    )


def _nothing_to_select_on(config: Config) -> InputError | None:
    """Selection by validation error without a validation part."""
    if config.training.select != "val" or config.data.val_share:
        return None
    return InputError(
        "there is no validation part to select the best checkpoint on (`data.val_share` is 0)",
        hint="use --set data.val_share=0.1, or --set training.select=last",
    )


def _blended_with_teacher(config: Config) -> InputError | None:
    """Mixtures of two faces, of which a teacher knows nothing."""
    if not config.training.teacher or not config.data.blend:
        return None
    return InputError(
        f"a teacher says nothing of blended faces (`data.blend` is {config.data.blend})",
        hint="use --set data.blend=0, or no training.teacher",
    )


def _exact_without_integers(config: Config) -> InputError | None:
    """Integer layers that stay exact in a network that has none."""
    if config.backbone.int8 or not config.backbone.exact:
        return None
    return InputError(
        f"`backbone.exact` is {config.backbone.exact}, but there are no integer layers (`backbone.int8` is false)",
        hint="use --set backbone.int8=true, or no backbone.exact",
    )


def to_toml(config: Config, comments: bool = False) -> str:
    """TOML that `from_toml` reads back; with `comments`, each setting's meaning behind it."""
    lines, section = [], ""
    for name, description, value in walk(config):
        head, _, key = name.rpartition(".")
        if head != section:
            lines += ["", f"[{head}]"]
            section = head
        line = f"{key} = {json.dumps(value, ensure_ascii=False)}"  # a JSON string or number is a TOML one, too
        lines.append(f"{line}  # {description.about}" if comments else line)
    return "\n".join(lines) + "\n"


def from_toml(text: str, base: Config, name: str = "config.toml") -> Config:
    """The settings of a TOML text over those of `base`; `name` is the file's, for errors. Raises InputError."""
    return replace(base, read_toml(text, name))
