"""Going on from a trained model: it begins where that one was, and learns what is new."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import agecli
from agecli.core.config import Config, replace
from agecli.core.errors import InputError
from agecli.core.files import read_csv
from agecli.model.bundled import named
from agecli.model.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from agecli.model.network import build_model, start_leaves
from agecli.training.initialisation import first_model, load_initial, take_over
from agecli.training.run_folder import is_run
from tests.training.test_train import TINY


@pytest.fixture(scope="module")
def trained(toy: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    cooled = {**TINY["settings"], "forest.cooling": 0.3}
    agecli.train(toy, out=folder / "run", trees=3, **{**TINY, "iterations": 400, "settings": cooled})
    return folder / "run/fold-1/best.safetensors"


def inherit(changes: dict[str, Any], asked: dict[str, Any]) -> Config:
    config = replace(Config(), changes)
    return take_over(config, asked, load_initial(config))


def test_the_prior_over_ages_is_that_of_the_initial_model_or_the_requested_one(trained: Path, tmp_path: Path) -> None:
    known = load_checkpoint(trained)
    prior = replace(known.config, {"ages.prior": 1.0, "ages.prior_until": 30.0})
    save_checkpoint(tmp_path / "prior.safetensors", known.model, prior, known.notes, known.calibration)
    init = {"init": str(tmp_path / "prior.safetensors")}
    kept = inherit(init, {}).ages
    assert (kept.prior, kept.prior_until) == (1, 30)  # else the model that is kept if none is better is another one
    assert inherit(init, {"ages.prior": 0}).ages.prior == 0
    assert inherit(init, {"ages.prior": 0.5}).forest.trees == 3


def test_it_begins_as_the_model_that_it_goes_on_from(trained: Path) -> None:
    config = inherit({"init": str(trained)}, {})
    assert (config.forest.trees, config.data.size) == (3, 64)
    assert (config.forest.split_temperature, config.forest.leaf_temperature) == (0.0, 1.0)
    start, known = first_model(config, load_initial(config))
    pixels = torch.randint(0, 256, (4, 3, 64, 64), dtype=torch.uint8)
    with torch.inference_mode():
        assert torch.equal(start.eval()(pixels), load_checkpoint(trained).model(pixels))
    assert known


def test_what_is_asked_for_wins_and_another_forest_starts_anew(trained: Path) -> None:
    asked = {"init": str(trained), "forest.trees": 2}
    config = inherit(asked, asked)
    assert config.forest.trees == 2
    assert config.forest.split_temperature == 1  # what starts anew is annealed
    start, known = first_model(config, load_initial(config))
    assert not known
    backbone = load_checkpoint(trained).model.backbone.state_dict()
    assert all(torch.equal(value, backbone[name]) for name, value in start.backbone.state_dict().items())
    with pytest.raises(InputError, match="not a resnet18"):
        first_model(replace(config, {"backbone.name": "resnet18"}), load_initial(config))
    with pytest.raises(InputError, match="has weights already"):
        take_over(config, {"backbone.weights": "imagenet"}, load_initial(config))


def test_it_forgets_nothing_and_a_file_of_settings_is_heard(toy: Path, trained: Path, tmp_path: Path) -> None:
    """A few more steps leave the error about where it was; from scratch they don't reach it."""
    before = load_checkpoint(trained).notes["val_mae"]
    (tmp_path / "mine.toml").write_text("[data]\naugment = 'paper'\n[training]\neval_every = 10\n")
    more = {**TINY, "iterations": 20, "config": tmp_path / "mine.toml"}
    agecli.train(toy, out=tmp_path / "new", **more)
    del more["backbone"], more["weights"]
    agecli.train(toy, out=tmp_path / "more", init=str(trained), **more)
    agecli.train(toy, out=tmp_path / "more", init=str(trained), **more, resume=True)  # the same words go on with it
    config = load_checkpoint(tmp_path / "more/fold-1/best.safetensors").config
    assert (config.init, config.data.augment, config.forest.trees) == (str(trained), "paper", 3)
    went_on, anew = (read_csv(tmp_path / name / "fold-1/history.csv") for name in ("more", "new"))
    assert [row["iteration"] for row in went_on] == ["0", "10", "20"]  # the start itself can be chosen
    assert float(went_on[0]["val_mae"]) == pytest.approx(before, abs=1e-3)
    assert all(float(row["val_mae"]) < before + 1 for row in went_on)
    assert float(anew[-1]["val_mae"]) > before + 1


