"""Optimisers and learning rates, from the settings."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import nn
from torch.optim import Optimizer

from agecli.core.config import TrainingConfig


def learning_rate(iteration: int, config: TrainingConfig) -> float:
    """The learning rate of an iteration, counted from 0: a pure function, so that a resumed run has the right one."""
    if config.schedule == "steps":
        return config.lr * config.step_factor ** (iteration // config.step_every)
    warmup = min(config.warmup, config.iterations // 10)  # at most a tenth of a short run
    warm = min(1.0, (iteration + 1) / max(1, warmup))
    return config.lr * warm * 0.5 * (1 + math.cos(math.pi * iteration / config.iterations))


def make_optimiser(parts: Sequence[tuple[nn.Module, float]], config: TrainingConfig) -> Optimizer:
    """One optimiser for several parts, each with its own multiple of the learning rate.

    Weight decay acts on matrices and kernels only, not on biases and the weights of norms.
    """
    groups = []
    for module, multiple in parts:
        weights = [p for p in module.parameters() if p.requires_grad]
        for decayed in (True, False):
            chosen = [p for p in weights if (p.ndim > 1) == decayed]
            if chosen:
                groups.append(
                    {"params": chosen, "multiple": multiple, "weight_decay": config.weight_decay if decayed else 0.0}
                )
    if config.optimiser == "sgd":
        return torch.optim.SGD(groups, lr=config.lr, momentum=config.momentum)
    return torch.optim.AdamW(groups, lr=config.lr, fused=True)


def set_learning_rate(optimiser: Optimizer, lr: float) -> None:
    """Set the learning rate of each part: its multiple of `lr`."""
    for group in optimiser.param_groups:
        group["lr"] = lr * group["multiple"]
