"""Photo in, every face's age out: detection and alignment as the model was trained with."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from skimage import data

import agecli
from agecli.checkpoint import load_checkpoint
from tests.conftest import Cli

TINY = {"data.size": 64}


@pytest.fixture(scope="module")
def portrait() -> Image.Image:
    return Image.fromarray(np.asarray(data.astronaut(), np.uint8))  # type: ignore[no-untyped-call]


@pytest.fixture(scope="module")
def model(portrait: Image.Image, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trained on crops that preprocess made, with an alignment that is not the default one."""
    folder = tmp_path_factory.mktemp("model")
    (folder / "photos").mkdir()
    for number in range(12):
        portrait.rotate(3 * number - 18).save(folder / f"photos/{number:03d}A{20 + number}.JPG")
    agecli.preprocess(folder / "photos", out=folder / "aligned", size=128, eye_distance=0.4)
    agecli.train(
        folder / "aligned",
        out=folder / "run",
        backbone="timm:test_efficientnet",
        weights="none",
        freeze=True,
        iterations=60,
        batch_size=4,
        settings=TINY,
    )
    return folder / "run/fold-1/best.safetensors"


def test_the_alignment_travels_in_the_checkpoint(model: Path) -> None:
    alignment = load_checkpoint(model).config.alignment
    assert (alignment.size, alignment.eye_distance, alignment.eye_height) == (128, 0.4, 0.41)


def test_a_photo_gives_what_its_preprocessed_crop_gives(model: Path, portrait: Image.Image, tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    portrait.save(tmp_path / "x/a.png")
    agecli.preprocess(tmp_path / "x", out=tmp_path / "out", size=128, eye_distance=0.4)
    (photo,) = agecli.predict(tmp_path / "x/a.png", model=model)
    (crop,) = agecli.predict(tmp_path / "out/faces/a.png.jpg", model=model, no_detect=True)
    assert photo.age is not None
    assert crop.age is not None
    assert abs(photo.age - crop.age) < 0.5  # the crop went through JPEG
    assert photo.box is not None
    x, _, w, _ = photo.box
    assert 150 < x < 200
    assert 50 < w < 120
    assert photo.score is not None


def test_every_face_of_every_photo_in_order(cli: Cli, model: Path, portrait: Image.Image, tmp_path: Path) -> None:
    both = Image.new("RGB", (1024, 512))
    both.paste(portrait, (0, 0))
    both.paste(portrait.resize((400, 400)), (560, 60))
    both.save(tmp_path / "two.jpg")
    portrait.save(tmp_path / "one.jpg")
    Image.new("RGB", (300, 300), "grey").save(tmp_path / "none.jpg")
    done = cli("predict", "two.jpg", "none.jpg", "one.jpg", "-m", model, "--batch-size", 1)
    assert done.returncode == 1, done.stderr
    records = [json.loads(line) for line in done.stdout.splitlines()]
    said = [(record["source"], record["status"], record["face"]) for record in records]
    assert said == [("two.jpg", "ok", 0), ("two.jpg", "ok", 1), ("none.jpg", "no_face", None), ("one.jpg", "ok", 0)]
    assert records[0]["box"][2] > records[1]["box"][2]
    assert len(cli("predict", "two.jpg", "-m", model, "--largest").stdout.splitlines()) == 1
    assert cli("predict", "two.jpg", "-m", model, "--detector", "eyes").returncode == 2


def test_a_model_of_unknown_alignment_is_warned_of(cli: Cli, toy: Path, portrait: Image.Image, tmp_path: Path) -> None:
    portrait.save(tmp_path / "one.jpg")
    tiny = (
        "--backbone timm:test_efficientnet --weights none --freeze --iterations 20 --set data.size=64 --batch-size 16"
    )
    assert cli("train", "--data", toy, "--out", "run", *tiny.split()).returncode == 0
    done = cli("predict", "one.jpg", "-m", "run/fold-1/best.safetensors")
    assert done.returncode == 0, done.stderr
    assert "not trained on faces from `agecli preprocess`" in done.stderr
