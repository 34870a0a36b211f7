"""Checks of what a model card says: numbers of the right type, finite and in their range; and of what a model returns."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agecli.core.ages import READOUTS, AgeGrid
from agecli.core.errors import InputError
from agecli.core.reading import shown
from agecli.images.alignment import Alignment
from agecli.images.reading import PictureSpec
from agecli.scoring.calibration import DECADES, Calibration

OLDEST = 200  # years of an age grid
SIDES = (8, 1024)  # pixels of a network's input
CROPS = (16, 4096)  # pixels of an aligned face
INTERPOLATIONS = ("nearest", "box", "bilinear", "hamming", "bicubic", "lanczos")
HINT = "use a model made by `agecli train` or `agecli export`"


def check_readout(readout: str) -> None:
    """Raise InputError for a point estimate that is not known."""
    if readout not in READOUTS:
        raise _wrong("readout", readout)


def check_picture(picture: PictureSpec) -> None:
    """Raise InputError for an input size, crop or normalisation that can't be."""
    _whole("picture size", picture.size, *SIDES)
    _numbers("crop share", [picture.crop_share], 0.1, 1)
    for name, values in (("mean", picture.mean), ("std", picture.std)):
        if not isinstance(values, tuple) or len(values) != 3:
            raise _wrong(f"{name} of the colours", values)
    _numbers("mean of the colours", picture.mean, -300, 300)
    _numbers("std of the colours", picture.std, 1e-4, 300)
    if picture.interpolation not in INTERPOLATIONS:
        raise _wrong("interpolation", picture.interpolation)


def check_grid(grid: AgeGrid) -> None:
    """Raise InputError for ages below 0 or above OLDEST, or for a grid without two ages."""
    _whole("youngest age", grid.low, 0, OLDEST)
    _whole("oldest age", grid.high, grid.low + 1, OLDEST)


def check_alignment(alignment: Alignment) -> None:
    """Raise InputError for a crop in which the eyes can't be."""
    _whole("size of aligned faces", alignment.size, *CROPS)
    _numbers("place of the eyes", (alignment.eye_distance, alignment.eye_height), 0.05, 0.95)


def check_calibration(calibration: Calibration) -> None:
    """Raise InputError for factors that are not positive, or not one for each decade."""
    _whole("number of calibration faces", calibration.faces, 1, 10**9)
    _numbers("scale of the calibration", [calibration.scale], 1e-9, 1e9)
    _numbers("coverage", [calibration.coverage], 0.01, 0.999)
    for factors in (calibration.by_age, calibration.by_prediction):
        if len(factors) != DECADES:
            raise _wrong("number of calibrated decades", len(factors))
        _numbers("factor of the calibration", factors, 1e-9, 1e9)


def check_pmf(pmf: NDArray[Any], faces: int, grid: AgeGrid) -> None:
    """Raise InputError if the output of a model is no age distribution for each face.   pmf: to be (faces, A)"""
    if pmf.shape != (faces, len(grid)):
        raise InputError(f"the model returns an array of shape {pmf.shape}, not {(faces, len(grid))}", hint=HINT)
    if not np.isfinite(pmf).all() or pmf.min(initial=0) < -1e-3 or np.abs(pmf.sum(-1) - 1).max(initial=0) > 1e-2:
        raise InputError("the model returns numbers that are no probabilities", hint=HINT)


def _whole(name: str, value: object, least: int, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise _wrong(name, value)


def _numbers(name: str, values: Iterable[object], least: float, most: float) -> None:
    for value in values:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not math.isfinite(value) or not least <= value <= most:  # type: ignore[arg-type, operator]
            raise _wrong(name, value)


def _wrong(name: str, value: object) -> InputError:
    return InputError(f"its {name} can't be {shown(value)}", hint=HINT)
