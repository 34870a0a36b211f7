"""The start of integer layers: a trained EdgeNeXt with fewer hidden units, as nearly the same function as they allow.

Block by block, the second layer of the MLP fc2(GELU(fc1(x))) is solved by least squares, so that the block's output on real
faces is that of the trained network. The hidden units that the fit misses least are left out, as in optimal brain surgery
(Hassibi and Stork, 1993). Since the inputs are those of the new network and the outputs those of the trained one, each
block also makes up for errors of the blocks before it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from agecli.model.integers import IntegerMlp, fold, hidden_units, stages, use_integers

MOST_ROWS = 24_000  # of a least-squares problem; the largest one has 1,217 unknowns per output
RIDGE = 0.01  # of a regressor's variance
LEFT_OUT = 6  # a sixth of the hidden units is left out at a time
LEAST_STD = 1e-4


@torch.no_grad()
def start_integers(
    colours: nn.Module, backbone: Any, faces: Sequence[Tensor], hidden: float = 1.0, name: str = "the backbone"
) -> None:
    """Give a trained backbone integer layers, in place; they round from the first mini-batch of training on.

    colours: of the AgeModel, pixels -> inputs of the backbone; faces: batches of pixels (B, 3, H, W), a thousand in all;
    hidden: the share of the hidden units that are kept. Raises InputError if the backbone is no EdgeNeXt with pooled stages.
    """
    goals = stages(copy.deepcopy(backbone).eval(), name)  # of the trained network
    backbone.eval()
    old = new = [backbone.network.stem(colours(pixels)) for pixels in faces]
    for before, stage in zip(goals, stages(backbone, name), strict=True):
        old, new = ([each.downsample(x) for x in maps] for each, maps in ((before, old), (stage, new)))
        for goal, block in zip(before.blocks, stage.blocks, strict=True):
            old = [goal(x) for x in old]
            new = _replace_mlp(block, new, old, hidden)
    use_integers(backbone, name, hidden)


def _replace_mlp(block: Any, maps: Sequence[Tensor], goal: Sequence[Tensor], hidden: float) -> list[Tensor]:
    """Replace the MLP of a block, so that it turns `maps` into `goal`, each (B, C, H, W) per batch; what it gives instead."""
    fold(block.norm, block.mlp.fc1)
    inputs = list(_inputs(block.mlp, block, maps))
    x = torch.cat([each.flatten(0, -2) for each in inputs])  # (n, C)
    y = torch.cat([_rows(after - before) for before, after in zip(maps, goal, strict=True)])
    chosen = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))[:MOST_ROWS]
    # the layer scale becomes a part of the MLP, and is not trained any more
    block.mlp.fc2.weight *= block.gamma[:, None]
    block.mlp.fc2.bias *= block.gamma
    block.mlp = fitted(block.mlp, x[chosen], y[chosen], hidden_units(block.mlp.fc1.out_features, hidden))
    block.gamma.fill_(1.0)
    block.gamma.requires_grad_(False)
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


def fitted(mlp: Any, x: Tensor, y: Tensor, units: int) -> IntegerMlp:
    """An IntegerMlp with so many of the hidden units of `mlp` that turns x into y as nearly as it can.   x, y: (n, C)

    With all of them, the weights stay as they are.
    """
    new = IntegerMlp(mlp, units)
    if units == mlp.fc1.out_features:
        new.load_state_dict(mlp.state_dict(), strict=False)  # as it is; it has no ranges of inputs yet
        return new
    hidden, y = F.gelu(mlp.fc1(x)).double(), y.double()
    unit, weights = fit(hidden, y, mlp.fc2.weight.T.double(), units)
    new.fc1.weight.copy_(mlp.fc1.weight[unit])
    new.fc1.bias.copy_(mlp.fc1.bias[unit])
    new.fc2.weight.copy_(weights.T)
    new.fc2.bias.copy_(y.mean(0) - hidden[:, unit].mean(0) @ weights)
    return new


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
