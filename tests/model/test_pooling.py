"""Stage pooling and the backbones with a fixed input."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from agecli.core.config import Config, replace
from agecli.core.errors import InputError, MissingError
from agecli.model.backbones import build_backbone, load_weights
from agecli.model.pooling import StagePooling, pooled
from agecli.model.specs import SPECS
from agecli.training.initialisation import take_over

SMALL = "timm:test_efficientnet"


def test_mean_and_std_of_each_channel() -> None:
    maps = torch.randn(2, 3, 4, 5)
    means, stds = pooled(maps).split(3, dim=1)
    torch.testing.assert_close(means, maps.mean((2, 3)))
    torch.testing.assert_close(stds, maps.std((2, 3), correction=0), atol=1e-5, rtol=1e-5)


def test_a_constant_channel_has_a_finite_gradient() -> None:
    maps = torch.ones(1, 2, 3, 3, requires_grad=True)
    pooled(maps).sum().backward()
    assert maps.grad is not None
    assert maps.grad.isfinite().all()


@pytest.mark.parametrize("stages", [1, 2])
def test_features_of_the_last_stages(stages: int) -> None:
    backbone = build_backbone(SMALL, 64, 0.875, stages=stages)
    assert isinstance(backbone.network, StagePooling)
    assert backbone.features == 2 * sum(backbone.network.channels)
    assert backbone.network(torch.zeros(2, 3, 64, 64)).shape == (2, backbone.features)


def test_networks_without_stages_are_refused() -> None:
    with pytest.raises(InputError, match="feature maps of its stages"):
        build_backbone("resnet18", 64, 0.875, stages=2)
    with pytest.raises(InputError, match="stages, not 9"):
        build_backbone(SMALL, 64, 0.875, stages=9)


def test_half_precision_weights_fill_a_pooled_network(tmp_path: Path) -> None:
    network = build_backbone(SMALL, 64, 0.875, stages=2).network
    assert isinstance(network, StagePooling)
    halves = {name: torch.full_like(value, 0.5).half() for name, value in network.network.named_parameters()}
    save_file(halves, tmp_path / "half.safetensors")
    load_weights(network, SMALL, str(tmp_path / "half.safetensors"))
    weights = list(network.parameters())
    assert all(weight.dtype == torch.float32 and (weight == 0.5).all() for weight in weights)


def test_edgeface_brings_its_size_colours_and_stages() -> None:
    asked = {"backbone.name": "edgeface_s", "backbone.weights": "none"}
    config = take_over(replace(Config(), asked), asked, None)
    assert (config.data.size, config.backbone.stages) == (112, 3)
    backbone = build_backbone("edgeface_s", config.data.size, config.data.crop_share, stages=config.backbone.stages)
    assert backbone.features == 2 * (96 + 160 + 304)
    assert (backbone.picture.full, backbone.picture.mean) == (144, (0.5, 0.5, 0.5))


def test_the_network_sees_arcface_eyes() -> None:
    alignment, size = SPECS["edgeface_s"].alignment, SPECS["edgeface_s"].size
    margin = (alignment.size - size) / 2
    (left, y), (right, _) = alignment.eyes
    assert left - margin == pytest.approx(38.3, abs=0.5)
    assert right - margin == pytest.approx(73.5, abs=0.9)
    assert y - margin == pytest.approx(51.6, abs=0.6)


def test_asked_settings_win_over_the_backbones_own() -> None:
    asked = {"backbone.name": "edgeface_s", "backbone.weights": "none", "backbone.stages": 1}
    assert take_over(replace(Config(), asked), asked, None).backbone.stages == 1


def test_edgeface_has_no_imagenet_weights() -> None:
    with pytest.raises(MissingError, match="no ImageNet weights"):
        load_weights(nn.Linear(1, 1), "edgeface_s", "imagenet")
