"""Mixup of faces of about the same age, against overfitting to single faces."""

from __future__ import annotations

import torch
from torch import Tensor


def blend(inputs: Tensor, ages: Tensor, most: float) -> tuple[Tensor, Tensor]:
    """Mix each face, and its age, with a partner: its neighbour in the order of ages.

    inputs: (B, …), pixels or features; ages: (B,), in years; most: the largest share of the partner, drawn uniformly
    from 0 on for each face. Returns both in the same shapes; inputs become float32.
    """
    order = ages.argsort()
    pairs = len(order) // 2 * 2
    partner = torch.empty_like(order)
    partner[order] = order  # if B is odd, the oldest face is its own partner
    partner[order[0:pairs:2]], partner[order[1:pairs:2]] = order[1:pairs:2], order[0:pairs:2]
    share = most * torch.rand(len(ages), device=ages.device)
    inputs = inputs.float()
    return (
        torch.lerp(inputs, inputs[partner], share.view(-1, *[1] * (inputs.ndim - 1))),
        torch.lerp(ages, ages[partner], share),
    )
