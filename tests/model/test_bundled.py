"""The model that comes with agecli: whole, the same in both forms, and right enough about a real face."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import agecli
from agecli.core.errors import MissingError
from agecli.core.files import file_hash
from agecli.model import bundled
from agecli.model.bundled import name_of, named
from agecli.model.predictors import OnnxPredictor, load_predictor
from tests.conftest import Cli
from tests.datasets.test_preprocessing import bad_folder

ROOT = Path(__file__).parent.parent.parent
EXAMPLE = ROOT / "docs/example.jpg"


def test_the_files_are_those_that_were_measured() -> None:
    lines = [line.split() for line in (ROOT / "models/SHA256SUMS").read_text().splitlines()]
    sums = {name: digest for digest, name in lines}
    files = {path.name: path for path in (ROOT / "models").glob("default.*")}
    assert sums == {name: file_hash(path) for name, path in files.items()}
    assert set(files) == {"default.onnx", "default.safetensors"}
    assert sum(path.stat().st_size for path in files.values()) <= 25e6


def test_onnx_and_torch_say_the_same_of_a_face_in_many_lights() -> None:
    """200 faces: the portrait's, turned, shifted, shrunk and lit in other ways."""
    one, two = (load_predictor(named(None, kind)) for kind in (".onnx", ".safetensors"))
    assert one.card == two.card
    size = one.card.picture.size
    draw = np.random.default_rng(0)
    portrait = Image.open(EXAMPLE).crop((150, 40, 300, 190))
    faces = []
    for _ in range(200):
        turned = portrait.rotate(
            draw.normal(0, 15), resample=Image.Resampling.BILINEAR, translate=tuple(draw.normal(0, 8, 2))
        )
        small = turned.resize((int(draw.integers(20, 150)),) * 2).resize((size, size))
        faces.append(
            (np.asarray(small, float) * draw.uniform(0.4, 1.5)).clip(0, 255).astype(np.uint8).transpose(2, 0, 1)
        )
    pixels = np.stack(faces)
    onnx, torch = (predictor.pmf(pixels) for predictor in (one, two))
    assert np.abs(onnx - torch).max() < 5e-3  # folded weights are rounded to 16 bits
    years = np.arange(onnx.shape[1])
    difference = np.abs(onnx @ years - torch @ years)
    assert difference.mean() < 0.03
    assert difference.max() < 0.2
    assert (onnx @ years).std() > 1  # they are not all the same


def test_a_face_gives_the_same_bits_in_any_batch_and_on_any_number_of_cores() -> None:
    model = load_predictor(named(None, ".onnx"))
    size = model.card.picture.size
    with Image.open(EXAMPLE) as image:
        squares = [image.convert("RGB").crop((150 + k, 40, 300, 190)).resize((size, size)) for k in range(23)]
    faces = np.stack([np.asarray(square).transpose(2, 0, 1) for square in squares])
    together = model.pmf(faces)
    for threads, count in ((1, 1), (2, 2), (3, 3), (4, 5), (8, 7), (1, 11)):
        other = OnnxPredictor(named(None, ".onnx"), threads)
        parts = [other.pmf(faces[start : start + count]) for start in range(0, len(faces), count)]
        assert np.concatenate(parts).tobytes() == together.tobytes()


def test_the_example_is_an_adult_and_the_model_is_calibrated(cli: Cli) -> None:
    done = cli("predict", EXAMPLE)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    (record,) = (json.loads(line) for line in done.stdout.splitlines())
    assert record["interval"] == "conformal"
    assert 25 < record["age"] < 55
    assert record["low"] < 42 < record["high"]


def test_predict_imports_nothing_that_is_slow_and_not_needed(tmp_path: Path) -> None:
    code = f"import sys, agecli; list(agecli.predict({str(EXAMPLE)!r})); print({{'torch', 'rich', 'numpy.ma'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_it_has_a_name_wherever_a_model_can_be_named(cli: Cli) -> None:
    assert named("default", ".onnx") == named(None, ".onnx")
    assert named("./default", ".onnx") == Path("default")
    assert cli("predict", EXAMPLE, "-m", "default").stdout == cli("predict", EXAMPLE).stdout


def test_a_clone_without_the_files_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(bundled, "FOLDERS", (tmp_path,))
    with pytest.raises(MissingError, match="is missing"):
        agecli.predict("a.jpg")


