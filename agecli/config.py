"""Every setting, as one frozen tree: made from a preset, a TOML file and `--set`, stored in every checkpoint."""

from __future__ import annotations

import dataclasses
import difflib
import json
import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args, get_origin, get_type_hints

from agecli.errors import InputError

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover
    import tomli as tomllib

ModelName = Literal["drf", "dldlf", "dndf", "drf-nrf", "regression"]
Setup = Literal["random", "I", "II", "III", "lopo", "cacd-train", "cacd-val", "subject", "column"]


@dataclass(frozen=True)
class AgesConfig:
    low: int = 0
    high: int = 120
    readout: Literal["paper", "mean", "median", "mode"] = "paper"  # how an age is read from a distribution


@dataclass(frozen=True)
class ForestConfig:
    trees: int = 5  # K
    depth: int = 6  # h: levels of nodes, the leaves included
    units: int = 128  # M, the outputs of f
    units_std: float = 0.005  # of the Gaussian that f's weights start from
    standardise: bool = True  # f's inputs, from the first faces; a frozen backbone's features always are
    alpha: float = 2.0  # years; the std of a label distribution (dldlf)
    leaf_init: Literal["random", "kmeans"] = "random"  # (drf)
    variance_floor: float = 0.5  # years^2; integer ages alone have a variance of 1/12 around their true value
    noise: float = 0.0  # share of labels that may be anything: bounds the loss of a single face (drf)
    pseudo_count: float = 0.01  # faces, shared out over the age grid (dldlf)
    split_temperature: float = 1.0  # T_0
    leaf_temperature: float = 0.5  # tau_0
    cooling: float = 0.9  # eta
    update_every: int = 50  # n_B, mini-batches between two leaf updates
    update_rounds: int = 20  # of variational bounding in a leaf update
    assignment: int = 0  # which of the random phi, for the same seed
    ensemble: Literal["joint", "alternating"] = "joint"  # all trees learn from a mini-batch, or one of them (DNDF)

    @property
    def leaves(self) -> int:
        return int(2 ** (self.depth - 1))

    @property
    def splits(self) -> int:
        return self.leaves - 1


@dataclass(frozen=True)
class BackboneConfig:
    name: str = "timm:tf_efficientnet_lite0"
    weights: str = "imagenet"  # or "none", or a file
    freeze: bool = False
    frozen_layers: int = 0  # of its first layers, which stay as they are: training takes half as long without two
    drop_path: float = 0.0  # how often its last block is left out in training, earlier ones less (timm)
    stages: int = 0  # how many of its last stages give pooled feature maps; 0: the features of its own last layer
    mirror: bool = False  # features are the mean of those of a face and of its mirror image: better, in twice the time


@dataclass(frozen=True)
class AlignmentConfig:
    """Of the faces it was trained on, as `preprocess` wrote it down; 0 if that is not known."""

    size: int = 0
    eye_distance: float = 0.0
    eye_height: float = 0.0


@dataclass(frozen=True)
class DataConfig:
    setup: Setup = "random"
    train_share: float = 0.8  # of the images, in `random`, `I` and `II`
    folds: int = 5  # in `subject`
    val_share: float = (
        0.1  # of the training subjects, held out to select the best checkpoint and to calibrate intervals
    )
    size: int = 0  # pixels; 0 means what the backbone was made for
    crop_share: float = 0.875  # the side of the crop, as a share of the side of the face picture
    augment: Literal["none", "paper", "modern", "mixed", "wild", "graded"] = "modern"  # graded: wild, 0 to 100 % of it
    mask: float = 0.0  # share of the training faces whose surroundings are hidden, as those of tight chips are
    blend: float = 0.0  # the most of a face, and of its age, that is taken from another of about the same age
    balance: float = 0.0  # 0 shows all faces equally often, 1 all ages, 0.5 lies between


