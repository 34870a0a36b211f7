"""Precision of sums: float64, if the device supports it."""

from __future__ import annotations

from torch import Tensor


def wide(x: Tensor) -> Tensor:
    """The tensor as float64; as float32 on Apple's GPUs (MPS), which have no float64."""
    return x.float() if x.is_mps else x.double()
