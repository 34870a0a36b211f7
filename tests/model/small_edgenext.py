"""A small EdgeNeXt for tests of networks that are changed after their training, and pictures for it."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from agecli.core.config import Config, replace
from agecli.model.network import AgeModel, build_model, start_leaves

SIZE, NAME = 64, "timm:edgenext_xx_small"
SETTINGS = {
    "backbone.name": NAME,
    "backbone.stages": 3,
    "data.size": SIZE,
    "data.crop_share": 1.0,
    "forest.units_std": 0.5,
}


def noise(*shape: int, seed: int = 0) -> Tensor:
    """Standard normal numbers."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def pixels(count: int) -> Tensor:
    """Pictures with structure, so that they differ in their features.   (count, 3, SIZE, SIZE), uint8"""
    coarse = torch.rand(count, 3, 6, 6, generator=torch.Generator().manual_seed(3))
    return (F.interpolate(coarse, (SIZE, SIZE), mode="bicubic") * 255).clamp(0, 255).to(torch.uint8)


def trained_model() -> AgeModel:
    """An EdgeNeXt with GELU, whose norms and layer scales are not trivial, and whose features differ between pictures."""
    made = build_model(replace(Config(), SETTINGS))
    with torch.no_grad():
        for number, (name, weights) in enumerate(made.backbone.named_parameters()):
            if weights.ndim == 1:
                weights.add_(noise(*weights.shape, seed=number) * (0.5 if "gamma" in name else 0.1))
            else:
                weights.mul_(5)
    start_leaves(made.forest, torch.linspace(0, 90, 200), 0)
    return made.eval()
