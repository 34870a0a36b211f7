"""Optimisers and learning rates, from the settings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from agecli.core.config import TrainingConfig
from agecli.model.pooling import StagePooling

RELATIVE = (1e-3, 0.1)  # root mean squares that count as such: tensors of zeros must be able to move


def learning_rate(iteration: int, config: TrainingConfig) -> float:
    """The learning rate of an iteration, counted from 0: a pure function, so that a resumed run has the right one."""
    if config.schedule == "steps":
        return config.lr * config.step_factor ** (iteration // config.step_every)
    warmup = min(config.warmup, config.iterations // 10)  # at most a tenth of a short run
    warm = min(1.0, (iteration + 1) / max(1, warmup))
    return config.lr * warm * 0.5 * (1 + math.cos(math.pi * iteration / config.iterations))


@dataclass(frozen=True)
class Part:
    """Weights with the same multiple of the learning rate, which is 0 before iteration `start`."""

    weights: list[nn.Parameter]
    multiple: float = 1.0
    start: int = 0
    sizes: list[float] | None = None  # one more multiple for each tensor


def backbone_parts(network: nn.Module, config: TrainingConfig) -> list[Part]:
    """A part for each layer of a backbone, first to last: layer-wise learning rates and gradual unfreezing."""
    groups = layers(network)
    parts = [
        Part(weights, config.backbone_lr * config.layer_decay**below, config.unfreeze_every * (below + 1))
        for below, weights in zip(range(len(groups) - 1, -1, -1), groups, strict=True)
    ]
    return [relative(part) for part in parts] if config.relative_lr else parts


def relative(part: Part) -> Part:
    """The part with a rate for each of its tensors, a share of the tensor's own root mean square at the start.

    Adam moves every weight by about the rate, whatever its size. Networks that were trained with much weight decay have
    biases of 0.001, which a rate of 3e-5, right for their kernels of 0.05, moves beyond recognition within 30 steps.
    """
    return replace(part, sizes=[float(w.detach().square().mean().sqrt().clamp(*RELATIVE)) for w in part.weights])


def layers(network: nn.Module) -> list[list[nn.Parameter]]:
    """The weights of a network by layer, first to last: the layer groups of timm, else its direct children."""
    inner: Any = network.network if isinstance(network, StagePooling) else network
    if hasattr(inner, "group_matcher"):
        from timm.models import group_parameters

        names = group_parameters(inner, inner.group_matcher(coarse=True))
        known = dict(inner.named_parameters())
        groups = [[known[name] for name in names[layer]] for layer in sorted(names)]
    else:
        groups = [list(child.parameters()) for child in inner.children()]
    return [group for group in groups if group] or [list(inner.parameters())]


def make_optimiser(parts: Sequence[Part], config: TrainingConfig) -> Optimizer:
    """One optimiser for several parts, each with its own multiple of the learning rate.

    Weight decay acts on matrices and kernels only, not on biases and the weights of norms.
    """
    groups: dict[tuple[int, bool, float], dict[str, Any]] = {}
    for number, part in enumerate(parts):
        for weights, size in zip(part.weights, part.sizes or [1.0] * len(part.weights), strict=True):
            decayed = weights.ndim > 1
            decay = config.weight_decay if decayed else 0.0
            about = {"multiple": part.multiple * size, "start": part.start, "weight_decay": decay}
            if weights.requires_grad:
                groups.setdefault((number, not decayed, size), {"params": [], **about})["params"].append(weights)
    ordered = [groups[key] for key in sorted(groups)]
    if config.optimiser == "sgd":
        return torch.optim.SGD(ordered, lr=config.lr, momentum=config.momentum)
    return torch.optim.AdamW(ordered, lr=config.lr, fused=True)


def set_learning_rate(optimiser: Optimizer, lr: float, iteration: int = 0) -> None:
    """Set the learning rate of each part: its multiple of `lr`, or 0 before its first iteration."""
    for group in optimiser.param_groups:
        group["lr"] = lr * group["multiple"] if iteration >= group["start"] else 0.0
