"""The alignment check: aligned faces pass, photos are stopped in two lines, and nothing is concluded from no faces."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import agecli
from agecli.core.errors import InputError
from agecli.datasets.alignment_check import check_aligned, look_at_eyes
from agecli.images.alignment import Alignment, align
from agecli.images.face_finder import FaceFinder
from agecli.images.reading import read_picture
from agecli.model.framing import alignment_for
from agecli.training.run_folder import open_run
from tests.conftest import invoke

PORTRAIT = Path(__file__).parents[2] / "docs" / "example.jpg"
FRAME = Alignment(size=144, eye_distance=0.245, eye_height=0.46967)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A portrait six times as a photo, in raw/, and as an aligned face, in aligned/."""
    root = tmp_path_factory.mktemp("faces")
    photo = read_picture(PORTRAIT)
    face = FaceFinder(main_only=True).find(np.asarray(photo))[0]
    crop = Image.fromarray(align(np.asarray(photo), face.left_eye, face.right_eye, FRAME))
    for name in ("raw", "aligned"):
        (root / name).mkdir()
    for number in range(6):
        photo.save(root / "raw" / f"{number}.jpg", quality=90 - number)
        crop.save(root / "aligned" / f"{number}.jpg", quality=90 - number)
    return root


NAMES = [f"{number}.jpg" for number in range(6)]


def test_aligned_faces_have_their_eyes_in_their_places(folder: Path) -> None:
    check = look_at_eyes(folder / "aligned", NAMES, FRAME)
    assert check.found == 6
    assert check.offset < 0.06
    check_aligned(folder / "aligned", NAMES, FRAME, "default", "evaluate")


def test_photos_are_an_error_with_the_command_to_type(folder: Path) -> None:
    with pytest.raises(InputError, match=r"not faces aligned for model\.onnx") as caught:
        check_aligned(folder / "raw", NAMES, FRAME, "model.onnx", "evaluate")
    assert "agecli preprocess" in (caught.value.hint or "")
    assert "--for model.onnx" in (caught.value.hint or "")
    assert "\n" not in caught.value.message


def test_evaluate_explains_raw_photos_in_two_lines_and_align_measures_them(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(folder / "raw", "raw")
    Path("raw/labels.csv").write_text("path,age\n" + "".join(f"{name},42\n" for name in NAMES))
    done = invoke("evaluate", "--data", "raw")
    assert done.exit_code == 2
    assert len(done.stderr.splitlines()) == 2, done.stderr
    assert "not faces aligned" in done.stderr
    assert "--align" in done.stderr
    done = invoke("evaluate", "--data", "raw", "--align", "--out", "out", "--format", "jsonl")
    assert json.loads(done.stdout.splitlines()[0])["mae"] < 15, done.stderr


def test_train_aligns_photos_as_its_backbone_needs_them(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(folder / "raw", "raw")
    Path("raw/labels.csv").write_text("path,age\n" + "".join(f"{name},{20 + n}\n" for n, name in enumerate(NAMES)))
    options = {"freeze": True, "iterations": 2, "batch_size": 2, "trees": 1, "settings": {"data.val_share": 0}}
    report = agecli.train("raw", out="run", align=True, init="default", select="last", **options)  # type: ignore[arg-type]
    (aligned,) = Path("runs/aligned").iterdir()
    assert Alignment.read(aligned) == alignment_for("default")
    assert open_run(report.run).data.resolve() == aligned.resolve()
    agecli.train("raw", out="run", align=True, resume=True)  # finished: nothing is done again


def test_a_folder_that_says_how_it_is_aligned_is_not_looked_at(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "alignment.toml").write_text(FRAME.to_toml())
    check_aligned(tmp_path, ["missing.jpg"] * 9, FRAME, "default", "evaluate")


def test_nothing_is_concluded_where_no_face_is_found(tmp_path: Path) -> None:
    for name in NAMES:
        Image.new("RGB", (80, 80), "grey").save(tmp_path / name)
    check_aligned(tmp_path, [*NAMES, "missing.jpg"], FRAME, "default", "evaluate")


def test_without_a_known_alignment_eyes_are_compared_with_one_another(folder: Path) -> None:
    assert look_at_eyes(folder / "raw", NAMES, None).offset < 0.05
