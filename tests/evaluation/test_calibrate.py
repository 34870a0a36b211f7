"""`agecli calibrate`: a new model file with other intervals and the same weights, also without torch."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import agecli
from agecli.core.errors import InputError
from agecli.model.bundled import bundled
from agecli.model.predictors import OnnxPredictor
from agecli.scoring.recalibration import Recalibration
from tests.conftest import invoke

EXAMPLE = Path(__file__).parent.parent.parent / "docs/example.jpg"
Mine = tuple[Path, Recalibration]


@pytest.fixture(scope="module")
def faces(toy: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cartoons as faces aligned for the bundled model."""
    folder = tmp_path_factory.mktemp("data") / "faces"
    shutil.copytree(toy, folder)
    alignment = OnnxPredictor(bundled(".onnx")).card.alignment
    assert alignment is not None
    (folder / "alignment.toml").write_text(alignment.to_toml())
    return folder


@pytest.fixture(scope="module")
def mine(faces: Path, tmp_path_factory: pytest.TempPathFactory) -> Mine:
    """The bundled model, calibrated on cartoons, which it takes for people of some other age."""
    out = tmp_path_factory.mktemp("models") / "mine.onnx"
    return out, agecli.calibrate("default", data=faces, out=out)


def test_the_new_file_has_the_same_network_and_other_intervals(mine: Mine) -> None:
    path, result = mine
    old, new = OnnxPredictor(bundled(".onnx")), OnnxPredictor(path)
    pixels = np.zeros((1, 3, old.card.picture.size, old.card.picture.size), dtype=np.uint8)
    assert np.array_equal(old.pmf(pixels), new.pmf(pixels))
    assert new.card.calibration == result.calibration
    assert new.card.calibration is not None
    assert new.card.calibration.faces == 120
    assert new.card.shift is not None
    assert new.card.shift.faces == 120


def test_coverage_after_is_about_nominal_and_the_error_no_larger(mine: Mine) -> None:
    _, result = mine
    assert 0.8 <= result.after.coverage <= 1
    assert result.after.mae <= result.before.mae + 0.01


def test_predictions_use_the_new_calibration(mine: Mine, faces: Path) -> None:
    path, _ = mine
    face = next((faces / "images").iterdir())
    (record,) = agecli.predict(face, model=path, no_detect=True)
    assert record.shift is not None
    assert record.age is not None
    assert record.low is not None
    assert record.high is not None
    assert record.low <= record.age <= record.high


def test_the_new_file_can_be_evaluated_and_knows_its_calibration_faces(mine: Mine, faces: Path, tmp_path: Path) -> None:
    path, _ = mine
    (result,) = agecli.evaluate(path, data=faces, out=tmp_path / "out")
    records = {record.source: record for record in agecli.predict(faces / "images", model=path, no_detect=True)}
    for sample, predicted, low in zip(
        result.predictions.samples, result.predictions.predicted, result.predictions.low, strict=True
    ):
        record = records[str(faces / sample.path)]
        assert record.age == pytest.approx(predicted, abs=0.06)
        assert record.low == pytest.approx(low, abs=0.06)
    assert result.seen == 1
    assert result.misleading
    assert (tmp_path / "out/metrics.csv").is_file()
    with pytest.raises(InputError, match="no faces of its own"):
        agecli.evaluate(path)


def test_nothing_is_overwritten_and_too_few_faces_are_an_error(mine: Mine, faces: Path) -> None:
    path, _ = mine
    with pytest.raises(InputError, match="exists already"):
        agecli.calibrate("default", data=faces, out=path)
    (path.parent / "few.txt").write_text("".join(f"{p.name}\n" for p in sorted((faces / "images").iterdir())[:100]))
    done = invoke(
        "calibrate", "default", "--data", faces, "--out", path.with_name("b.onnx"), "--exclude", path.parent / "few.txt"
    )
    assert done.exit_code == 2
    assert "too few" in done.stderr


def test_the_command_prints_before_and_after(faces: Path, tmp_path: Path) -> None:
    done = invoke("calibrate", "default", "--data", faces, "--out", tmp_path / "m.onnx", "--format", "jsonl")
    assert done.exit_code == 0, done.stderr
    assert [json.loads(line)["model"] for line in done.stdout.splitlines()] == ["before", "after"]


def test_photos_that_are_not_aligned_are_refused(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    rows = []
    with Image.open(EXAMPLE) as photo:
        for number in range(32):  # a portrait, with the face in another place each time
            left, top = 4 * number, 40 - number
            photo.crop((left, top, left + 300, top + 300)).save(tmp_path / f"raw/{number}.jpg")
            rows.append(f"{number}.jpg,{20 + number}\n")
    (tmp_path / "raw/labels.csv").write_text("path,age\n" + "".join(rows))
    done = invoke("calibrate", "default", "--data", tmp_path / "raw", "--out", tmp_path / "m.onnx")
    assert done.exit_code == 2
    assert "--for default" in done.stderr
