"""Inference: what a model says of labelled faces, as distributions, and whether what it said before still holds."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from agecli.core.files import file_hash
from agecli.datasets.manifest import Manifest
from agecli.model.network import AgeModel
from agecli.training.inputs import Inputs


def distributions(
    model: AgeModel, inputs: Inputs, indices: Sequence[int], device: torch.device
) -> tuple[NDArray[np.float32], tuple[int, ...], dict[str, str]]:
    """The pmf of each face that could be read (n, A), the indices of those, and the pictures that could not."""
    units = inputs.units(model, indices)
    with torch.inference_mode():
        pmf = model.ages(units.values.to(device)).float().cpu().numpy()
    return pmf, units.indices, units.broken


def source_of(checkpoint: Path, manifest: Manifest, indices: Sequence[int]) -> dict[str, str]:
    """What predictions depend on: the checkpoint's bytes, and the labels, sizes and times of the pictures."""
    faces = hashlib.sha256()
    for index in indices:
        sample = manifest.samples[index]
        try:
            about = (manifest.folder / sample.path).stat()
            state = (about.st_size, about.st_mtime_ns)
        except OSError:
            state = (0, 0)
        faces.update(repr((sample, state)).encode("utf-8", "surrogateescape"))
    return {"checkpoint": file_hash(checkpoint), "faces": faces.hexdigest()}
