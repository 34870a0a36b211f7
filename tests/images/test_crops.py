"""Which faces of a photo are used: filters, and one choice of the main face for `predict` and `preprocess`."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from skimage import data

import agecli
from agecli.core.files import read_csv
from agecli.images.alignment import Alignment, Photo
from agecli.images.crops import FaceCropper
from agecli.images.detection import find_faces
from agecli.images.reading import MOST_DECODED, PictureSpec

EXAMPLE = Path(__file__).parent.parent.parent / "docs/example.jpg"
SPEC = PictureSpec(64, 0.8, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))


@pytest.fixture(scope="module")
def two_faces() -> Photo:
    """A face in the middle of a photo, and one that is a little larger at its left border."""
    portrait = Image.fromarray(np.asarray(data.astronaut(), np.uint8))  # type: ignore[no-untyped-call]
    head = portrait.crop((140, 0, 310, 200))
    photo = Image.new("RGB", (680, 220), "grey")
    photo.paste(head, (0, 10))
    photo.paste(head.resize((160, 188)), (255, 16))
    return np.asarray(photo)


def test_predict_and_preprocess_take_the_same_face(two_faces: Photo, tmp_path: Path) -> None:
    largest, other = find_faces(two_faces)
    assert largest.box[0] < 170 < 255 < other.box[0]
    (tmp_path / "photos").mkdir()
    Image.fromarray(two_faces).save(tmp_path / "photos/two.png")
    agecli.preprocess(tmp_path / "photos", out=tmp_path / "out")
    (row,) = read_csv(tmp_path / "out/manifest.csv")
    (record,) = agecli.predict(tmp_path / "photos/two.png", largest=True)
    assert record.box is not None
    x, _, w, _ = record.box
    assert 255 < x < float(row["left_eye_x"]) < float(row["right_eye_x"]) < x + w


def test_boxes_are_in_pixels_of_the_photo_also_if_it_was_reduced(tmp_path: Path) -> None:
    with Image.open(EXAMPLE) as image:
        factor = math.ceil(math.sqrt(MOST_DECODED / (image.width * image.height))) + 1
        image.resize((image.width * factor, image.height * factor)).save(tmp_path / "large.jpg", quality=85)
    cropper = FaceCropper(SPEC, Alignment(), largest=True)
    small, large = cropper(str(EXAMPLE)), cropper(str(tmp_path / "large.jpg"))
    assert [value / factor for value in large.crops[0].box] == pytest.approx(small.crops[0].box, abs=6)
    assert replace(cropper, min_face=large.crops[0].box[2] // 2)(str(tmp_path / "large.jpg")).status == "ok"
    assert replace(cropper, min_face=large.crops[0].box[2] * 2)(str(tmp_path / "large.jpg")).status == "no_face"


def test_records_have_the_distance_between_the_eyes_and_the_sharpness(two_faces: Photo) -> None:
    large, small = agecli.predict(two_faces)
    enlarged, _ = agecli.predict(np.asarray(Image.fromarray(two_faces).resize((2040, 660))))
    assert large.eyes is not None
    assert enlarged.eyes == pytest.approx(3 * large.eyes, rel=0.1)
    assert large.sharpness is not None
    assert small.sharpness is not None
    assert 0 < large.sharpness < 1
    assert large.row()["eyes"] == large.eyes
