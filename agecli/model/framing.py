"""Framing: which alignment a backbone or a trained model wants its faces to have (`preprocess --for`)."""

from __future__ import annotations

from pathlib import Path

from agecli.core.errors import InputError, MissingError
from agecli.images.alignment import Alignment
from agecli.model.bundled import DEFAULT, named
from agecli.model.predictors import load_predictor
from agecli.model.specs import SPECS


def alignment_for(name: str) -> Alignment:
    """The alignment of a backbone by its name, or of the faces that a model (`default`, or a file) was trained on.

    Backbones of torchvision and timm were not trained on aligned faces: they get the default alignment.

    Example: `alignment_for("edgeface_s").size` is 144.
    """
    if name in SPECS:
        return SPECS[name].alignment
    path = named(name, ".onnx") if name == DEFAULT else Path(name)
    if path.is_file():
        if known := load_predictor(path).card.alignment:
            return known
        raise InputError(
            f"{name} does not say how the faces it was trained on were aligned",
            hint="name the numbers: --size, --eye-distance and --eye-height",
        )
    if _is_classifier(name):
        return Alignment()
    raise MissingError(
        f"`{name}` is no backbone and no file of a model",
        hint=f"use {', '.join(SPECS)}, a name that `train --backbone` takes, {DEFAULT}, or a file",
    )


def _is_classifier(name: str) -> bool:
    from agecli.model.torchvision_shim import torchvision  # torch loads here

    if not name.startswith("timm:"):
        return name in torchvision.models.list_models(module=torchvision.models)
    import timm

    return bool(timm.is_model(name.removeprefix("timm:")))