@dataclass(frozen=True)
class TrainingConfig:
    iterations: int = 3000
    batch_size: int = 32
    optimiser: Literal["sgd", "adamw"] = "adamw"
    lr: float = 1e-3
    backbone_lr: float = 1.0  # times lr, for the pretrained part
    relative_lr: bool = False  # the backbone's rates are shares of each tensor's own size (its root mean square)
    layer_decay: float = 1.0  # times the backbone's rate, for each of its layers below the last one
    unfreeze_every: int = 0  # iterations after which the next lower layer starts to learn; 0: all at once
    momentum: float = 0.9  # (sgd)
    weight_decay: float = 0.05
    schedule: Literal["steps", "cosine"] = "cosine"
    warmup: int = 200  # iterations (cosine)
    step_every: int = 10_000  # iterations (steps)
    step_factor: float = 0.5  # (steps)
    clip_norm: float = 5.0  # 0 means no clipping
    eval_every: int = 500  # iterations between two looks at the validation part
    save_every: float = 60.0  # seconds: about what a kill costs
    average: float = 0.0  # how much of the average of the weights is kept from one iteration to the next; 0 has none
    select: Literal["val", "last"] = "val"
    refresh_leaves: bool = True  # from evaluation-mode routing, before the final checkpoint
    amp: bool = True  # mixed precision, on CUDA
    seed: int = 0


@dataclass(frozen=True)
class Config:
    model: ModelName = "drf"
    init: str = ""  # a trained model to go on from: `default`, or a checkpoint
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
    ),
)
PRESETS: dict[str, Config] = {"modern": Config(), "paper": PAPER}


# What a model of the paper's tables is by definition; where something else is asked for, that is taken.
IMPLIED: dict[str, dict[str, Any]] = {
    "dndf": {"forest.alpha": 0.0, "forest.split_temperature": 0.0},
    "drf-nrf": {"forest.leaf_init": "kmeans", "forest.split_temperature": 0.0, "forest.leaf_temperature": 1.0},
    "regression": {"forest.split_temperature": 0.0},
}


