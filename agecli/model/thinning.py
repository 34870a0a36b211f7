"""Thinner MLPs: a trained EdgeNeXt with fewer hidden units, as nearly the same function as they allow.

Block by block, the second layer of the MLP fc2(GELU(fc1(x))) is solved by least squares, so that the block's output on real
faces is that of the trained network. The hidden units that the fit misses least are left out, as in optimal brain surgery
(Hassibi and Stork, 1993). Since the inputs are those of the new network and the outputs those of the trained one, each
block also makes up for errors of the blocks before it. Training then goes on from there.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from agecli.core.errors import InputError
from agecli.model.pooling import StagePooling

EXPANSION = 4  # hidden units per channel in EdgeNeXt
UNIT_STEP = 16  # hidden units: as many as a CPU multiplies at once
MOST_ROWS = 24_000  # of a least-squares problem; the largest one has 1,217 unknowns per output
RIDGE = 0.01  # of a regressor's variance
LEFT_OUT = 6  # a sixth of the hidden units is left out at a time
LEAST_STD = 1e-4


def hidden_units(units: int, share: float) -> int:
    """The hidden units of a thinner MLP, a share of those of an MLP, in steps of UNIT_STEP.

    >>> hidden_units(640, 0.6)
    384
    """
    return min(units, max(1, round(units * share / UNIT_STEP)) * UNIT_STEP)


def stages(backbone: nn.Module, name: str, change: str) -> list[Any]:
    """The stages of an EdgeNeXt with pooled stages. Raises InputError for another network.

    name: of the backbone;   change: what was to be made of it, for the error
    """
    network: Any = getattr(backbone, "network", None)
    if not isinstance(backbone, StagePooling) or type(network).__name__ != "EdgeNeXt":
        raise InputError(
            f"{name} can't have {change}",
            hint="use edgeface_s, or timm:edgenext_… with backbone.stages, or leave it out",
        )
    return list(network.stages)


def is_thin(backbone: nn.Module, name: str) -> bool:
    """Whether the MLPs of an EdgeNeXt have fewer hidden units than EdgeNeXt's. Raises InputError for another network."""
    blocks = (block for stage in stages(backbone, name, "fewer hidden units") for block in stage.blocks)
    return any(block.mlp.fc1.out_features < EXPANSION * block.mlp.fc1.in_features for block in blocks)


def make_thin(backbone: nn.Module, name: str, hidden: float) -> None:
    """Give each MLP of an EdgeNeXt a share of its hidden units, with random weights, in place.

    name: of the backbone;   hidden: the share. Raises InputError for another network.
    """
    for stage in stages(backbone, name, "fewer hidden units"):
        for block in stage.blocks:
            _resize(block.mlp, hidden_units(block.mlp.fc1.out_features, hidden))


def _resize(mlp: Any, units: int) -> None:
    """Two new linear layers with so many hidden units between them."""
    C = mlp.fc1.in_features
    mlp.fc1, mlp.fc2 = nn.Linear(C, units), nn.Linear(units, C)


@torch.no_grad()
def fit_thin(colours: nn.Module, backbone: Any, faces: Sequence[Tensor], hidden: float, name: str) -> None:
    """Give each MLP of a trained EdgeNeXt a share of its hidden units, fitted to what it does on real faces, in place.

    colours: of the AgeModel, pixels -> inputs of the backbone;   faces: batches of pixels (B, 3, H, W), a thousand in all;
    hidden: the share;   name: of the backbone. Raises InputError if it is no EdgeNeXt with pooled stages.
    """
    goals = stages(copy.deepcopy(backbone).eval(), name, "fewer hidden units")  # of the trained network
    was_training = backbone.training
    backbone.eval()
    old = new = [backbone.network.stem(colours(pixels)) for pixels in faces]
    for before, stage in zip(goals, stages(backbone, name, "fewer hidden units"), strict=True):
        old, new = ([each.downsample(x) for x in maps] for each, maps in ((before, old), (stage, new)))
        for goal, block in zip(before.blocks, stage.blocks, strict=True):
            old = [goal(x) for x in old]
            new = _fit_block(block, new, old, hidden)
    backbone.train(was_training)


