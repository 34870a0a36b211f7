"""Integer layers: linear layers of EdgeNeXt in 8-bit integers, simulated in float32 while they learn.

Quantisation-aware training: inputs and weights are rounded to integers in the forward pass, and the gradient passes the
rounding unchanged (straight-through estimator), so that the network learns to be right with rounded numbers. The ONNX
export then computes in integers what was simulated here (`model.integer_graph`), in about half of the time.

- Inputs: 8 bits, 0 to 255, one scale and zero point per layer, from a running range of what the layer sees in training.
- Weights: 7 bits, -63 to 63, one scale per output. With 8 bits, CPUs without VNNI instructions, which add pairs of
  products in 16 bits, would overflow and give other ages.
- GELU and layer norms compute in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from agecli.model.thinning import stages

INPUT_LEVELS = 255
WEIGHT_LEVELS = 63
RATE = 0.01  # of the running range of inputs, per mini-batch
LEAST_RANGE = 0.01  # of inputs; with a smaller step, the bias in steps of the products would exceed 32 bits


class _Straight(torch.autograd.Function):
    """Rounding to integers from low to high, times a scale, with the straight-through estimator of its gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: Tensor, low: Any, high: Any) -> Tensor:
        """x, of any shape; scale, low and high (tensors or integers) are broadcast to it."""
        return (x / scale).round_().clamp_(low, high).mul_(scale)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        """The gradient unchanged, for x alone."""
        return gradients[0], None, None, None


class Rounded(nn.Module):
    """Base class of the layers that round their inputs and weights.

    range: (2,), the least and the largest input, 0 included. Before the first face it is (0, 0), and inputs are not
    rounded.   exact: (), bool: the layer computes in float32 all the same (`keep_exact`).
    """

    weight: Tensor
    range: Tensor
    exact: Tensor

    def _take(self, layer: Any) -> None:
        """Take over the tensors of a layer with floats."""
        self.weight, self.bias = layer.weight, layer.bias
        self.register_buffer("range", torch.zeros(2))
        self.register_buffer("exact", torch.tensor(False))

    @torch.no_grad()
    def observe(self, x: Tensor) -> None:
        """Move the range towards that of a mini-batch."""
        low, high = torch.aminmax(x.float())
        low, high = low.clamp(max=0), high.clamp(min=LEAST_RANGE)
        seen = torch.stack((low, high))
        if self.range[1] == 0:
            self.range.copy_(seen)
        else:
            self.range.lerp_(seen, RATE)

    def rounded_inputs(self, x: Tensor) -> Tensor:
        """The inputs, rounded to 256 levels of their range.   (…) -> (…)"""
        if self.exact:
            return x
        if self.training:
            self.observe(x)
        if self.range[1] == 0:
            return x
        scale, zero = input_scale(self.range)
        return straight(x.float(), scale, -zero, INPUT_LEVELS - zero)

    def rounded_weights(self) -> Tensor:
        """The weights, rounded to 127 levels per output.   (out, …)"""
        return self.weight if self.exact else rounded_weights(self.weight)

    @property
    def limits(self) -> Tensor | None:
        """The range, or None if the layer computes in float32."""
        return None if self.exact else self.range