def test_the_readmes_pipeline_runs_in_a_real_shell(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(r"<!-- pipeline -->\n```bash\n(.*)\n```", readme)
    assert found
    assert shutil.which("jq"), "the pipeline ends in jq: install it, on Debian `apt-get install jq`"
    portrait = Image.open(EXAMPLE)
    for name in ("one.jpg", "deep/two and\nthree.jpg"):
        (tmp_path / "photos" / name).parent.mkdir(parents=True, exist_ok=True)
        portrait.save(tmp_path / "photos" / name)
    both = Image.new("RGB", (1024, 512))
    both.paste(portrait, (0, 0))
    both.paste(portrait, (512, 0))
    both.save(tmp_path / "photos/both.jpg")
    (tmp_path / "photos/broken.jpg").write_text("no picture")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", found[1]], cwd=tmp_path, capture_output=True, text=True, env={**os.environ, "PATH": path}
    )
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert sorted(name for _, name in rows) == [
        "photos/both.jpg",
        "photos/both.jpg",
        "photos/deep/two and\\nthree.jpg",  # as jq writes a line break
        "photos/one.jpg",
    ]
    assert [float(age) for age, _ in rows] == sorted(float(age) for age, _ in rows)
    assert "1 of 4 inputs gave no age: photos/broken.jpg" in done.stderr


def test_one_line_of_a_photo_that_is_not_there(cli: Cli) -> None:
    done = cli("predict", "nothing_here.jpg")
    assert (done.returncode, done.stderr) == (1, "nothing_here.jpg: there is no such file\n")
    assert json.loads(done.stdout)["status"] == "unreadable"


def test_a_folder_of_bad_files_gives_a_record_each(cli: Cli, tmp_path: Path) -> None:
    bad_folder(tmp_path / "bad", Image.open(EXAMPLE))
    done = cli("predict", "bad", "gone.jpg", "--draw", "drawn")
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert len({record["source"] for record in records}) == len(records) == 13 + 8 + 1
    assert {Path(record["source"]).name: record["status"] for record in records if record["status"] != "ok"} == {
        **dict.fromkeys(("zero.jpg", "cut.jpg", "text.jpg", "bomb.png", "loop.jpg", "folder.jpg"), "unreadable"),
        "gone.jpg": "unreadable",
        "strip.png": "no_face",
    }
    assert [record["source"] for record in records if record["source"].endswith("gone.jpg")] == [
        "bad/gone.jpg",
        "gone.jpg",
    ]
    assert all(record["error"] for record in records if record["status"] != "ok")
    assert len([path for path in (tmp_path / "drawn").rglob("*") if path.is_file()]) == 13


def test_drawings_among_the_photos_are_no_photos(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    shutil.copy(EXAMPLE, tmp_path / "photos/a.jpg")
    shutil.copy(EXAMPLE, tmp_path / "photos/b.heic")
    for _ in range(2):
        done = cli("predict", "photos", "--draw", "photos/drawn")
        assert [json.loads(line)["source"] for line in done.stdout.splitlines()] == ["photos/a.jpg", "photos/b.heic"]
    assert (tmp_path / "photos/drawn/photos/a.jpg").is_file()
    refused = cli("predict", "photos", "--draw", "photos/a.jpg")
    assert refused.returncode == 2
    assert refused.stdout == ""


def test_results_go_into_pipes_links_and_stdout_and_a_full_disk_is_said(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "ages.jsonl").touch()
    (tmp_path / "link").symlink_to("ages.jsonl")
    assert cli("predict", EXAMPLE, "-o", "link").returncode == 0
    assert (tmp_path / "link").is_symlink()
    said = (tmp_path / "ages.jsonl").read_text()
    assert said.count("\n") == 1
    assert cli("predict", EXAMPLE, "-o", "-").stdout == said
    os.mkfifo(tmp_path / "pipe")
    with subprocess.Popen(["cat", "pipe"], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as reader:
        assert cli("predict", EXAMPLE, "-o", "pipe").returncode == 0
        assert reader.communicate(timeout=60)[0] == said
    command = f"{sys.executable} -m agecli predict {EXAMPLE} > /dev/full"
    full = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert full.returncode == 2
    assert full.stderr.startswith("error: can't write: No space left on device\n hint: ")
    assert full.stderr.count("\n") == 2


def test_the_bundled_model_is_called_by_its_name() -> None:
    assert name_of(named(None, ".onnx")) == name_of(named(None, ".safetensors")) == "default"
    assert name_of(Path("mine/default.onnx")) == "mine/default.onnx"
