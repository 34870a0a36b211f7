"""What a run begins with: a pretrained backbone under a new forest, or a trained model to go on from (`--init`)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from agecli.backbones import load_weights
from agecli.bundled import named
from agecli.checkpoint import load_checkpoint
from agecli.config import Config, replace, settings
from agecli.errors import InputError
from agecli.model import AgeModel, build_model

log = logging.getLogger("agecli")
TAKEN_OVER = ("model", "ages.", "forest.", "backbone.name", "data.size", "data.crop_share")
COOL = {"forest.split_temperature": 0.0, "forest.leaf_temperature": 1.0}  # annealing would melt what it learned
SHAPE = ("model", "ages.low", "ages.high", "forest.trees", "forest.depth", "forest.units")  # of splits and leaves


def take_over(config: Config, asked: Mapping[str, Any]) -> Config:
    """The settings of the model that a run goes on from, where nothing else was asked for."""
    if not config.init:
        return config
    if "backbone.weights" in asked:
        raise InputError(f"{config.init} has weights already", hint="leave out --weights, or --init")
    known = load_checkpoint(named(config.init, ".safetensors")).config
    taken = {name: value for name, value in settings(known) if name.startswith(TAKEN_OVER)}
    new = replace(config, {**taken, **asked})
    return replace(new, {**COOL, **asked}) if _same_forest(new, known) else new


def first_model(config: Config) -> tuple[AgeModel, bool]:
    """The model before its first iteration, and whether its splits and leaves are trained ones."""
    model = build_model(config)
    if not config.init:
        load_weights(model.backbone, config.backbone.name, config.backbone.weights)
        return model, False
    checkpoint = load_checkpoint(named(config.init, ".safetensors"))
    if config.backbone.name != checkpoint.config.backbone.name:
        raise InputError(
            f"{config.init} is a {checkpoint.config.backbone.name}, not a {config.backbone.name}",
            hint="leave out --backbone, or --init",
        )
    model.backbone.load_state_dict(checkpoint.model.backbone.state_dict())
    if not _same_forest(config, checkpoint.config):
        log.info("another forest than that of %s was asked for: it starts anew, on its backbone", config.init)
        return model, False
    model.load_state_dict(checkpoint.model.state_dict())
    return model, True


def _same_forest(one: Config, two: Config) -> bool:
    known = dict(settings(two))
    return all(value == known[name] for name, value in settings(one) if name.startswith(SHAPE))