class IntegerLinear(Rounded, nn.Linear):
    """A linear layer whose inputs and weights are rounded to integers. Made from one with floats, whose tensors it takes."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__(layer.in_features, layer.out_features)
        self._take(layer)

    def forward(self, x: Tensor) -> Tensor:
        """(…, in) -> (…, out)"""
        return F.linear(self.rounded_inputs(x), self.rounded_weights(), self.bias)


class IntegerConv2d(Rounded, nn.Conv2d):
    """The same for a convolution whose stride is its kernel size: a linear layer of patches."""

    def __init__(self, layer: nn.Conv2d) -> None:
        size = (int(layer.kernel_size[0]), int(layer.kernel_size[1]))
        super().__init__(layer.in_channels, layer.out_channels, size, size)
        self._take(layer)

    def forward(self, x: Tensor) -> Tensor:
        """(B, in, H, W) -> (B, out, H / size, W / size)"""
        return F.conv2d(self.rounded_inputs(x), self.rounded_weights(), self.bias, self.stride)


def input_scale(limits: Tensor) -> tuple[Tensor, Tensor]:
    """The scale (), float32, and the zero point (), int32, of 256 levels from limits[0] <= 0 to limits[1] > 0."""
    scale = ((limits[1] - limits[0]).clamp_min(LEAST_RANGE) / INPUT_LEVELS).float()
    return scale, (-limits[0] / scale).round().clamp(0, INPUT_LEVELS).to(torch.int32)


def weight_scale(weight: Tensor) -> Tensor:
    """The scale of the weights of each output.   (out, …) -> (out,)"""
    peak = weight.detach().abs().flatten(1).amax(1)
    return torch.where(peak > 0, peak / WEIGHT_LEVELS, 1.0)


def rounded_weights(weight: Tensor) -> Tensor:
    """The weights, rounded to integers times the scale of their output.   (out, …) -> (out, …)"""
    scale = weight_scale(weight).view(-1, *[1] * (weight.ndim - 1))
    return straight(weight, scale, -WEIGHT_LEVELS, WEIGHT_LEVELS)


def straight(x: Tensor, scale: Tensor, low: Tensor | int, high: Tensor | int) -> Tensor:
    """x, rounded to multiples of a scale from low to high times it; in training, the gradient passes it unchanged.   (…) -> (…)"""
    out: Tensor = _Straight.apply(x, scale, low, high)  # type: ignore[no-untyped-call]
    return out


@torch.no_grad()
def use_integers(backbone: nn.Module, name: str) -> None:
    """Replace the linear layers of an EdgeNeXt with pooled stages by integer layers, in place; they round inputs from
    the first faces on that they see in `keep_exact` or in training.

    The affine part of each layer norm moves into the linear layer after it: what that layer rounds has a variance of 1.
    name: of the backbone. Raises InputError for another network.
    """
    for stage in stages(backbone, name, "integer layers"):
        if not isinstance(stage.downsample, nn.Identity):
            norm, convolution = stage.downsample
            fold(norm, convolution)
            stage.downsample[1] = IntegerConv2d(convolution)
        for block in stage.blocks:
            fold(block.norm, block.mlp.fc1)
            block.mlp.fc1, block.mlp.fc2 = IntegerLinear(block.mlp.fc1), IntegerLinear(block.mlp.fc2)
            if hasattr(block, "xca"):
                fold(block.norm_xca, block.xca.qkv)
                block.xca.qkv, block.xca.proj = IntegerLinear(block.xca.qkv), IntegerLinear(block.xca.proj)


@torch.no_grad()
def keep_exact(colours: nn.Module, backbone: nn.Module, faces: Sequence[Tensor], count: int) -> None:
    """Set the ranges of the integer layers to those of some faces, and let some layers compute in float32: those whose
    rounding, alone, changes the features most.

    A few layers have rare inputs far from all others, for which 256 levels are too coarse, and cause most of the noise.
    colours: of the AgeModel, pixels -> inputs of the backbone;   faces: batches of pixels (B, 3, H, W), a hundred in all;
    count: of the layers that stay exact; with 0, only the ranges are set, which takes one pass.
    """
    layers = [module for module in backbone.modules() if isinstance(module, Rounded)]
    was_training = backbone.training
    backbone.eval()
    hooks = [layer.register_forward_pre_hook(lambda layer, inputs: layer.observe(inputs[0])) for layer in layers]
    for layer in layers:
        layer.exact.fill_(True)
    goal = _features(colours, backbone, faces)
    for hook in hooks:
        hook.remove()
    worst = _most_changed(layers, lambda: _features(colours, backbone, faces), goal)[:count] if count else []
    for layer in layers:
        layer.exact.fill_(layer in worst)
    backbone.train(was_training)


def _most_changed(layers: Sequence[Rounded], features: Callable[[], Tensor], goal: Tensor) -> list[Rounded]:
    """The layers, all of them exact, in the order of what the rounding of each changes in the features (n, D), most first."""
    std, change = goal.std(0).clamp_min(LEAST_RANGE), list[float]()
    for layer in layers:
        layer.exact.fill_(False)
        change.append(float(((features() - goal) / std).square().mean()))
        layer.exact.fill_(True)
    return [layers[number] for number in sorted(range(len(layers)), key=lambda number: -change[number])]


def _features(colours: nn.Module, backbone: nn.Module, faces: Sequence[Tensor]) -> Tensor:
    """The features of batches of pixels.   (B, 3, H, W) each -> (n, D)"""
    return torch.cat([backbone(colours(pixels)) for pixels in faces])


def has_integers(backbone: nn.Module) -> bool:
    """Whether the backbone has integer layers."""
    return any(isinstance(module, Rounded) for module in backbone.modules())


@torch.no_grad()
def fold(norm: Any, layer: Any) -> None:
    """Move the affine part of a layer norm into the linear layer or convolution (out, in, …) after it, in place."""
    shape = (1, -1, *[1] * (layer.weight.ndim - 2))
    layer.bias += (layer.weight * norm.bias.view(shape)).flatten(1).sum(1)
    layer.weight *= norm.weight.view(shape)
    norm.weight.fill_(1.0)
    norm.bias.zero_()
    for affine in (norm.weight, norm.bias):
        affine.requires_grad_(False)
