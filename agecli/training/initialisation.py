"""What a run begins with: a pretrained backbone under a new forest, or a trained model to go on from (`--init`)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agecli.core.config import Config, replace, settings
from agecli.core.errors import InputError
from agecli.model.backbones import load_weights
from agecli.model.bundled import DEFAULT, named
from agecli.model.checkpoint import Checkpoint, is_checkpoint, load_checkpoint
from agecli.model.network import AgeModel, build_model
from agecli.model.specs import SPECS

log = logging.getLogger("agecli")
EYES = (
    "backbone.name",
    "backbone.mirror",
    "backbone.stages",
    "data.size",
    "data.crop_share",
)  # what the features of a backbone depend on, but its weights
COOL = {"forest.split_temperature": 0.0, "forest.leaf_temperature": 1.0}  # annealing would melt what it learned
SHAPE = (
    "model",
    "ages.low",
    "ages.high",
    "forest.trees",
    "forest.depth",
    "forest.units",
    "forest.assignment",
)  # of splits and leaves


def take_over(config: Config, asked: Mapping[str, Any]) -> Config:
    """The settings of the model that a run begins with, where nothing else was asked for.

    A model to go on from (`--init`) gives all of them; one that only lends its backbone (`--weights`), what it sees.
    """
    if config.init and "backbone.weights" in asked:
        raise InputError(f"{config.init} has weights already", hint="leave out --weights, or --init")
    first = begun_with(config)
    if not first:
        spec = SPECS.get(config.backbone.name)
        return replace(config, {**spec.settings(), **asked}) if spec else config
    known = first.config
    if not config.init:
        return replace(config, {**_settings(known, EYES), **asked})
    new = replace(config, {**_settings(known, ("model", "ages.", "forest.", *EYES)), **asked})
    if _same_forest(new, known):
        return replace(new, {**COOL, **asked})
    return replace(config, {**_settings(known, ("model", "ages.low", "ages.high", *EYES)), **asked})


def begun_with(config: Config) -> Checkpoint | None:
    """The trained model that a run goes on from, or whose backbone it takes."""
    return load_checkpoint(named(config.init, ".safetensors")) if config.init else _trained(config.backbone.weights)


def _settings(config: Config, beginnings: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in settings(config) if name.startswith(beginnings)}


def _trained(weights: str) -> Checkpoint | None:
    """The model whose backbone is asked for, if these weights are such a model's."""
    if weights == DEFAULT:
        return load_checkpoint(named(DEFAULT, ".safetensors"))
    path = Path(weights).expanduser()
    return load_checkpoint(path) if path.suffix == ".safetensors" and is_checkpoint(path) else None


def first_model(config: Config) -> tuple[AgeModel, bool]:
    """The model before its first iteration, and whether its splits and leaves are trained ones."""
    model = build_model(config)
    checkpoint = begun_with(config)
    if not checkpoint:
        load_weights(model.backbone, config.backbone.name, config.backbone.weights)
        return model, False
    if config.backbone.name != checkpoint.config.backbone.name:
        raise InputError(
            f"{config.init or config.backbone.weights} is a {checkpoint.config.backbone.name}, not a {config.backbone.name}",
            hint="leave out --backbone, or begin with another model",
        )
    model.backbone.load_state_dict(checkpoint.model.backbone.state_dict())
    if not config.init:
        return model, False
    if not _same_forest(config, checkpoint.config):
        log.info("another forest than that of %s was asked for: it starts anew, on its backbone", config.init)
        return model, False
    model.load_state_dict(checkpoint.model.state_dict())
    return model, True


def _same_forest(one: Config, two: Config) -> bool:
    known = dict(settings(two))
    return all(value == known[name] for name, value in settings(one) if name.startswith(SHAPE))
