"""Distributions of a model file for aligned faces, straight from their pixels: ONNX files need no torch for it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from agecli.datasets.manifest import Manifest
from agecli.images.reading import Pixels, UnreadableError, cut, read_picture
from agecli.model.predictors import Predictor

BATCH = 32  # faces in memory at a time


def pixel_distributions(
    predictor: Predictor, manifest: Manifest, indices: Sequence[int]
) -> tuple[NDArray[np.float32], tuple[int, ...], dict[str, str]]:
    """The pmf of each face that could be read, as the network gives it, without a bias correction.

    indices: of samples in `manifest`.   Returns the pmfs (n, A), the n indices they belong to, and the unreadable pictures,
    path -> reason.   Example: `pixel_distributions(load_predictor(path), manifest, [0, 1])[0].shape` is (2, 101)
    """
    kept: list[int] = []
    broken: dict[str, str] = {}
    parts: list[NDArray[np.float32]] = []
    for start in range(0, len(indices), BATCH):
        pixels: list[Pixels] = []
        for index in indices[start : start + BATCH]:
            path = manifest.samples[index].path
            try:
                pixels.append(cut(read_picture(manifest.folder / path), predictor.card.picture))
                kept.append(index)
            except UnreadableError as error:
                broken[path] = str(error)
        if pixels:
            parts.append(predictor.pmf(np.stack(pixels)))
    empty = np.zeros((0, len(predictor.card.grid)), dtype=np.float32)
    return np.concatenate([empty, *parts]), tuple(kept), broken
