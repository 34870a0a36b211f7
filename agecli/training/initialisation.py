"""The model that a run starts from: a pretrained backbone with a new forest, or a trained model to fine-tune (`--init`)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from agecli.core.config import BackboneConfig, Config, replace, settings
from agecli.core.errors import InputError
from agecli.model.backbones import load_weights
from agecli.model.bundled import DEFAULT, named
from agecli.model.checkpoint import Checkpoint, is_checkpoint, load_checkpoint
from agecli.model.integers import has_integers
from agecli.model.network import AgeModel, build_model
from agecli.model.specs import SPECS
from agecli.model.thinning import is_thin, stages

log = logging.getLogger("agecli")
INPUT_SETTINGS = (
    "backbone.name",
    "backbone.mirror",
    "backbone.stages",
    "backbone.int8",
    "backbone.exact",
    "backbone.hidden",
    "data.size",
    "data.crop_share",
)  # what the features of a backbone depend on, besides its weights
ANNEALED = {"forest.split_temperature": 0.0, "forest.leaf_temperature": 1.0}  # annealing would undo what was learned
FOREST_SHAPE = (
    "model",
    "ages.low",
    "ages.high",
    "forest.trees",
    "forest.depth",
    "forest.units",
    "forest.assignment",
)  # of splits and leaves


def take_over(config: Config, requested: Mapping[str, Any], checkpoint: Checkpoint | None) -> Config:
    """The config with the settings of the model that a run starts from, except those in `requested`, by dotted name.

    checkpoint: that of `load_initial`. A model to fine-tune (`--init`) gives its forest, age grid and input;
    one that only gives its backbone (`--weights`), its input. Raises InputError if both are requested.
    """
    if config.init and "backbone.weights" in requested:
        raise InputError(f"{config.init} has weights already", hint="leave out --weights, or --init")
    if not checkpoint:
        spec = SPECS.get(config.backbone.name)
        return replace(config, {**spec.settings(), **requested}) if spec else config
    known = checkpoint.config
    if not config.init:
        return replace(config, {**_settings(known, INPUT_SETTINGS), **requested})
    new = replace(config, {**_settings(known, ("model", "ages.", "forest.", *INPUT_SETTINGS)), **requested})
    if _same_forest(new, known):
        return replace(new, {**ANNEALED, **requested})
    return replace(config, {**_settings(known, ("model", "ages.low", "ages.high", *INPUT_SETTINGS)), **requested})


def load_initial(config: Config) -> Checkpoint | None:
    """The trained model that a run fine-tunes (`init`), or whose backbone it takes (`backbone.weights`); else None.

    Raises MissingError or InputError if it can't be loaded.
    """
    path = initial_file(config)
    return load_checkpoint(path) if config.init or (path.suffix == ".safetensors" and is_checkpoint(path)) else None


def initial_file(config: Config) -> Path:
    """The file of the model that a run starts from: `init`, or else `backbone.weights`."""
    if config.init or config.backbone.weights == DEFAULT:
        return named(config.init or DEFAULT, ".safetensors")
    return Path(config.backbone.weights).expanduser()


def _settings(config: Config, beginnings: tuple[str, ...]) -> dict[str, Any]:
    """The settings whose dotted names begin with one of these."""
    return {name: value for name, value in settings(config) if name.startswith(beginnings)}


def first_model(config: Config, checkpoint: Checkpoint | None) -> tuple[AgeModel, bool]:
    """The model before its first iteration, and whether its splits and leaves are trained ones.

    checkpoint: that of `load_initial(config)`, or None for a pretrained backbone with a new forest. Its layers stay as they
    are here, also if the config asks for integers or fewer hidden units: `model.thinning` needs training faces.
    Raises InputError if the checkpoint has another backbone than the config, or one that can't become what the config asks
    for, and MissingError if weights are missing.
    """
    known = checkpoint.config.backbone if checkpoint else BackboneConfig()
    model = build_model(replace(config, {"backbone.int8": known.int8, "backbone.hidden": known.hidden}))
    if not checkpoint:
        _check_changes(config, model.backbone)
        load_weights(model.backbone, config.backbone.name, config.backbone.weights)
        return model, False
    if config.backbone.name != checkpoint.config.backbone.name:
        raise InputError(
            f"{config.init or config.backbone.weights} is a {checkpoint.config.backbone.name}, not a {config.backbone.name}",
            hint="leave out --backbone, or start from another model",
        )
    _check_kept(config, known)
    _check_changes(config, model.backbone)
    model.backbone.load_state_dict(checkpoint.model.backbone.state_dict())
    if not config.init:
        return model, False
    if not _same_forest(config, checkpoint.config):
        log.info("the forest differs from that of %s: a new one is trained on its backbone", config.init)
        return model, False
    model.load_state_dict(checkpoint.model.state_dict())
    return model, True


def _check_kept(config: Config, known: BackboneConfig) -> None:
    """Raises InputError if the model that a run starts from has integer layers, or fewer hidden units, that can't be changed."""
    source, settings = config.init or config.backbone.weights, config.backbone
    if known.int8 and not settings.int8:
        raise InputError(f"{source} has integer layers", hint="leave out backbone.int8=false")
    if known.int8 and settings.exact != known.exact:
        raise InputError(
            f"{source} has integer layers, {known.exact} of them exact",
            hint=f"leave out backbone.exact={settings.exact}, or start from a model without integer layers",
        )
    if known.hidden not in (1.0, settings.hidden):
        raise InputError(
            f"{source} has {known.hidden:g} of the hidden units already",
            hint=f"leave out backbone.hidden={settings.hidden:g}, or start from a model with all of them",
        )
    if known.int8 and settings.hidden != known.hidden:
        raise InputError(
            f"{source} has integer layers, which can't lose hidden units",
            hint=f"leave out backbone.hidden={settings.hidden:g}, or start from a model without integer layers",
        )


def _check_changes(config: Config, backbone: nn.Module) -> None:
    """Raises InputError if a backbone can't lose hidden units, or have integer layers, as the config asks for: each fold
    would otherwise find out, when the run folder is written.
    """
    settings = config.backbone
    if settings.hidden < 1 and not is_thin(backbone, settings.name) and settings.freeze:
        raise InputError("a frozen backbone can't lose hidden units", hint="train without --freeze")
    if settings.int8 and not has_integers(backbone):
        stages(backbone, settings.name, "integer layers")
        if settings.freeze:
            raise InputError("integer layers can't learn in a frozen backbone", hint="train without --freeze")


def _same_forest(one: Config, two: Config) -> bool:
    """Whether two configs have forests of the same shape, on the same age grid."""
    known = dict(settings(two))
    return all(value == known[name] for name, value in settings(one) if name.startswith(FOREST_SHAPE))
