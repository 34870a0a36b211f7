"""The start of integer layers: a trained EdgeNeXt with GELU as nearly the same function with ReLU and fewer hidden units.

Block by block, the MLP fc2(GELU(fc1(x))) is replaced by skip(x) + fc2(ReLU(fc1(x) - b)). The kink b of each hidden unit is
the one with which two linear pieces fit its GELU best; skip and fc2 are then solved by least squares, so that the block's
output on real faces is that of the trained network. The hidden units that the fit misses least are left out, as in optimal
brain surgery (Hassibi and Stork, 1993). Since the inputs are those of the new network and the outputs those of the
trained one, each block also makes up for errors of the blocks before it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from agecli.model.integers import IntegerMlp, fold, hidden_units, stages, use_integers

KINKS = torch.linspace(-1.5, 1.5, 13)  # b, in stds from the mean of a hidden unit
MOST_ROWS = 24_000  # of a least-squares problem; the largest one has 1,521 unknowns per output
KINK_ROWS = 6000
RIDGE = 3e-4  # of a regressor's variance
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
    trained = copy.deepcopy(backbone).eval()
    backbone.eval()
    old = new = [trained.network.stem(colours(pixels)) for pixels in faces]
    for before, stage in zip(stages(trained, name), stages(backbone, name), strict=True):
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
    block.mlp = fitted(block.mlp, x[chosen], y[chosen], hidden_units(block.mlp.fc1.out_features, hidden))
    block.gamma.fill_(1.0)  # the layer scale is part of the fit, and is not trained any more
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
    """An IntegerMlp with so many hidden units that turns x into y as nearly as it can.   x, y: (n, C)

    Its hidden units are some of those of `mlp`, an MLP with a GELU, shifted by their kinks.
    """
    C = x.shape[1]
    h = mlp.fc1(x)
    b = kinks(h[:KINK_ROWS])
    regressors = torch.cat((x, F.relu(h - b), torch.ones(len(x), 1)), 1)  # (n, C + H + 1)
    kept, weights = fit(regressors, y, range(C, C + h.shape[1]), units)
    unit = kept[C:-1] - C
    new = IntegerMlp(mlp, units)
    new.fc1.weight.copy_(mlp.fc1.weight[unit])
    new.fc1.bias.copy_((mlp.fc1.bias - b)[unit])
    new.skip.weight.copy_(weights[:C].T)
    new.fc2.weight.copy_(weights[C:-1].T)
    new.fc2.bias.copy_(weights[-1])
    return new


@dataclass(frozen=True)
class _Sums:
    """Second moments of regressors A (n, R), each divided by its std, with themselves and with the goals Y (n, C)."""

    std: Tensor  # (R,)
    gram: Tensor  # (R, R), with the ridge
    cross: Tensor  # (R, C)


def fit(A: Tensor, Y: Tensor, optional: range, units: int) -> tuple[Tensor, Tensor]:
    """Least squares with a ridge, with `units` of the optional regressors, those that lower the error most.

    A: regressors (n, R), the last one constant; Y: goals (n, C); optional: indices of regressors that may be left out.
    Returns the indices of the regressors that are kept (r,), in order, and their weights (r, C).
    """
    sums = _sums(A, Y)
    kept = torch.arange(A.shape[1])
    while True:
        inverse = torch.linalg.inv(sums.gram[kept][:, kept])
        weights = inverse @ sums.cross[kept]
        may_go = (kept >= optional.start) & (kept < optional.stop)
        many = int(may_go.sum()) - units
        if many <= 0:
            return kept, (weights / sums.std[kept, None]).float()
        rise = weights.square().sum(1) / inverse.diagonal()  # of the squared error, without a regressor
        rise[~may_go] = torch.inf
        stay = torch.ones_like(may_go)
        stay[rise.argsort()[: min(many, -(-int(may_go.sum()) // LEFT_OUT))]] = False
        kept = kept[stay]


def _sums(A: Tensor, Y: Tensor) -> _Sums:
    """The sums of a least-squares problem, in float64; the last regressor, which is constant, is left as it is."""
    std = A.std(0).clamp_min(LEAST_STD)
    std[-1] = 1.0
    A = A / std
    ridge = torch.full((A.shape[1],), RIDGE, dtype=torch.float64)
    ridge[-1] = 0.0
    return _Sums(std.double(), (A.T @ A).double() / len(A) + ridge.diag(), (A.T @ Y).double() / len(A))


def kinks(h: Tensor) -> Tensor:
    """b of the best approximation of GELU(h) by c0 + c1 h + c2 ReLU(h - b), for each hidden unit.   (n, units) -> (units,)"""
    goal, mean, std = F.gelu(h), h.mean(0), h.std(0).clamp_min(LEAST_STD)
    lowest, best = torch.full_like(mean, torch.inf), mean
    for kink in KINKS:
        b = mean + kink * std
        A = torch.stack((torch.ones_like(h), (h - mean) / std, F.relu(h - b) / std), -1)  # (n, units, 3)
        gram = torch.einsum("nui,nuj->uij", A, A) + RIDGE * len(h) * torch.eye(3)
        c = torch.linalg.solve(gram, torch.einsum("nui,nu->ui", A, goal))
        error = (torch.einsum("nui,ui->nu", A, c) - goal).square().mean(0)
        best = torch.where(error < lowest, b, best)
        lowest = torch.minimum(error, lowest)
    return best
