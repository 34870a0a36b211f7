"""Learning rates by layer: which weights learn, how fast, and from when on."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from agecli.core.config import TrainingConfig
from agecli.model.backbones import build_backbone
from agecli.training.optimisation import Part, backbone_parts, layers, make_optimiser, set_learning_rate


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 4), nn.Linear(4, 5))


@pytest.mark.parametrize("stages", [0, 2])
def test_layers_hold_every_weight_once(stages: int) -> None:
    backbone = build_backbone("timm:test_efficientnet", 64, 0.875, stages=stages).network
    found = [id(weights) for layer in layers(backbone) for weights in layer]
    assert len(found) == len(set(found))
    assert set(found) == {id(weights) for weights in backbone.parameters()}
    assert len(layers(backbone)) > 2


def test_rates_fall_from_the_last_layer_to_the_first() -> None:
    parts = backbone_parts(network(), TrainingConfig(backbone_lr=0.5, layer_decay=0.1))
    assert [part.multiple for part in parts] == pytest.approx([0.005, 0.05, 0.5])
    assert [part.start for part in parts] == [0, 0, 0]


def test_layers_start_one_after_the_other_from_the_last_one_on() -> None:
    parts = backbone_parts(network(), TrainingConfig(unfreeze_every=100))
    assert [part.start for part in parts] == [300, 200, 100]


def test_a_part_does_not_move_before_its_turn() -> None:
    early, late = nn.Linear(1, 1), nn.Linear(1, 1)
    optimiser = make_optimiser(
        [Part(list(early.parameters())), Part(list(late.parameters()), start=2)], TrainingConfig()
    )
    for iteration in range(3):
        before = late.weight.item()
        optimiser.zero_grad()
        (early(torch.ones(1, 1)) + late(torch.ones(1, 1))).sum().backward()
        set_learning_rate(optimiser, 0.1, iteration)
        optimiser.step()
        assert (late.weight.item() != before) == (iteration == 2)


def test_relative_rates_follow_the_size_of_each_tensor() -> None:
    small, large = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
    nn.init.constant_(small.weight, 0.002)
    nn.init.constant_(large.weight, 0.05)
    parts = backbone_parts(nn.Sequential(small, large), TrainingConfig(relative_lr=True, backbone_lr=2.0))
    optimiser = make_optimiser(parts, TrainingConfig())
    set_learning_rate(optimiser, 1e-3)
    assert [group["lr"] for group in optimiser.param_groups] == pytest.approx([4e-6, 1e-4])


def test_a_tensor_of_zeros_can_move() -> None:
    layer = nn.Linear(2, 2, bias=False)
    nn.init.zeros_(layer.weight)
    (part,) = backbone_parts(nn.Sequential(layer), TrainingConfig(relative_lr=True))
    assert part.sizes == pytest.approx([1e-3])
