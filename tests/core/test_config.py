"""Settings: read from anywhere, wrong ones named, and the same after a round trip."""

from __future__ import annotations

import pytest

from agecli.core.config import (
    PAPER,
    PRESETS,
    Config,
    check,
    describe,
    from_toml,
    preset,
    replace,
    settings,
    to_toml,
)
from agecli.core.errors import InputError
from agecli.forest.forests import GaussianForest
from agecli.model.network import build_model


@pytest.mark.parametrize("name", PRESETS)
def test_a_config_survives_toml(name: str) -> None:
    config = replace(preset(name), {"backbone.weights": 'a "quoted" name\\é.pth', "forest.alpha": 0.5})
    assert from_toml(to_toml(config), Config()) == config
    assert check(preset(name)) == preset(name)


def test_the_papers_settings() -> None:
    forest, training = PAPER.forest, PAPER.training
    assert (forest.trees, forest.depth, forest.leaves, forest.splits, forest.units) == (5, 6, 32, 31, 128)
    assert (forest.update_rounds, forest.update_every, forest.alpha, forest.units_std) == (20, 50, 2.0, 0.005)
    assert (forest.split_temperature, forest.leaf_temperature, forest.cooling) == (1.0, 0.5, 0.9)
    assert (training.lr, training.batch_size, training.iterations, training.momentum) == (0.05, 16, 30_000, 0.9)
    assert (training.schedule, training.step_every, training.step_factor, training.optimiser) == (
        "steps",
        10_000,
        0.5,
        "sgd",
    )
    assert (PAPER.backbone.name, PAPER.backbone.weights, PAPER.data.augment) == ("vgg16", "imagenet", "paper")
    assert round(224 / PAPER.data.crop_share) == 256


def test_text_is_read_as_the_type_of_the_setting() -> None:
    config = replace(
        Config(), {"forest.trees": "7", "training.lr": "3e-4", "backbone.freeze": "true", "model": "dldlf"}
    )
    assert (config.forest.trees, config.training.lr, config.backbone.freeze, config.model) == (7, 3e-4, True, "dldlf")


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("forest.tree", 5, "did you mean `forest.trees`?"),
        ("trees", 5, "did you mean `forest.trees`?"),
        ("forest.trees", "many", "a whole number"),
        ("forest.trees", 2.5, "a whole number"),
        ("training.lr", "nan", "a number"),
        ("training.save_every", "inf", "a number"),
        ("training.lr", [0.1], "a number"),
        ("model", ["drf"], "drf, dldlf"),
        ("backbone.freeze", "maybe", "true or false"),
        ("model", "cnn", "drf, dldlf"),
    ],
)
def test_a_wrong_setting_is_an_error_that_helps(name: str, value: object, says: str) -> None:
    with pytest.raises(InputError) as caught:
        replace(Config(), {name: value})
    assert name in caught.value.message
    assert says in caught.value.hint


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"forest.depth": 1}, "`forest.depth` is 1 it must be at least 2 and at most 16"),
        ({"forest.depth": 60}, "at most 16"),
        ({"forest.units": 30}, "30 units can't feed the 31 split nodes"),
        ({"forest.units": 30}, "--units 31"),
        ({"forest.trees": 0}, "forest.trees"),
        ({"forest.alpha": -1}, "forest.alpha"),
        ({"forest.cooling": 1.5}, "forest.cooling"),
        ({"forest.cooling": 0}, "above 0 and at most 1"),
        ({"training.average": 1}, "at least 0 and below 1"),
        ({"model": "dndf"}, "one class for each age"),
        ({"training.lr": 0}, "training.lr"),
        ({"training.batch_size": 0}, "training.batch_size"),
        ({"ages.high": 0}, "age grid"),
        ({"data.size": -5}, "data.size"),
        ({"training.momentum": -1}, "training.momentum"),
        ({"data.val_share": 0}, "training.select=last"),
        ({"backbone.exact": 3}, "backbone.int8=true"),
    ],
)
def test_numbers_that_make_no_model_are_named(changes: dict[str, object], says: str) -> None:
    with pytest.raises(InputError) as caught:
        check(replace(Config(), changes))
    assert says in f"{caught.value.message} {caught.value.hint}"


def test_every_setting_has_a_name_of_its_own() -> None:
    names = [name for name, _ in settings(Config())]
    assert len(names) == len(set(names)) > 30


def test_a_file_that_is_not_toml_is_named() -> None:
    with pytest.raises(InputError, match=r"mine\.toml is not TOML"):
        from_toml("trees =", Config(), "mine.toml")


def test_a_model_is_read_as_its_settings_say() -> None:
    assert build_model(replace(Config(), {"backbone.name": "timm:test_efficientnet"})).forest.readout == "mean"
    for model, readout in (("drf", "median"), ("dldlf", "mean")):
        changes = {"backbone.name": "timm:test_efficientnet", "model": model, "ages.readout": readout}
        assert build_model(replace(Config(), changes)).forest.readout == readout
    assert GaussianForest.readout == "mean"  # the family's own stays


def test_every_setting_says_what_it_means_and_presets_keep_their_bounds() -> None:
    for name, value in settings(Config()):
        description = describe(name)
        assert description.about
        assert isinstance(value, description.kind)
        assert not description.choices or value in description.choices


def test_settings_with_comments_are_read_back() -> None:
    text = to_toml(PAPER, comments=True)
    assert "trees = 5  # trees, K\n" in text
    assert from_toml(text, Config()) == PAPER
