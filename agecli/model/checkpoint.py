"""Checkpoints: one safetensors file from which a model can be rebuilt. It contains data, never code."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from agecli.core.config import Config, check_bounds, replace, settings
from agecli.core.errors import InputError
from agecli.core.files import write_whole
from agecli.core.reading import check_size, read_object, shown
from agecli.core.version import __version__
from agecli.images.alignment import Alignment
from agecli.images.reading import PictureSpec
from agecli.model.bundled import check_checkpoint_file
from agecli.model.card import Card
from agecli.model.card_checks import check_picture
from agecli.model.network import AgeModel, build_model
from agecli.scoring.calibration import Calibration
from agecli.scoring.shift import ShiftReference

log = logging.getLogger("agecli")
FORMAT = 1  # increased when older versions can no longer read the file
KIND = "agecli-checkpoint"
MOST_BYTES = 1 << 32  # of a file; the training state of the largest backbone has half of it


@dataclass(frozen=True)
class Checkpoint:
    """A trained model and what its file says of it."""

    model: AgeModel  # on the CPU, in evaluation mode
    config: Config
    calibration: Calibration | None  # of its intervals; None if there were too few faces to calibrate
    notes: dict[str, Any]  # fold, iteration and validation MAE
    shift: ShiftReference | None = None  # what its calibration faces look like

    @property
    def card(self) -> Card:
        """What prediction needs to know beside the network."""
        known = self.config.alignment
        alignment = Alignment(known.size, known.eye_distance, known.eye_height) if known.size else None
        forest = self.model.forest
        return Card(self.model.picture, forest.grid, forest.readout, alignment, self.calibration, self.shift)


def save_checkpoint(
    path: Path,
    model: AgeModel,
    config: Config,
    notes: Mapping[str, Any],
    calibration: Calibration | None = None,
    half: bool = False,
    shift: ShiftReference | None = None,
) -> None:
    """Write the model with its config, age grid, crop, normalisation, phi and calibration, whole or not at all.

    notes: JSON values to keep with it; half: store kernels in 16 bits, which halves the file.
    """
    header = {
        "config": dict(settings(config)),
        "picture": dataclasses.asdict(model.picture),
        "calibration": calibration.header() if calibration else None,
        "shift": shift.header() if shift else None,
        "notes": dict(notes),
        "agecli": __version__,
    }
    tensors = model.state_dict()
    if half:
        kernels = {name for name, weights in model.named_parameters() if weights.ndim > 1}
        tensors = {name: tensor.half() if name in kernels else tensor for name, tensor in tensors.items()}
    write_tensors(path, KIND, tensors, header)


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint. Raises MissingError if it is not there, InputError if it can't be used.

    >>> load_checkpoint(Path("runs/drf-II/fold-1/best.safetensors")).notes["val_mae"]
    """
    tensors, header = read_tensors(path, KIND)
    try:
        config = check_bounds(replace(Config(), header["config"]))
        picture, calibration = PictureSpec.read(header["picture"]), Calibration.read(header.get("calibration"))
        check_picture(picture)
        _check_tensors(tensors, config)
        new = build_model(config)
        model = AgeModel(new.backbone, new.f, new.forest, picture, new.mirror)
        model.load_state_dict(tensors)
        shift = ShiftReference.read(header.get("shift"))
        checkpoint = Checkpoint(model.eval(), config, calibration, dict(header["notes"]), shift)
        checkpoint.card.check()
        return checkpoint
    except InputError as error:
        raise InputError(f"{path}: {error.message}", error.hint) from error
    except (KeyError, TypeError, ValueError, RuntimeError, AttributeError, MemoryError) as error:
        raise InputError(
            f"{path} does not fit the model it describes: {shown(error)}", hint="was it edited? Train it again"
        ) from error


def _check_tensors(tensors: Mapping[str, Tensor], config: Config) -> None:
    """Check the tensors against the settings before a network of that size is made.

    Raises InputError for a forest or a layer f of another shape, units that do not exist, and numbers that are not finite;
    KeyError if one is missing.
    """
    forest = config.forest
    if config.model != "regression":
        phi = tensors["forest.phi"]
        shape = (forest.trees, forest.splits)
        if phi.shape != shape or tensors["f.weight"].shape[:1] != (forest.units,):
            raise ValueError(f"its forest is of shape {tuple(phi.shape)}, not {shape}")
        if phi.is_floating_point() or phi.min() < 0 or phi.max() >= forest.units:
            raise ValueError("its split nodes use units that do not exist")
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and name != "forest.log_pi" and not torch.isfinite(tensor).all():
            raise ValueError(f"{shown(name)} has numbers that are not finite")
    if "forest.variance" in tensors and not (tensors["forest.variance"] > 0).all():
        raise ValueError("a leaf has no positive variance")


def write_tensors(path: Path, kind: str, tensors: Mapping[str, Tensor], header: Mapping[str, Any]) -> None:
    """Write tensors and a JSON header to a safetensors file; `kind` says what the file is, for `read_tensors`.

    Raises DiskFullError if there is no space for it.
    """
    flat = {name: tensor.detach().to("cpu").contiguous() for name, tensor in tensors.items()}
    shared = {tensor.data_ptr() for tensor in flat.values()}
    if len(shared) < len(flat):  # safetensors refuses tensors that share memory
        flat = {name: tensor.clone() for name, tensor in flat.items()}
    with write_whole(path) as part:
        try:
            save_file(flat, part, {"kind": kind, "format": str(FORMAT), "header": json.dumps(header)})
        except SafetensorError as error:
            number = re.search(r"os error (\d+)", str(error))  # all that it says of a full disk
            raise OSError(int(number[1]), os.strerror(int(number[1])), path) if number else error from error


def read_tensors(path: Path, kind: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors, on the CPU, and the header of a file of this kind.

    Raises MissingError if it is not there, InputError if it is damaged, of another kind, or of a newer format.
    """
    check_checkpoint_file(path)
    check_size(path, MOST_BYTES)
    try:
        with safe_open(path, framework="pt") as file:
            about = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no mapping)
    except (SafetensorError, OSError, ValueError) as error:
        raise InputError(
            f"{path} is not a whole safetensors file ({shown(error)})",
            hint="was the copy cut short? Fetch it again, or name a checkpoint",
        ) from error
    if about.get("kind") != kind:
        raise InputError(
            f"{path} is no {kind}", hint="name a file made by `agecli train`; bare weights go to `train --weights FILE`"
        )
    try:
        written, header = int(about["format"]), read_object(about["header"], f"the header of {path}")
    except (KeyError, ValueError, InputError) as error:
        raise InputError(
            f"{path} has a damaged header ({shown(error)})", hint="fetch it again, or train it again"
        ) from error
    if written > FORMAT:
        raise InputError(
            f"{path} has format {written}, and agecli {__version__} reads up to {FORMAT}",
            hint="it was made by a newer agecli: upgrade this one",
        )
    return tensors, header


def is_checkpoint(path: Path) -> bool:
    """Whether a safetensors file is a checkpoint of agecli, and not bare weights."""
    try:
        with safe_open(path, framework="pt") as file:
            return (file.metadata() or {}).get("kind") == KIND
    except (SafetensorError, OSError, ValueError):
        return False


def fingerprint(model: AgeModel) -> str:
    """SHA-256 of the names and values of the backbone's weights: equal ones give equal features."""
    digest = hashlib.sha256()
    for name, tensor in model.backbone.state_dict().items():
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
