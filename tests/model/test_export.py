"""An exported model says what its checkpoint says, and needs no torch to say it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import agecli
from agecli.core.errors import AgecliError, InputError, MissingError
from agecli.model.checkpoint import load_checkpoint
from agecli.model.network import AgeModel
from agecli.model.predictors import OnnxPredictor, TorchPredictor, load_predictor
from tests.conftest import Cli, invoke
from tests.training.test_train import TINY


def made(model: str, toy: Path, folder: Path) -> tuple[Path, Path]:
    settings = {"data.size": 64, "data.val_share": 0.4}
    agecli.train(toy, out=folder / "run", **{**TINY, "model": model, "settings": settings})
    checkpoint = folder / "run/fold-1/best.safetensors"
    agecli.export(checkpoint, out=folder / "model.onnx")
    return checkpoint, folder / "model.onnx"


@pytest.fixture(scope="module", params=["drf", "dldlf", "regression"])
def models(request: pytest.FixtureRequest, toy: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A checkpoint of each kind, and the same as ONNX."""
    return made(request.param, toy, tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope="module")
def drf(toy: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return made("drf", toy, tmp_path_factory.mktemp("one"))


@pytest.mark.parametrize("faces", [1, 2, 7])
def test_both_say_the_same_for_any_number_of_faces(models: tuple[Path, Path], faces: int) -> None:
    pixels = np.random.default_rng(faces).integers(0, 256, (faces, 3, 64, 64), dtype=np.uint8)
    one, two = (load_predictor(path) for path in models)
    assert isinstance(one, TorchPredictor)
    assert isinstance(two, OnnxPredictor)
    assert np.abs(one.pmf(pixels) - two.pmf(pixels)).max() < 1e-5
    assert two.pmf(pixels).sum(-1) == pytest.approx(1, abs=1e-4)
    assert one.card == two.card
    assert two.card.calibration is not None


def test_predict_gives_the_same_records_and_imports_no_torch(models: tuple[Path, Path], toy: Path) -> None:
    code = (
        "import sys, json, agecli\n"
        "print(json.dumps([r.row() for r in agecli.predict(sys.argv[2], model=sys.argv[1], no_detect=True)]))\n"
        "print('torch' in sys.modules)"
    )
    said = []
    for model in models:
        command = [sys.executable, "-c", code, str(model), str(toy / "images")]
        rows, loaded = subprocess.run(command, capture_output=True, check=True, text=True).stdout.splitlines()
        assert loaded == str(model.suffix != ".onnx")
        said.append(json.loads(rows))
    assert len(said[0]) == len(said[1]) == 120
    for one, two in zip(*said, strict=True):
        assert one["age"] == pytest.approx(two["age"], abs=0.011)
        assert one["interval"] == two["interval"] == "conformal"


@pytest.mark.parametrize("sizes", [(1,) * 7, (7,), (4, 3), (2, 5), (6, 1), (5, 2)])
def test_a_face_gives_the_same_bits_in_any_batch(models: tuple[Path, Path], sizes: tuple[int, ...]) -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (7, 3, 64, 64), dtype=np.uint8)
    predictor = OnnxPredictor(models[1])
    parts = [predictor.pmf(part) for part in np.split(pixels, np.cumsum(sizes)[:-1])]
    assert np.concatenate(parts).tobytes() == predictor.pmf(pixels).tobytes()
    assert predictor.pmf(pixels[::-1]).tobytes() == predictor.pmf(pixels)[::-1].tobytes()


def test_a_graph_that_says_something_else_is_not_written(
    drf: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AgeModel, "forward", lambda self, pixels: torch.roll(self.ages(self.network(pixels)), 1, 1))
    with pytest.raises(AgecliError, match="predicts other ages"):
        agecli.export(drf[0], out=tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_model_is_said(drf: tuple[Path, Path], toy: Path, tmp_path: Path) -> None:
    (tmp_path / "cut.onnx").write_bytes(drf[1].read_bytes()[:5000])
    for path in (tmp_path / "cut.onnx", tmp_path / "none.onnx"):
        with pytest.raises((InputError, MissingError), match=path.name):
            load_predictor(path)
    with pytest.raises(InputError, match="is an exported graph"):
        load_checkpoint(drf[1])
    with pytest.raises(InputError, match="runs on the CPU"):
        load_predictor(drf[1], "cuda")
    done = invoke("export", toy, "--out", tmp_path / "x.onnx")
    assert done.exit_code == 2
    assert "is a folder" in done.stderr


def test_the_command_says_how_close_it_is(cli: Cli, drf: tuple[Path, Path], tmp_path: Path) -> None:
    done = cli("export", drf[0], "--out", "x.onnx")
    assert done.returncode == 0, done.stderr
    assert "differ from the checkpoint's by" in done.stderr
    assert invoke("export", drf[0], "--out", tmp_path / "half.safetensors").exit_code == 0
    whole, half = (load_checkpoint(path) for path in (drf[0], tmp_path / "half.safetensors"))
    assert (tmp_path / "half.safetensors").stat().st_size < 0.7 * drf[0].stat().st_size
    assert half.card == whole.card
    pixels = torch.randint(0, 256, (4, 3, 64, 64), dtype=torch.uint8)
    with torch.inference_mode():
        assert (half.model(pixels) - whole.model(pixels)).abs().max() < 1e-2
    for out, says in ((drf[0], "is an input of this command"), ("x.pth", "unknown suffix")):
        refused = invoke("export", drf[0], "--out", out)
        assert refused.exit_code == 2
        assert says in refused.stderr
    assert (tmp_path / "x.onnx").stat().st_size > 10_000
    assert load_checkpoint(drf[0]).card == OnnxPredictor(tmp_path / "x.onnx").card
