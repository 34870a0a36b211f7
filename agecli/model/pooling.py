"""Pooling: the feature maps of a network's last stages as one vector, the mean and the std of each channel.

A face-recognition network discards age in its last layers; its earlier feature maps still hold it, and the std of a
channel tells texture (wrinkles) from tone.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from agecli.core.errors import InputError

EPSILON = 1e-6  # added to variances: the gradient of a root is infinite at 0


class StagePooling(nn.Module):
    """(B, 3, H, W) -> (B, features): mean and std over the positions of each channel of the last `stages` stages.

    network: of timm; name: of the backbone, for errors. Raises InputError if it has fewer stages, or gives none.
    """

    def __init__(self, network: Any, stages: int, name: str) -> None:
        super().__init__()
        if not hasattr(network, "forward_intermediates") or not hasattr(network, "prune_intermediate_layers"):
            raise InputError(
                f"{name} does not give the feature maps of its stages", hint="use timm:NAME, or no backbone.stages"
            )
        there = len(network.feature_info)
        if stages > there:
            raise InputError(f"{name} has {there} stages, not {stages}", hint=f"use backbone.stages={there} or less")
        self.channels = [int(info["num_chs"]) for info in network.feature_info[there - stages :]]
        network.prune_intermediate_layers(list(range(there - stages, there)), prune_norm=True)
        self.network, self.indices = network, list(range(there - stages, there))

    @property
    def features(self) -> int:
        """The number of features: two for each channel."""
        return int(2 * sum(self.channels))

    def forward(self, pixels: Tensor) -> Tensor:
        """(B, 3, H, W) -> (B, features)"""
        maps = self.network.forward_intermediates(pixels, indices=self.indices, intermediates_only=True)
        return torch.cat([pooled(each) for each in maps], dim=1)


def pooled(maps: Tensor) -> Tensor:
    """Mean and std of each channel.   (B, C, H, W) -> (B, 2 C)"""
    flat = maps.float().flatten(2)
    mean = flat.mean(-1)
    variance = (flat - mean[..., None]).square().mean(-1)
    return torch.cat((mean, (variance + EPSILON).sqrt()), dim=1)
