"""Face sizes, sharpness and failures of a data folder, by hand."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageFilter

from agecli.core.records import Sample
from agecli.evaluation.conditions import failure_rates, photo_conditions
from agecli.scoring.groups import condition_rows
from tests.scoring.test_groups import predictions_of

HEADER = "path,age,source,left_eye_x,left_eye_y,right_eye_x,right_eye_y\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two faces of two photos, one of them blurred, and three photos without a face."""
    sharp = Image.fromarray(np.random.default_rng(0).integers(0, 255, (96, 96, 3), dtype=np.uint8))
    sharp.save(tmp_path / "a.png")
    sharp.filter(ImageFilter.GaussianBlur(4)).save(tmp_path / "b.png")
    (tmp_path / "manifest.csv").write_text(
        f"{HEADER}a.png,20,1.jpg,10,10,40,50\nb.png,30,2.jpg,,,,\n", encoding="utf-8"
    )
    failures = "source,status,reason\n3.jpg,no_face,x\n4.jpg,no_face,x\n5.jpg,unreadable,x\n6.jpg,no_age,x\n"
    (tmp_path / "failures.csv").write_text(failures, encoding="utf-8")
    return tmp_path


def test_face_size_is_the_distance_of_the_eyes_and_blur_lowers_sharpness(folder: Path) -> None:
    found = photo_conditions(folder, [Sample("a.png", 20), Sample("b.png", 30), Sample("lost.png", 30)])
    assert found["face size"][0] == 50  # 30 and 40 pixels apart
    assert np.isnan(found["face size"][1:]).all()
    assert found["sharpness"][0] > 10 * found["sharpness"][1] > 0
    assert np.isnan(found["sharpness"][2])


def test_failures_are_a_share_of_the_photos_that_were_given(folder: Path) -> None:
    rates = failure_rates(folder)
    assert {name: (rate.count, rate.of) for name, rate in rates.items()} == {
        "no face": (2, 5),
        "unreadable": (1, 5),
        "failed": (3, 5),  # a photo without an age is no failure of the model
    }
    assert failure_rates(folder, broken=1)["failed"].count == 4
    (folder / "failures.csv").unlink()
    assert failure_rates(folder) == {}


def test_errors_by_face_size_and_sharpness() -> None:
    faces = predictions_of(*[(20, 20 + i, "F", "") for i in range(8)])
    sizes = np.array([10, 31.9, 32, 63, 64, 127, 128, np.nan])
    faces = dataclasses.replace(faces, conditions={"face size": sizes, "sharpness": np.arange(8.0)})
    rows = {(row["by"], row["group"]): row for row in condition_rows(faces)}
    assert rows["face size", "below 32 px"]["mae"] == 0.5
    assert rows["face size", "32 to 63 px"]["mae"] == 2.5
    assert rows["face size", "128 px or more"]["images"] == 1
    assert rows["sharpness", "blurriest quarter"]["mae"] == 0.5
    assert rows["sharpness", "sharpest quarter"]["mae"] == 6.5
