"""Going on from a trained model: it begins where that one was, and learns what is new."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import agecli
from agecli.checkpoint import load_checkpoint
from agecli.config import Config, replace
from agecli.errors import InputError
from agecli.files import read_csv
from agecli.starting import first_model, take_over
from tests.test_training import TINY


@pytest.fixture(scope="module")
def trained(toy: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    agecli.train(toy, out=folder / "run", trees=3, **TINY)
    return folder / "run/fold-1/best.safetensors"


def test_it_begins_as_the_model_that_it_goes_on_from(trained: Path) -> None:
    config = take_over(replace(Config(), {"init": str(trained)}), {})
    assert (config.forest.trees, config.data.size) == (3, 64)
    assert (config.forest.split_temperature, config.forest.leaf_temperature) == (0.0, 1.0)
    start, known = first_model(config)
    pixels = torch.randint(0, 256, (4, 3, 64, 64), dtype=torch.uint8)
    with torch.inference_mode():
        assert torch.equal(start.eval()(pixels), load_checkpoint(trained).model(pixels))
    assert known


def test_what_is_asked_for_wins_and_another_forest_starts_anew(trained: Path) -> None:
    asked = {"init": str(trained), "forest.trees": 2, "forest.split_temperature": 0.5}
    config = take_over(replace(Config(), asked), asked)
    assert (config.forest.trees, config.forest.split_temperature) == (2, 0.5)
    start, known = first_model(config)
    assert not known
    backbone = load_checkpoint(trained).model.backbone.state_dict()
    assert all(torch.equal(value, backbone[name]) for name, value in start.backbone.state_dict().items())
    with pytest.raises(InputError, match="not a resnet18"):
        first_model(replace(config, {"backbone.name": "resnet18"}))


def test_it_forgets_nothing_and_learns_more(toy: Path, trained: Path, tmp_path: Path) -> None:
    """A few more steps on the same faces leave the error about where it was; from scratch they would not reach it."""
    before = load_checkpoint(trained)
    more = {**TINY, "iterations": 20}
    del more["backbone"], more["weights"]
    agecli.train(toy, out=tmp_path / "more", init=str(trained), **more)
    agecli.train(toy, out=tmp_path / "new", **{**TINY, "iterations": 20})
    after, new = (load_checkpoint(tmp_path / name / "fold-1/best.safetensors") for name in ("more", "new"))
    assert after.config.init == str(trained)
    assert read_csv(tmp_path / "more/fold-1/history.csv")[0]["iteration"] == "0"  # the start itself can be chosen
    errors = [checkpoint.notes["val_mae"] for checkpoint in (before, after, new)]
    assert errors[1] < errors[0] + 1
    assert errors[1] < errors[2]