def _fit_block(block: Any, maps: Sequence[Tensor], goal: Sequence[Tensor], hidden: float) -> list[Tensor]:
    """Thin the MLP of a block, so that it turns `maps` into `goal`, each (B, C, H, W) per batch; what it gives instead."""
    inputs = list(_inputs(block.mlp, block, maps))
    x = torch.cat([each.flatten(0, -2) for each in inputs])  # (n, C)
    y = torch.cat([_rows(after - before) for before, after in zip(maps, goal, strict=True)])
    chosen = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))[:MOST_ROWS]
    block.mlp.fc2.weight *= block.gamma[:, None]  # the layer scale, which may be near 0, becomes a part of the MLP
    block.mlp.fc2.bias *= block.gamma
    block.gamma.fill_(1.0)
    fit_mlp(block.mlp, x[chosen], y[chosen], hidden_units(block.mlp.fc1.out_features, hidden))
    return [before + block.mlp(each).permute(0, 3, 1, 2) for before, each in zip(maps, inputs, strict=True)]


def _inputs(mlp: nn.Module, block: Callable[[Tensor], Tensor], maps: Sequence[Tensor]) -> Iterator[Tensor]:
    """What an MLP of a block gets for each batch of the block's inputs.   (B, C, H, W) -> (B, H, W, C)"""
    seen: list[Tensor] = []
    hook = mlp.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    for x in maps:
        B, C, H, W = block(x).shape
        yield seen.pop().reshape(B, H, W, C)
    hook.remove()


def _rows(maps: Tensor) -> Tensor:
    """(B, C, H, W) -> (B H W, C)"""
    return maps.permute(0, 2, 3, 1).flatten(0, 2)


@torch.no_grad()
def fit_mlp(mlp: Any, x: Tensor, y: Tensor, units: int) -> None:
    """Keep so many of the hidden units of an MLP, so that it turns x into y as nearly as it can.   x, y: (n, C)"""
    hidden, y = mlp.act(mlp.fc1(x)).double(), y.double()
    unit, weights = fit(hidden, y, mlp.fc2.weight.T.double(), units)
    row, bias = mlp.fc1.weight[unit], mlp.fc1.bias[unit]
    _resize(mlp, units)
    mlp.fc1.weight.copy_(row)
    mlp.fc1.bias.copy_(bias)
    mlp.fc2.weight.copy_(weights.T)
    mlp.fc2.bias.copy_(y.mean(0) - hidden[:, unit].mean(0) @ weights)


def fit(A: Tensor, Y: Tensor, before: Tensor, units: int) -> tuple[Tensor, Tensor]:
    """Least squares with a constant and `units` of the regressors, those that lower the error most.

    A: regressors (n, R); Y: goals (n, C); before: weights (R, C) that are good already. The ridge is on their change, so that
    what the faces do not tell stays as it is. All are float64: some hidden units hardly vary around a large mean.
    Returns the indices of the regressors that are kept (units,), in order, and their weights (units, C).
    """
    std = A.std(0).clamp_min(LEAST_STD)
    A = (A - A.mean(0)) / std
    gram, cross = A.T @ A / len(A), A.T @ (Y - Y.mean(0)) / len(A)
    before = before * std[:, None]
    kept = torch.arange(A.shape[1])
    while True:
        inverse = torch.linalg.inv(gram[kept][:, kept] + RIDGE * torch.eye(len(kept), dtype=gram.dtype))
        weights = before[kept] + inverse @ (cross[kept] - gram[kept][:, kept] @ before[kept])
        many = len(kept) - units
        if many <= 0:
            return kept, weights / std[kept, None]
        rise = weights.square().sum(1) / inverse.diagonal()  # of the squared error, without a regressor
        stay = torch.ones(len(kept), dtype=torch.bool)
        stay[rise.argsort()[: min(many, -(-len(kept) // LEFT_OUT))]] = False
        kept = kept[stay]
