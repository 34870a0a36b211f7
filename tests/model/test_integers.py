"""Integer layers: what training simulates is what the graph computes."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import agecli
from agecli.core.ages import AgeGrid
from agecli.core.config import Config, replace
from agecli.core.errors import InputError
from agecli.model.checkpoint import load_checkpoint, save_checkpoint
from agecli.model.integers import (
    INPUT_LEVELS,
    WEIGHT_LEVELS,
    IntegerConv2d,
    IntegerLinear,
    keep_exact,
    rounded_weights,
    use_integers,
    weight_scale,
)
from agecli.model.network import AgeModel, build_model
from agecli.model.predictors import OnnxPredictor
from tests.model.small_edgenext import SETTINGS as FLOAT_SETTINGS
from tests.model.small_edgenext import noise, pixels, trained_model

SETTINGS = {**FLOAT_SETTINGS, "backbone.int8": True}


@pytest.fixture(scope="module")
def trained() -> AgeModel:
    return trained_model()


@pytest.fixture(scope="module")
def model(trained: AgeModel) -> AgeModel:
    """The same with integer layers, whose ranges were observed."""
    made = copy.deepcopy(trained)
    use_integers(made.backbone, "edgenext_xx_small")
    made.train()
    with torch.no_grad():
        made.extractor(pixels(64))
    return made.eval()


def test_rounded_inputs_are_256_levels_of_their_range() -> None:
    layer = IntegerLinear(nn.Linear(8, 4)).train()
    x = noise(1000, 8)
    seen = layer.rounded_inputs(x)
    low, high = layer.range.tolist()
    step = (high - low) / INPUT_LEVELS
    assert low < 0 < high
    assert len(seen.unique()) <= INPUT_LEVELS + 1
    assert torch.equal(layer.eval().rounded_inputs(torch.zeros(1)), torch.zeros(1))  # so padding and ReLU stay exact
    assert ((seen - x).abs()[(x > low) & (x < high)] <= 0.51 * step).all()


def test_before_the_first_mini_batch_nothing_is_rounded() -> None:
    plain = nn.Linear(8, 4)
    layer, x = IntegerLinear(plain).eval(), noise(5, 8)
    assert torch.equal(layer.rounded_inputs(x), x)


def test_rounded_weights_have_seven_bits_per_output() -> None:
    weight = noise(6, 40) * torch.logspace(-3, 3, 6)[:, None]
    whole = rounded_weights(weight) / weight_scale(weight)[:, None]
    assert torch.allclose(whole, whole.round(), atol=1e-3)
    assert whole.abs().amax(1).round().tolist() == [WEIGHT_LEVELS] * 6


def test_the_gradient_passes_the_rounding_unchanged() -> None:
    layer = IntegerLinear(nn.Linear(8, 4)).train()
    x = noise(20, 8).requires_grad_()
    layer(x).sum().backward()
    assert x.grad is not None
    assert torch.allclose(x.grad, rounded_weights(layer.weight).sum(0).expand_as(x))
    assert layer.weight.grad is not None
    assert torch.allclose(layer.weight.grad, layer.rounded_inputs(x).sum(0).expand_as(layer.weight), atol=1e-4)


def test_a_checkpoint_with_integers_is_the_same_after_loading(model: AgeModel, tmp_path: Path) -> None:
    config = replace(Config(), SETTINGS)
    save_checkpoint(tmp_path / "model.safetensors", model, config, {})
    again = load_checkpoint(tmp_path / "model.safetensors").model
    with torch.inference_mode():
        assert torch.equal(again(pixels(4)), model(pixels(4)))


def test_the_graph_computes_in_integers_what_torch_simulates(model: AgeModel, tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "model.safetensors", model, replace(Config(), SETTINGS), {})
    agecli.export(tmp_path / "model.safetensors", out=tmp_path / "model.onnx")
    graph = onnx.load(str(tmp_path / "model.onnx")).graph
    kinds = [node.op_type for node in graph.node]
    layers = sum(isinstance(module, IntegerLinear | IntegerConv2d) for module in model.modules())
    assert kinds.count("QGemm") == layers
    x = pixels(32)
    with torch.inference_mode():
        expected = model(x).numpy()
    years = AgeGrid().years
    found = OnnxPredictor(tmp_path / "model.onnx").pmf(x.numpy())
    assert (
        np.abs((found - expected) @ years).mean() < 0.1 * (expected @ years).std()
    )  # some inputs are rounded another way


def test_another_network_cannot_have_integer_layers() -> None:
    with pytest.raises(InputError, match="resnet18 can't have integer layers"):
        build_model(replace(Config(), {"backbone.name": "resnet18", "backbone.int8": True}))


def test_the_layers_whose_rounding_costs_most_stay_exact(trained: AgeModel) -> None:
    made, batches = copy.deepcopy(trained), pixels(32).split(16)
    blocks: Any = made.backbone.network
    spiky = blocks.stages[1].blocks[0].mlp
    with torch.no_grad():  # one hidden unit with values far above the others: 256 levels are too coarse for these
        spiky.fc1.bias[0] += 3000
        spiky.fc2.weight[:, 0] = 0
    use_integers(made.backbone, "edgenext_xx_small")
    keep_exact(made.colours, made.backbone.train(), batches, 2)
    assert all(module.training for module in made.backbone.modules())
    layers = [module for module in made.modules() if isinstance(module, IntegerLinear | IntegerConv2d)]
    assert sum(bool(layer.exact) for layer in layers) == 2
    assert spiky.fc2.exact
    assert all(layer.range[1] > 0 for layer in layers)
    x, fc2 = noise(10, spiky.fc2.in_features), spiky.fc2.eval()
    assert torch.equal(fc2(x), F.linear(x, fc2.weight, fc2.bias))


def test_exact_layers_are_exact_in_the_graph_and_after_loading(model: AgeModel, tmp_path: Path) -> None:
    made = copy.deepcopy(model)
    layers = [module for module in made.modules() if isinstance(module, IntegerLinear | IntegerConv2d)]
    for layer in layers[::2]:
        layer.exact.fill_(True)
    save_checkpoint(tmp_path / "model.safetensors", made, replace(Config(), SETTINGS), {})
    agecli.export(tmp_path / "model.safetensors", out=tmp_path / "model.onnx")
    graph = onnx.load(str(tmp_path / "model.onnx")).graph
    assert [node.op_type for node in graph.node].count("QGemm") == len(layers) - len(layers[::2])
    again = load_checkpoint(tmp_path / "model.safetensors").model
    with torch.inference_mode():
        assert torch.equal(again(pixels(4)), made.eval()(pixels(4)))


def test_a_start_that_remains_the_best_model_rounds_its_inputs(trained: AgeModel, toy: Path, tmp_path: Path) -> None:
    """Iteration 0 is validated and kept: without ranges, the exported layers would clip all of their inputs."""
    whole = tmp_path / "whole.safetensors"
    save_checkpoint(whole, trained, replace(Config(), SETTINGS | {"backbone.int8": False}), {})
    settings = {"backbone.int8": True, "training.schedule": "steps", "training.warmup": 0}
    agecli.train(toy, out=tmp_path / "run", init=whole, iterations=2, batch_size=8, lr=1.0, settings=settings)
    best = load_checkpoint(tmp_path / "run/fold-1/best.safetensors")
    assert best.notes["iteration"] == 0
    layers = [module for module in best.model.modules() if isinstance(module, IntegerLinear | IntegerConv2d)]
    assert all(layer.range[1] > 0 for layer in layers)
    assert not any(layer.exact for layer in layers)
