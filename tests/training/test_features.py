"""The feature cache: computed once, and never stale."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from PIL import Image

from agecli.core.ages import AgeGrid
from agecli.core.config import Config, replace
from agecli.core.errors import InputError
from agecli.datasets.manifest import read_manifest
from agecli.model.network import build_model
from agecli.training.features import BATCH, compute_features

CPU = torch.device("cpu")


def count(folder: Path, monkeypatch: pytest.MonkeyPatch, **changes: object) -> tuple[torch.Tensor, int]:
    """The features of a folder, and how many pictures went through the network for them."""
    settings = {"backbone.name": "timm:test_efficientnet", "data.size": 64, **changes}
    model = build_model(replace(Config(), settings))
    ran: list[int] = []

    def note(module: torch.nn.Module, args: tuple[torch.Tensor], output: torch.Tensor) -> None:
        assert len(output) == BATCH  # always a whole one, filled with blank pictures
        ran.append(int((args[0] != args[0][:, :, :1, :1]).any(dim=(1, 2, 3)).sum()))

    model.backbone.register_forward_hook(note)
    samples = read_manifest(folder, AgeGrid()).samples
    return compute_features(model, "timm:test_efficientnet", folder, samples, CPU).values, sum(ran)


@pytest.fixture
def data(toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AGECLI_CACHE", str(tmp_path / "cache"))
    shutil.copytree(toy, tmp_path / "data")
    return tmp_path / "data"


def test_features_are_computed_once(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, ran = count(data, monkeypatch)
    again, ran_again = count(data, monkeypatch)
    assert (ran, ran_again) == (120, 0)
    assert torch.equal(first, again)
    assert torch.isfinite(first).all()


def test_a_cache_that_can_not_be_used_is_named(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache/features.sqlite").write_text("this is no database, but it is long enough to be looked at" * 9)
    with pytest.raises(InputError, match=r"features\.sqlite can't be used"):
        count(data, monkeypatch)


def test_another_picture_crop_or_weight_is_computed_anew(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, _ = count(data, monkeypatch)
    picture = next((data / "images").iterdir())
    Image.linear_gradient("L").convert("RGB").save(picture)
    after, ran = count(data, monkeypatch)
    assert ran == 1
    assert (before != after).any(dim=1).sum() == 1
    assert count(data, monkeypatch, **{"data.crop_share": 0.8})[1] == 120
    assert count(data, monkeypatch, **{"training.seed": 1})[1] == 120  # another random network
    picture.rename(picture.with_name("moved.jpg"))
    (data / "labels.csv").write_text((data / "labels.csv").read_text().replace(picture.name, "moved.jpg"))
    assert count(data, monkeypatch)[1] == 0  # the same picture under another name
