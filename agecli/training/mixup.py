"""Blending: each face of a batch with one of about the same age, as in mixup, so that nobody can be learned by heart."""

from __future__ import annotations

import torch
from torch import Tensor


def blend(inputs: Tensor, ages: Tensor, most: float) -> tuple[Tensor, Tensor]:
    """Up to `most` of a face is that of its partner, and so is its age; partners are neighbours in the order of ages.

    inputs: (B, …), pixels or features.   ages: (B,)
    """
    order = ages.argsort()
    pairs = len(order) // 2 * 2
    partner = torch.empty_like(order)
    partner[order] = order  # where the number is odd, the oldest stays alone
    partner[order[0:pairs:2]], partner[order[1:pairs:2]] = order[1:pairs:2], order[0:pairs:2]
    share = most * torch.rand(len(ages), device=ages.device)
    inputs = inputs.float()
    return (
        torch.lerp(inputs, inputs[partner], share.view(-1, *[1] * (inputs.ndim - 1))),
        torch.lerp(ages, ages[partner], share),
    )
