"""Thinner MLPs: least squares keep the hidden units that matter, and the start is near the trained network."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import agecli
from agecli.core.config import Config, replace
from agecli.core.errors import InputError
from agecli.model.checkpoint import load_checkpoint, save_checkpoint
from agecli.model.network import AgeModel, build_model
from agecli.model.thinning import fit, fit_mlp, fit_thin, hidden_units, is_thin
from tests.model.small_edgenext import NAME, SETTINGS, SIZE, noise, pixels, trained_model


@pytest.fixture(scope="module")
def trained() -> AgeModel:
    return trained_model()


def thinned(trained: AgeModel, hidden: float) -> AgeModel:
    made = copy.deepcopy(trained)
    fit_thin(made.colours, made.backbone, pixels(64).split(16), hidden, NAME)
    return made


class Mlp(nn.Module):
    """As timm's: fc2(GELU(fc1(x)))."""

    def __init__(self, channels: int, units: int) -> None:
        super().__init__()
        self.fc1, self.act, self.fc2 = nn.Linear(channels, units), nn.GELU(), nn.Linear(units, channels)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.fc2(self.act(self.fc1(x)))
        return out


def fit_to(mlp: Mlp, x: Tensor, y: Tensor, units: int) -> Tensor:
    made = copy.deepcopy(mlp)
    fit_mlp(made, x, y, units)
    out: Tensor = made(x)
    return out


@pytest.mark.parametrize(
    ("units", "share", "kept"), [(640, 1.0, 640), (192, 0.625, 128), (16, 0.01, 16), (96, 0.5, 48)]
)
def test_hidden_units_come_in_steps_of_sixteen(units: int, share: float, kept: int) -> None:
    assert hidden_units(units, share) == kept


def test_least_squares_with_all_regressors_finds_the_weights() -> None:
    A, goal = noise(500, 12).double(), noise(12, 3, seed=1).double()
    kept, weights = fit(A, A @ goal + 7, torch.zeros(12, 3).double(), 12)
    assert kept.tolist() == list(range(12))
    assert torch.allclose(weights, goal, atol=0.05)  # the ridge is 0.01


def test_weights_that_are_right_already_stay_as_they_are() -> None:
    A, goal = noise(500, 12).double() + 30, noise(12, 3, seed=1).double()
    _, weights = fit(A, A @ goal, goal, 12)
    assert torch.allclose(weights, goal, atol=1e-9)


def test_regressors_without_effect_are_left_out() -> None:
    A, used = noise(500, 12).double(), torch.tensor([0, 1, 2, 5, 8])
    kept, weights = fit(A, A[:, used] @ noise(5, 3, seed=1).double(), torch.zeros(12, 3).double(), 5)
    assert kept.tolist() == used.tolist()
    assert weights.shape == (5, 3)


def test_a_fitted_mlp_is_nearer_to_its_goal_with_more_hidden_units() -> None:
    mlp = Mlp(16, 64)
    with torch.no_grad():
        mlp.fc1.weight.mul_(4)
        x = noise(4000, 16)
        y = mlp(x)
        errors = [float((fit_to(mlp, x, y, units) - y).square().mean() / y.var()) for units in (16, 32, 64)]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.01


def test_the_start_is_near_the_trained_network(trained: AgeModel) -> None:
    with torch.inference_mode():
        goal = trained.extractor(pixels(64))
        models = [thinned(trained, hidden) for hidden in (0.25, 0.5, 0.75)]
        errors = [float((model.extractor(pixels(64)) - goal).square().mean()) for model in models]
    assert errors == sorted(errors, reverse=True)
    assert errors[1] < 0.15 * float((goal - goal.mean(0)).square().mean())


def test_a_thin_checkpoint_is_the_same_after_loading(trained: AgeModel, tmp_path: Path) -> None:
    model = thinned(trained, 0.5)
    assert is_thin(model.backbone, NAME)
    assert not is_thin(trained.backbone, NAME)
    save_checkpoint(tmp_path / "model.safetensors", model, replace(Config(), {**SETTINGS, "backbone.hidden": 0.5}), {})
    again = load_checkpoint(tmp_path / "model.safetensors").model
    with torch.inference_mode():
        assert torch.equal(again(pixels(4)), model(pixels(4)))


def test_another_network_cannot_lose_hidden_units() -> None:
    with pytest.raises(InputError, match="resnet18 can't have fewer hidden units"):
        build_model(replace(Config(), {"backbone.name": "resnet18", "backbone.hidden": 0.5}))
    model = build_model(replace(Config(), {"backbone.name": "resnet18"}))
    with pytest.raises(InputError, match="resnet18 can't have fewer hidden units"):
        fit_thin(model.colours, model.backbone, [], 0.5, "resnet18")


def test_a_thin_model_is_trained_and_stays_thin(toy: Path, tmp_path: Path) -> None:
    chosen: dict[str, Any] = {"data": toy, "backbone": NAME, "iterations": 4, "batch_size": 8}
    settings = {"backbone.stages": 3, "data.size": SIZE, "training.eval_every": 1000}
    agecli.train(**chosen, out=tmp_path / "whole", weights="none", settings=settings)
    whole = tmp_path / "whole/fold-1/last.safetensors"
    agecli.train(**chosen, out=tmp_path / "thin", init=whole, settings={"backbone.hidden": 0.5})
    thin = tmp_path / "thin/fold-1/last.safetensors"
    assert is_thin(load_checkpoint(thin).model.backbone, NAME)
    agecli.train(**chosen, out=tmp_path / "again", init=thin)
    assert load_checkpoint(tmp_path / "again/fold-1/last.safetensors").config.backbone.hidden == 0.5
    with pytest.raises(InputError, match=r"has 0\.5 of the hidden units already"):
        agecli.train(**chosen, out=tmp_path / "thinner", init=thin, settings={"backbone.hidden": 0.25})
    with pytest.raises(InputError, match="a frozen backbone can't lose hidden units"):
        agecli.train(**chosen, out=tmp_path / "frozen", init=whole, freeze=True, settings={"backbone.hidden": 0.5})
