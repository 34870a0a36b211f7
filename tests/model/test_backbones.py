"""Backbones: what a name gives, and which weights fit it."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from agecli.core.errors import InputError, MissingError
from agecli.model.backbones import COMMON, build_backbone, load_weights, match_weights, wheel_weights


@pytest.mark.parametrize(
    ("name", "features"),
    [
        ("vgg16", 4096),
        ("resnet18", 512),
        ("resnet50", 2048),
        ("mobilenet_v3_large", 1280),
        ("efficientnet_b0", 1280),
        ("timm:tf_efficientnet_lite0", 1280),
        ("timm:mobilenetv3_small_050", 1024),
        ("timm:test_vit", 64),
    ],
)
def test_a_name_gives_a_network_its_size_and_its_colours(name: str, features: int) -> None:
    backbone = build_backbone(name, 0, 0.875)
    spec = backbone.picture
    assert backbone.features == features
    assert spec.size == (160 if "test_" in name else 224)
    assert spec.full == round(spec.size / 0.875)
    assert spec.mean == ((0.5, 0.5, 0.5) if "lite0" in name or "test_vit" in name else (0.485, 0.456, 0.406))
    with torch.inference_mode():
        assert backbone.network.eval()(torch.zeros(1, 3, spec.size, spec.size)).shape == (1, features)


@pytest.mark.parametrize("name", ["timm:test_vit", "timm:test_efficientnet", "resnet18"])
def test_another_input_size(name: str) -> None:
    backbone = build_backbone(name, 64, 0.875)
    assert backbone.picture.size == 64
    assert backbone.network.eval()(torch.zeros(1, 3, 64, 64)).shape == (1, backbone.features)


@pytest.mark.parametrize(
    ("name", "says"), [("vgg61", "vgg16"), ("timm:resnet81", "timm:resnet"), ("lenet", "vgg16, resnet18")]
)
def test_an_unknown_name_brings_the_nearest(name: str, says: str) -> None:
    with pytest.raises(InputError) as caught:
        build_backbone(name, 0, 0.875)
    assert f"unknown backbone `{name}`" in caught.value.message
    assert says in caught.value.hint


@pytest.mark.parametrize(
    ("name", "size", "says"),
    [
        ("squeezenet1_0", 0, "one linear layer"),
        ("googlenet", 0, "one linear layer"),
        ("vit_b_16", 64, "pictures of 64 px"),
    ],
)
def test_a_network_that_does_not_fit_is_refused(name: str, size: int, says: str) -> None:
    with pytest.raises(InputError, match=says):
        build_backbone(name, size, 0.875)


def test_blocks_are_left_out_in_training_only() -> None:
    torch.manual_seed(0)
    network = build_backbone("timm:mobilenetv3_small_050", 64, 0.875, drop_path=0.9).network
    pixels = torch.randn(4, 3, 64, 64)
    with torch.no_grad():
        assert not torch.equal(network.train()(pixels), network.train()(pixels))
        assert torch.equal(network.eval()(pixels), network.eval()(pixels))


@pytest.mark.parametrize("name", ["resnet18", "timm:vgg11"])
def test_a_network_without_such_blocks_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="no blocks to leave out"):
        build_backbone(name, 0, 0.875, drop_path=0.1)


def test_the_wheel_carries_weights_that_know_something() -> None:
    """Matched by order, since the file has other names; the stem's filters are no random numbers."""
    assert wheel_weights("timm:tf_efficientnet_lite0") is not None
    network = build_backbone("timm:tf_efficientnet_lite0", 0, 0.875).network
    before = network.state_dict()["conv_stem.weight"].clone()
    load_weights(network, "timm:tf_efficientnet_lite0", "imagenet")
    after = network.state_dict()["conv_stem.weight"]
    assert not torch.equal(before, after)
    assert (network.state_dict()["bn1.running_var"] != 1).all()


def test_a_file_says_what_matched_and_what_did_not(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    network = build_backbone("resnet18", 0, 0.875).network
    state = {f"module.{name}": value.clone() for name, value in network.state_dict().items() if "layer4.1" not in name}
    state["module.conv1.weight"] = torch.zeros(64, 3, 3, 3)
    state["module.fc.weight"] = torch.zeros(1000, 512)
    torch.save({"state_dict": state, "epoch": 3}, tmp_path / "mine.pth")
    with caplog.at_level(logging.INFO, "agecli"):
        logging.getLogger("agecli").propagate = True
        load_weights(network, "resnet18", str(tmp_path / "mine.pth"))
    assert "89 tensors matched, 10 missing, 1 of another shape, 1 not used (module.fc.weight)" in caplog.text
    assert "conv1.weight" in caplog.text
    assert "layer4.1.conv1.weight" in caplog.text


def test_weights_of_our_own_checkpoint_are_found_under_their_prefix() -> None:
    network = build_backbone("timm:test_efficientnet", 0, 0.875).network
    match = match_weights(network, {f"backbone.{name}": value for name, value in network.state_dict().items()})
    assert not match.missing
    assert not match.mismatched


def test_weights_of_another_network_are_refused(tmp_path: Path) -> None:
    save_file({"a": torch.zeros(3)}, tmp_path / "other.safetensors")
    network = build_backbone("timm:test_efficientnet", 0, 0.875).network
    with pytest.raises(InputError, match="none of the 1 tensors"):
        load_weights(network, "timm:test_efficientnet", str(tmp_path / "other.safetensors"))


class Harm:
    """A pickle that would run code when it is loaded."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.mark,)


def test_a_weights_file_never_runs_code(tmp_path: Path) -> None:
    torch.save({"x": Harm(tmp_path / "harmed")}, tmp_path / "bad.pth")
    with pytest.raises(InputError, match="holds more than tensors"):
        load_weights(torch.nn.Linear(1, 1), "x", str(tmp_path / "bad.pth"))
    assert not (tmp_path / "harmed").exists()


@pytest.mark.parametrize("content", [b"", b"garbage", b"\x80\x02garbage"])
def test_a_damaged_weights_file_is_named(tmp_path: Path, content: bytes) -> None:
    for name in ("x.pth", "x.safetensors"):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=r"x\."):
            load_weights(torch.nn.Linear(1, 1), "x", str(tmp_path / name))
    with pytest.raises(MissingError, match="there is no weights file"):
        load_weights(torch.nn.Linear(1, 1), "x", str(tmp_path / "gone.pth"))


def test_all_the_common_backbones_are_known() -> None:
    assert COMMON[0] == "vgg16"
