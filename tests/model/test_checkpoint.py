"""Checkpoints: one file rebuilds the model, and a bad file gets a plain error."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from agecli.core.config import Config, replace
from agecli.core.errors import InputError, MissingError
from agecli.model.checkpoint import KIND, load_checkpoint, save_checkpoint
from agecli.model.network import AgeModel, build_model, start_leaves

SMALL = {
    "backbone.name": "timm:test_efficientnet",
    "data.size": 64,
    "forest.depth": 4,
    "forest.units": 16,
    "ages.high": 90,
}


def model_and_config(name: str) -> tuple[AgeModel, Config]:
    config = replace(Config(), {**SMALL, "model": name})
    model = build_model(config)
    start_leaves(model.forest, torch.arange(90.0), 5)
    model.scale.mean.fill_(0.3)
    return model.eval(), config


@pytest.mark.parametrize("name", ["drf", "dldlf"])
def test_a_saved_model_predicts_the_same_after_loading(tmp_path: Path, name: str) -> None:
    model, config = model_and_config(name)
    with torch.no_grad():
        model.f.weight.normal_()
    save_checkpoint(tmp_path / "m.safetensors", model, config, {"iteration": 7, "val_mae": 3.5})
    loaded = load_checkpoint(tmp_path / "m.safetensors")
    pixels = torch.randint(0, 256, (3, 3, 64, 64), dtype=torch.uint8)
    with torch.inference_mode():
        assert torch.equal(model(pixels), loaded.model(pixels))
        assert torch.allclose(model(pixels).sum(-1), torch.ones(3), atol=1e-5)
    assert loaded.config == config
    assert loaded.model.picture == model.picture
    before, after = (m.state_dict() for m in (model, loaded.model))
    assert before.keys() == after.keys()
    assert all(torch.equal(value, after[key]) for key, value in before.items())
    assert loaded.model.forest.grid.high == 90
    assert loaded.notes == {"iteration": 7, "val_mae": 3.5}


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    model, config = model_and_config("drf")
    save_checkpoint(tmp_path / "m.safetensors", model, config, {})
    return tmp_path / "m.safetensors"


@pytest.mark.parametrize("keep", [0, 4, 100, 5000, -1])
def test_a_truncated_file(saved: Path, keep: int) -> None:
    saved.write_bytes(saved.read_bytes()[:keep])
    with pytest.raises(InputError, match="a whole safetensors file"):
        load_checkpoint(saved)


def test_a_newer_format(saved: Path) -> None:
    save_file(load_file(saved), saved, {"kind": KIND, "format": "99", "header": "{}"})
    with pytest.raises(InputError, match="format 99") as caught:
        load_checkpoint(saved)
    assert "newer agecli" in caught.value.hint


@pytest.mark.parametrize("about", [{}, {"format": "one", "header": "{}"}, {"format": "1", "header": "{"}])
def test_a_damaged_header(saved: Path, about: dict[str, str]) -> None:
    save_file(load_file(saved), saved, {"kind": KIND, **about})
    with pytest.raises(InputError, match="damaged header"):
        load_checkpoint(saved)


def test_loading_leaves_the_callers_random_numbers_alone(saved: Path) -> None:
    torch.manual_seed(3)
    expected = torch.rand(1)
    torch.manual_seed(3)
    load_checkpoint(saved)
    assert torch.equal(torch.rand(1), expected)


def test_no_checkpoint_at_all(saved: Path, tmp_path: Path) -> None:
    save_file({"x": torch.zeros(1)}, saved)
    with pytest.raises(InputError, match="is no agecli-checkpoint"):
        load_checkpoint(saved)
    saved.write_text("hello")
    with pytest.raises(InputError):
        load_checkpoint(saved)
    with pytest.raises(MissingError):
        load_checkpoint(tmp_path / "gone.safetensors")


def test_tensors_that_do_not_fit_their_config(saved: Path) -> None:
    tensors = load_file(saved)
    header = {"config": SMALL | {"forest.trees": 9}, "picture": {}, "notes": {}}
    save_file(tensors, saved, {"kind": KIND, "format": "1", "header": json.dumps(header)})
    with pytest.raises(InputError, match="does not fit"):
        load_checkpoint(saved)


def test_a_mirrored_model_says_the_same_of_a_face_and_of_its_mirror_image(tmp_path: Path) -> None:
    model, config = model_and_config("drf")
    config = replace(config, {"backbone.mirror": True})
    model = build_model(config).eval()
    with torch.no_grad():
        model.f.weight.normal_()
    pixels = torch.randint(0, 256, (3, 3, 64, 64), dtype=torch.uint8)
    with torch.inference_mode():
        assert torch.allclose(model(pixels), model(pixels.flip(-1)), atol=1e-6)
        plain = model.backbone(model.colours(pixels)), model.backbone(model.colours(pixels.flip(-1)))
        assert torch.allclose(model.extractor(pixels), (plain[0] + plain[1]) / 2)
        assert not torch.allclose(*plain)
    save_checkpoint(tmp_path / "m.safetensors", model, config, {})
    loaded = load_checkpoint(tmp_path / "m.safetensors").model
    with torch.inference_mode():
        assert torch.equal(loaded(pixels), model(pixels))