OPTIONS = {  # short names of the settings people change most: the flags of `agecli train`
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
    if name not in PRESETS:
        raise InputError(f"unknown preset `{name}`", hint=f"there are: {', '.join(PRESETS)}")
    return PRESETS[name]


def implied(changes: Mapping[str, Any]) -> dict[str, Any]:
    """What follows from the model that is asked for."""
    return IMPLIED.get(str(changes.get("model")), {})


def told_apart() -> set[str]:
    """The settings in which presets differ."""
    values: dict[str, set[Any]] = {}
    for config in PRESETS.values():
        for name, value in settings(config):
            values.setdefault(name, set()).add(value)
    return {name for name, different in values.items() if len(different) > 1}


def settings(config: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every setting and its value, by its dotted name: ("forest.trees", 5), …"""
    for item in dataclasses.fields(config):
        value = getattr(config, item.name)
        if dataclasses.is_dataclass(value):
            yield from settings(value, f"{prefix}{item.name}.")
        else:
            yield prefix + item.name, value


def replace(config: Config, changes: Mapping[str, Any]) -> Config:
    """The config with some settings changed, by their dotted names. Text is read as the type of the setting."""
    known = dict(settings(config))
    for name in changes:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
            near = near or [other for other in known if other.split(".")[-1] == name.split(".")[-1]]
            hint = f"did you mean `{near[0]}`?" if near else "`agecli info --settings` lists them all"
            raise InputError(f"unknown setting `{name}`", hint=hint)
    changed: Config = _replace(config, changes, "")
    return changed


def _replace(node: Any, changes: Mapping[str, Any], prefix: str) -> Any:
    types = get_type_hints(type(node))
    new = {}
    for item in dataclasses.fields(node):
        name, value = prefix + item.name, getattr(node, item.name)
        if dataclasses.is_dataclass(value):
            new[item.name] = _replace(value, changes, f"{name}.")
        elif name in changes:
            new[item.name] = _parse(name, changes[name], types[item.name])
    return dataclasses.replace(node, **new)


def _parse(name: str, value: Any, kind: Any) -> Any:
    """The value as the setting's type, or an error that says what the setting takes."""
    choices = get_args(kind) if get_origin(kind) is Literal else ()
    if choices:
        if isinstance(value, str) and value in choices:
            return value
        raise InputError(f"`{name}` can't be {value!r}", hint=f"it is one of: {', '.join(choices)}")
    if kind is bool:
        words = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
        if str(value).lower() in words:
            return words[str(value).lower()]
    elif kind is str:
        return str(value)
    else:
        try:
            number = float(value)
            if kind is float and math.isfinite(number):
                return number
            if kind is int and number == int(number):
                return int(number)
        except (ValueError, OverflowError, TypeError):
            pass
    noun = {bool: "true or false", int: "a whole number", float: "a number"}[kind]
    raise InputError(f"`{name}` can't be {value!r}", hint=f"it takes {noun}")


def check(config: Config) -> Config:
    """The config itself, or an error that says which number to change."""
    forest, data, training = config.forest, config.data, config.training
    positive = {
        "forest.trees": forest.trees,
        "forest.variance_floor": forest.variance_floor,
        "forest.pseudo_count": forest.pseudo_count,
        "forest.leaf_temperature": forest.leaf_temperature,
        "forest.update_every": forest.update_every,
        "forest.update_rounds": forest.update_rounds,
        "training.iterations": training.iterations,
        "training.batch_size": training.batch_size,
        "training.lr": training.lr,
        "training.eval_every": training.eval_every,
        "training.step_every": training.step_every,
    }
    for name, value in positive.items():
        if value <= 0:
            raise InputError(f"`{name}` is {value}", hint="it must be above 0")
    not_negative = {
        "ages.low": config.ages.low,
        "forest.alpha": forest.alpha,
        "forest.assignment": forest.assignment,
        "forest.split_temperature": forest.split_temperature,
        "forest.units_std": forest.units_std,
        "backbone.stages": config.backbone.stages,
        "backbone.frozen_layers": config.backbone.frozen_layers,
        "data.size": data.size,
        "data.balance": data.balance,
        "training.momentum": training.momentum,
        "training.weight_decay": training.weight_decay,
        "training.backbone_lr": training.backbone_lr,
        "training.warmup": training.warmup,
        "training.unfreeze_every": training.unfreeze_every,
        "training.clip_norm": training.clip_norm,
        "training.save_every": training.save_every,
    }
    for name, value in not_negative.items():
        if value < 0:
            raise InputError(f"`{name}` is {value}", hint="it must not be negative")
    shares = {
        "data.train_share": data.train_share,
        "data.crop_share": data.crop_share,
        "forest.cooling": forest.cooling,
        "training.layer_decay": training.layer_decay,
    }
    for name, value in shares.items():
        if not 0 < value <= 1:
            raise InputError(f"`{name}` is {value}", hint="it must be above 0 and at most 1")
    below_one = {
        "backbone.drop_path": config.backbone.drop_path,
        "data.blend": data.blend,
        "data.mask": data.mask,
        "forest.noise": forest.noise,
        "data.val_share": data.val_share,
        "training.average": training.average,
    }
    for name, value in below_one.items():
        if not 0 <= value < 1:
            raise InputError(f"`{name}` is {value}", hint="it must be at least 0 and below 1")
    if config.ages.low >= config.ages.high:
        raise InputError(
            f"the age grid goes from {config.ages.low} to {config.ages.high}", hint="set ages.high above ages.low"
        )
    if forest.depth < 2:
        raise InputError(
            f"a tree of depth {forest.depth} has no split node",
            hint="depth counts the leaves' level too: use 2 or more",
        )
    if forest.depth > 16:
        raise InputError(f"a tree of depth {forest.depth} has {forest.leaves} leaves", hint="use a depth of at most 16")
    if forest.units < forest.splits:
        raise InputError(
            f"{forest.units} units can't feed the {forest.splits} split nodes of a tree of depth {forest.depth}",
            hint=f"use --units {forest.splits} or more, or a smaller --depth",
        )
    if config.model == "dndf" and forest.alpha:
        raise InputError(
            f"dndf has one class for each age, and no label distribution with a std of {forest.alpha}",
            hint="leave out --alpha, or use --model dldlf",
        )
    if training.select == "val" and data.val_share == 0:
        raise InputError(
            "there is no validation part to select the best checkpoint on (`data.val_share` is 0)",
            hint="use --set data.val_share=0.1, or --set training.select=last",
        )
    return config


def to_toml(config: Config) -> str:
    """TOML that `from_toml` reads back. A JSON string or number is a TOML one too."""
    lines, section = [], ""
    for name, value in settings(config):
        head, _, key = name.rpartition(".")
        if head != section:
            lines += ["", f"[{head}]"]
            section = head
        lines.append(f"{key} = {json.dumps(value, ensure_ascii=False)}")
    return "\n".join(lines) + "\n"


def from_toml(text: str, base: Config, name: str = "config.toml") -> Config:
    """The settings of a TOML text over those of `base`."""
    return replace(base, read_toml(text, name))


def read_toml(text: str, name: str = "config.toml") -> dict[str, Any]:
    """The settings of a TOML text, by their dotted names."""
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{name} is not TOML: {error}", hint="`agecli info --settings` prints a good one") from error
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        flat.update({f"{key}.{inner}": v for inner, v in value.items()} if isinstance(value, dict) else {key: value})
    return flat