def test_a_trained_model_can_lend_its_backbone_alone(trained: Path) -> None:
    asked = {"backbone.weights": str(trained), "forest.depth": 4}
    config = inherit(asked, asked)
    assert (config.data.size, config.forest.trees, config.forest.split_temperature) == (64, 5, 1)
    start, known = first_model(config, load_initial(config))
    assert not known
    lent = load_checkpoint(trained).model.backbone.state_dict()
    assert all(torch.equal(value, lent[name]) for name, value in start.backbone.state_dict().items())
    with pytest.raises(InputError, match="not a resnet18"):
        first_model(replace(config, {"backbone.name": "resnet18"}), load_initial(config))


def test_the_backbone_of_the_bundled_model_has_a_name() -> None:
    asked = {"backbone.weights": "default", "model": "dldlf"}
    config = inherit(asked, asked)
    bundled = load_checkpoint(named("default", ".safetensors"))
    assert config.data.size == bundled.config.data.size
    assert config.forest.cooling == Config().forest.cooling
    start, known = first_model(config, load_initial(config))
    assert (known, start.forest.readout) == (False, "mode")
    lent = bundled.model.backbone.state_dict()
    assert all(torch.equal(value, lent[name]) for name, value in start.backbone.state_dict().items())


def test_the_initial_model_is_loaded_once(
    toy: Path, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[Path] = []

    def count(path: Path) -> Checkpoint:
        loaded.append(path)
        return load_checkpoint(path)

    monkeypatch.setattr("agecli.training.initialisation.load_checkpoint", count)
    agecli.train(toy, out=tmp_path / "run", init=trained, iterations=10, batch_size=16, freeze=True)
    assert loaded == [trained]


def test_validation_faces_that_the_initial_model_has_seen_are_said(
    toy: Path, trained: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    few = {**TINY, "iterations": 2}
    agecli.train(toy, out=tmp_path / "other", **few)  # a new model has seen none
    assert not any("has seen" in record.message for record in caplog.records)
    del few["backbone"], few["weights"]
    agecli.train(toy, out=tmp_path / "new", setup="II", folds="1", init=str(trained), **few)
    (said,) = [record.message for record in caplog.records if "has seen" in record.message]
    assert "validation faces: intervals will be too narrow" in said


EDGENEXT = {"backbone": "timm:edgenext_xx_small", "weights": "none"}
INTEGERS: dict[str, Any] = {"backbone.int8": True, "backbone.exact": 2}


@pytest.fixture(scope="module")
def integers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with integer layers, two of them exact."""
    path = tmp_path_factory.mktemp("integers") / "model.safetensors"
    shape = {"backbone.name": EDGENEXT["backbone"], "backbone.stages": 3, "data.size": 64}
    config = replace(Config(), {**shape, **INTEGERS})
    model = build_model(config)
    start_leaves(model.forest, torch.linspace(0, 90, 200), 0)
    save_checkpoint(path, model, config, {})
    return path


def refused(toy: Path, run: Path, settings: dict[str, Any], **arguments: Any) -> str:
    """The error of a training run, which leaves no run folder that the corrected command could not use."""
    with pytest.raises(InputError) as error:
        agecli.train(toy, out=run, iterations=2, batch_size=8, settings={"data.size": 64, **settings}, **arguments)
    assert not is_run(run)
    return str(error.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"backbone.hidden": 0.5}, "has integer layers, which can't lose hidden units"),
        ({"backbone.exact": 3}, "has integer layers, 2 of them exact"),
        ({"backbone.int8": False, "backbone.exact": 0}, "has integer layers"),
    ],
)
def test_integer_layers_can_not_be_changed_again(
    toy: Path, integers: Path, tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    assert refused(toy, tmp_path / "run", settings, init=integers) == f"{integers} {message}"


@pytest.mark.parametrize(
    ("change", "message"),
    [({"backbone.hidden": 0.5}, "fewer hidden units"), ({"backbone.int8": True}, "integer layers")],
)
def test_a_network_that_can_not_be_changed_is_refused_before_the_run_is_written(
    toy: Path, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    assert message in refused(toy, tmp_path / "run", change, backbone="resnet18", weights="none")
    pooled = {**change, "backbone.stages": 3}
    assert "frozen backbone" in refused(toy, tmp_path / "run", pooled, **EDGENEXT, freeze=True)
