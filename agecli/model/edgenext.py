"""EdgeNeXt rewritten for inference: the same function as timm's with pooled stages, in operators that onnxruntime runs fast.

Tokens stay in the order (B, positions, channels), so that every linear layer is one matrix product; affine parameters
(colours, layer norms, layer scale) are folded into the weights of the next or the previous linear layer; the positional
encoding is a constant. Layer norms become instance norms over the channels of a position, whose kernel is vectorised:
onnxruntime's LayerNormalization takes five times as long. What training has switched off is not computed: attention whose
output weights are all zero, and the products of a linear layer beyond its numerical rank. EdgeFace-S has both in its last
block.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from agecli.model.integers import LEAST_RANGE
from agecli.model.pooling import EPSILON, StagePooling

NORM_EPSILON = 1e-6  # of all layer norms of EdgeNeXt
LEAST_NORM = 1e-12  # as torch.nn.functional.normalize
LEAST_SINGULAR = 2**-11  # of the largest singular value: below it is the rounding of weights in float16
WORTH_FACTORS = 0.5  # of the products of a linear layer; two thin layers with 0.625 of them take 0.85 of the time


def is_edgenext(backbone: nn.Module) -> bool:
    """Whether `FastEdgeNeXt` can replace a backbone: EdgeNeXt with a stem of patches, and pooled stages."""
    network: Any = getattr(backbone, "network", None)
    if not isinstance(backbone, StagePooling) or type(network).__name__ != "EdgeNeXt":
        return False
    stem: Any = network.stem[0]
    return bool(stem.kernel_size == stem.stride and not any(block.shortcut_after_dw for block in _conv_blocks(network)))


def _conv_blocks(network: Any) -> list[Any]:
    """The convolutional blocks of all stages; the other blocks have attention."""
    return [block for stage in network.stages for block in stage.blocks if hasattr(block, "conv_dw")]


class FastEdgeNeXt(nn.Module):
    """Pixels (B, 3, S, S), 0 to 255 -> pooled features (B, D), as the colours and the backbone of an AgeModel give them.

    backbone: for which `is_edgenext` holds; mean, std: of the colours, (3, 1, 1), in pixels of 0 to 255; size: S.

    >>> FastEdgeNeXt(model.backbone, model.colours.mean, model.colours.std, model.picture.size)(pixels)
    """

    def __init__(self, backbone: Any, mean: Tensor, std: Tensor, size: int) -> None:
        super().__init__()
        network = backbone.network
        convolution, norm = network.stem
        self.patch = int(convolution.kernel_size[0])
        weight = convolution.weight / std  # (C, 3, p, p)
        bias = convolution.bias - (weight * mean).sum((1, 2, 3))
        self.stem = _Linear(weight.flatten(1), bias)
        self.stem_scale, self.stem_shift = nn.Parameter(norm.weight.clone()), nn.Parameter(norm.bias.clone())
        side = self.side = size // self.patch
        stages = []
        for stage in network.stages:
            stages.append(_Stage(stage, side))
            side = stages[-1].side
        self.stages = nn.ModuleList(stages)
        self.indices = backbone.indices

    def forward(self, pixels: Tensor) -> Tensor:
        """(B, 3, S, S) -> (B, D)"""
        p, side = self.patch, self.side
        patches = pixels[..., : side * p, : side * p].reshape(-1, 3, side, p, side, p).permute(0, 2, 4, 1, 3, 5)
        x = self.stem(patches.reshape(-1, 3 * p * p).float())
        x = (
            _normalise(x.reshape(-1, side * side, self.stem.out_features), side * side) * self.stem_scale
            + self.stem_shift
        )
        features = []
        for index, stage in enumerate(self.stages):
            x = stage(x)
            if index in self.indices:
                mean = x.mean(1)
                variance = (x - mean[:, None]).square().mean(1)
                features += [mean, (variance + EPSILON).sqrt()]
        return torch.cat(features, dim=1)


class _Stage(nn.Module):
    """(B, side^2, C) -> (B, self.side^2, C'): halves the side, except in the first stage."""

    def __init__(self, stage: Any, side: int) -> None:
        super().__init__()
        self.reduce: _Linear | None = None
        self.before = self.side = side
        if not isinstance(stage.downsample, nn.Identity):
            norm, convolution = stage.downsample  # kernel and stride 2, no padding
            self.reduce = _after_norm(norm, convolution)
            self.side = side // 2
        blocks = [_ConvBlock if hasattr(block, "conv_dw") else _AttentionBlock for block in stage.blocks]
        self.blocks = nn.Sequential(*(kind(block, self.side) for kind, block in zip(blocks, stage.blocks, strict=True)))

    def forward(self, x: Tensor) -> Tensor:
        if self.reduce is not None:
            C, n = self.reduce.in_features // 4, self.side
            x = _normalise(x, self.before**2).reshape(-1, self.before, self.before, C)[:, : 2 * n, : 2 * n]
            x = x.reshape(-1, n, 2, n, 2, C).permute(0, 1, 3, 2, 4, 5).reshape(-1, 4 * C)
            x = self.reduce(x).reshape(-1, n * n, self.reduce.out_features)
        out: Tensor = self.blocks(x)
        return out


class _Mlp(nn.Module):
    """Layer norm, two linear layers with a GELU between them, layer scale.   (B, N, C) -> (B, N, C)"""

    def __init__(self, block: Any, side: int) -> None:
        super().__init__()
        self.positions, self.channels = side * side, block.mlp.fc1.in_features
        self.grow = _thin(_after_norm(block.norm, block.mlp.fc1))
        self.shrink = _thin(_scaled(block.mlp.fc2, block.gamma))

    def forward(self, x: Tensor) -> Tensor:
        N, C = self.positions, self.channels
        out: Tensor = self.shrink(F.gelu(self.grow(_normalise(x, N).reshape(-1, C)))).reshape(-1, N, C)
        return out


class _ConvBlock(nn.Module):
    """A depthwise convolution and an MLP, with a residual.   (B, N, C) -> (B, N, C)"""

    def __init__(self, block: Any, side: int) -> None:
        super().__init__()
        self.side, self.convolution, self.mlp = side, block.conv_dw, _Mlp(block, side)

    def forward(self, x: Tensor) -> Tensor:
        N, C = self.side**2, self.convolution.in_channels
        maps = self.convolution(x.reshape(-1, self.side, self.side, C).permute(0, 3, 1, 2))
        out: Tensor = x + self.mlp(maps.permute(0, 2, 3, 1).reshape(-1, N, C))
        return out


class _AttentionBlock(nn.Module):
    """Convolutions of groups of channels, cross-covariance attention and an MLP.   (B, N, C) -> (B, N, C)"""

    def __init__(self, block: Any, side: int) -> None:
        super().__init__()
        self.side, self.convolutions, self.mlp = side, block.convs, _Mlp(block, side)
        position = None
        if block.pos_embd is not None:
            position = nn.Parameter(block.pos_embd((1, side, side)).detach().flatten(2).transpose(1, 2))  # (1, N, C)
        self.position = position
        self.heads = block.xca.num_heads
        self.positions, self.channels = side * side, block.xca.proj.in_features
        self.temperature = block.xca.temperature
        self.qkv = _after_norm(block.norm_xca, block.xca.qkv)
        self.project = _scaled(block.xca.proj, block.gamma_xca)
        self.attends = bool(self.project.weight.any())

    def forward(self, x: Tensor) -> Tensor:
        N, C = self.positions, self.channels
        maps = x.reshape(-1, self.side, self.side, C).permute(0, 3, 1, 2)
        groups = maps.chunk(len(self.convolutions) + 1, dim=1)
        done = [self.convolutions[0](groups[0])]
        for convolution, group in zip(self.convolutions[1:], groups[1:], strict=False):
            done.append(convolution(done[-1] + group))
        y = torch.cat((*done, groups[-1]), 1).permute(0, 2, 3, 1).reshape(-1, N, C)
        if self.position is not None:
            y = y + self.position
        out: Tensor = x + self.mlp(y + (self._attend(y) if self.attends else self.project.bias))
        return out

    def _attend(self, x: Tensor) -> Tensor:
        """Attention between channels: their correlations over the positions are C/heads x C/heads matrices."""
        N, C = self.positions, self.channels
        heads, width = self.heads, C // self.heads
        q, k, v = self.qkv(_normalise(x, N).reshape(-1, C)).reshape(-1, N, 3 * C).chunk(3, -1)
        q_norm, k_norm = (each.square().sum(1).sqrt().clamp_min(LEAST_NORM) for each in (q, k))  # (B, C)
        products = q.reshape(-1, N, heads, width).permute(0, 2, 3, 1) @ k.reshape(-1, N, heads, width).permute(
            0, 2, 1, 3
        )
        products = products / q_norm.reshape(-1, heads, width, 1) / k_norm.reshape(-1, heads, 1, width)
        attention = (products * self.temperature).softmax(-1)  # (B, heads, width, width)
        y = attention @ v.reshape(-1, N, heads, width).permute(0, 2, 3, 1)  # (B, heads, width, N)
        out: Tensor = self.project(y.permute(0, 3, 1, 2).reshape(-1, C)).reshape(-1, N, C)
        return out


def _normalise(x: Tensor, positions: int) -> Tensor:
    """Each position to mean 0 and variance 1 over its channels: a layer norm without its affine part.

    x: (B, positions, C); the number of positions is an argument, because traced shapes are no constants.
    """
    return F.instance_norm(x, weight=torch.ones(positions), bias=torch.zeros(positions), eps=NORM_EPSILON)


class _Linear(nn.Linear):
    """A linear layer with copies of these weights, (out, in) and (out,).

    limits: the least and the largest input (2,), if the layer computes in integers; else None
    """

    def __init__(self, weight: Tensor, bias: Tensor, limits: Tensor | None = None) -> None:
        super().__init__(weight.shape[1], weight.shape[0])
        self.weight, self.bias = nn.Parameter(weight.detach().clone()), nn.Parameter(bias.detach().clone())
        self.range = limits


def _thin(layer: _Linear) -> nn.Module:
    """The layer, or two with the same function to the rounding of float16 if its weights have a low rank.

    The rank is the number of singular values above LEAST_SINGULAR of the largest one.
    """
    if layer.range is not None:
        return layer  # its integers are those that it learned with
    U, S, V = torch.linalg.svd(layer.weight.detach().double(), full_matrices=False)
    rank = max(1, int((LEAST_SINGULAR * S[0] < S).sum()))
    if rank * (layer.in_features + layer.out_features) > WORTH_FACTORS * layer.weight.numel():
        return layer
    down = nn.Linear(layer.in_features, rank, bias=False)
    down.weight = nn.Parameter(V[:rank].float())
    return nn.Sequential(down, _Linear((U[:, :rank] * S[:rank]).float(), layer.bias))


def _after_norm(norm: Any, layer: Any) -> _Linear:
    """A layer norm's affine part and the linear layer or convolution (out, in, …) after it, as one linear layer.

    The inputs of a convolution are ordered by position, then by channel.
    """
    kernel = layer.weight.reshape(*layer.weight.shape[:2], -1)  # (out, in, positions)
    folded = (kernel * norm.weight[:, None]).transpose(1, 2).flatten(1)
    bias = layer.bias + (kernel * norm.bias[:, None]).sum((1, 2))
    return _Linear(folded, bias, getattr(layer, "limits", None))


def _scaled(layer: Any, gamma: Tensor) -> _Linear:
    """A linear layer whose outputs are multiplied by gamma."""
    return _Linear(layer.weight * gamma[:, None], layer.bias * gamma, getattr(layer, "limits", None))


def integer_ranges(module: nn.Module) -> dict[str, tuple[float, float]]:
    """The least and the largest input of each layer that computes in integers, by the name of its weights."""
    layers = ((name, layer) for name, layer in module.named_modules() if isinstance(layer, _Linear))
    found = ((name, layer.range) for name, layer in layers if layer.range is not None)
    return {
        f"{name}.weight": (low, max(high, low + LEAST_RANGE))
        for name, limits in found
        for low, high in [limits.tolist()]
    }
