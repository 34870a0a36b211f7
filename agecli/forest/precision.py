"""Sums in float64, where the device has it."""

from __future__ import annotations

from torch import Tensor


def wide(x: Tensor) -> Tensor:
    """float64; float32 on Apple's GPUs, which have no wider one."""
    return x.float() if x.is_mps else x.double()
