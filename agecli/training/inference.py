"""Inference on labelled faces: distributions over ages, and a key that tells whether stored ones are still valid."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from agecli.core.files import file_hash
from agecli.datasets.manifest import Manifest
from agecli.images.opening import state_of
from agecli.model.network import AgeModel
from agecli.training.inputs import Inputs


def distributions(
    model: AgeModel, inputs: Inputs, indices: Sequence[int], device: torch.device
) -> tuple[NDArray[np.float32], tuple[int, ...], dict[str, str]]:
    """The pmf of each face that could be read.

    indices: of samples in the manifest of `inputs`. Returns the pmfs (n, A), the n indices they belong to, and the
    unreadable pictures, path -> reason.
    """
    units = inputs.units(model, indices)
    with torch.inference_mode():
        pmf = model.ages(units.values.to(device)).float().cpu().numpy()
    return pmf, units.indices, units.broken


def source_of(checkpoint: Path, manifest: Manifest, indices: Sequence[int]) -> dict[str, str]:
    """What predictions depend on, as hashes: the checkpoint's bytes; the labels, file sizes and times of the pictures."""
    faces = hashlib.sha256()
    for index in indices:
        sample = manifest.samples[index]
        try:
            state = state_of(manifest.folder / sample.path)
        except OSError:
            state = (0, 0)
        faces.update(repr((sample, state)).encode("utf-8", "surrogateescape"))
    return {"checkpoint": file_hash(checkpoint), "faces": faces.hexdigest()}
