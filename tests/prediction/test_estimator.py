"""A model in memory takes files, PIL images and arrays alike, and refuses what it cannot read with a clear error."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import agecli
from agecli.core.errors import InputError, MissingError
from agecli.core.records import Record
from agecli.prediction.estimator import Estimator

EXAMPLE = Path(__file__).parent.parent.parent / "docs/example.jpg"


@pytest.fixture(scope="module")
def estimator() -> Estimator:
    return agecli.load()


@pytest.fixture(scope="module")
def photo() -> Image.Image:
    with Image.open(EXAMPLE) as image:
        return image.convert("RGB")


@pytest.fixture(scope="module")
def expected(estimator: Estimator) -> Record:
    """The record of the file."""
    (record,) = estimator.predict(EXAMPLE)
    assert record.status == "ok"
    return record


def without_source(record: Record) -> Record:
    return replace(record, source="")


def test_a_file_an_image_and_an_array_of_the_same_picture_give_the_same_record(
    estimator: Estimator, photo: Image.Image, expected: Record
) -> None:
    pictures: list[Any] = [EXAMPLE, str(EXAMPLE), Image.open(EXAMPLE), photo, np.asarray(photo)]
    records = list(estimator.predict(pictures))
    assert [record.source for record in records] == [*[str(EXAMPLE)] * 3, "image 3", "image 4"]
    assert [without_source(record) for record in records] == [without_source(expected)] * 5


def test_an_estimator_and_the_function_give_the_same_records_every_time(estimator: Estimator, expected: Record) -> None:
    assert list(agecli.predict(EXAMPLE)) == list(estimator.predict(EXAMPLE)) == [expected]
    (full,) = estimator.predict(EXAMPLE, distribution=True, abstain_above=5)
    assert [full] == list(agecli.predict(EXAMPLE, distribution=True, abstain_above=5))
    assert full.abstain is True


def test_several_workers_take_pictures_in_memory(estimator: Estimator, photo: Image.Image, expected: Record) -> None:
    records = list(estimator.predict([np.asarray(photo)] * 11, workers=2, batch_size=4))
    assert [record.source for record in records] == [f"image {number}" for number in range(11)]
    assert {without_source(record).age for record in records} == {expected.age}


def test_an_image_is_turned_as_its_exif_orientation_says(
    estimator: Estimator, photo: Image.Image, expected: Record, tmp_path: Path
) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # stored turned by 90 degrees
    photo.rotate(90, expand=True).save(tmp_path / "turned.png", exif=exif)
    (record,) = estimator.predict(Image.open(tmp_path / "turned.png"))
    assert without_source(record) == without_source(expected)


def test_an_iterator_is_read_as_far_as_records_are_needed(estimator: Estimator, photo: Image.Image) -> None:
    taken = []

    def camera() -> Iterator[Image.Image]:
        while True:
            taken.append(1)
            yield photo

    records = list(islice(estimator.predict(camera(), batch_size=2), 3))
    assert [record.source for record in records] == ["image 0", "image 1", "image 2"]
    assert len(taken) == 4  # two batches


def test_an_array_may_be_changed_by_its_owner_while_it_waits_for_its_batch(
    estimator: Estimator, photo: Image.Image, expected: Record
) -> None:
    buffer = np.asarray(photo).copy()

    def camera() -> Iterator[np.ndarray[Any, Any]]:
        yield buffer
        buffer[:] = 0
        yield buffer

    first, second = estimator.predict(camera())
    assert without_source(first) == without_source(expected)
    assert second.status == "no_face"


@pytest.mark.parametrize(
    ("picture", "says"),
    [
        (np.zeros((8, 8, 3), np.float32), r"image 0 is an array of shape \(8, 8, 3\) and type float32"),
        (np.zeros((8, 8), np.uint8), r"shape \(8, 8\)"),
        (np.zeros((3, 8, 8), np.uint8), r"shape \(3, 8, 8\)"),
        (np.zeros((2, 8, 8, 3), np.uint8), r"shape \(2, 8, 8, 3\)"),
        (np.zeros((0, 8, 3), np.uint8), r"shape \(0, 8, 3\)"),
        ([b"photo.jpg"], "image 0 is a bytes"),
        ([None], "image 0 is a NoneType"),
    ],
)
def test_anything_but_rgb_in_8_bits_is_refused_by_its_shape_and_type(
    estimator: Estimator, picture: Any, says: str
) -> None:
    with pytest.raises(InputError, match=says) as caught:
        list(estimator.predict(picture))
    assert "(H, W, 3)" in caught.value.hint


def test_a_damaged_image_is_a_record_like_a_damaged_file(estimator: Estimator, tmp_path: Path) -> None:
    (tmp_path / "cut.jpg").write_bytes(EXAMPLE.read_bytes()[:5000])
    image = Image.open(tmp_path / "cut.jpg")
    records = list(estimator.predict([tmp_path / "cut.jpg", image]))
    assert records[0] == records[1]
    assert records[0].status == "unreadable"


def test_crops_in_an_array_give_what_their_files_give(estimator: Estimator, photo: Image.Image, tmp_path: Path) -> None:
    faces = [photo.crop((150 + 9 * number, 40, 300 + 9 * number, 190)) for number in range(5)]
    names = [tmp_path / f"{number}.png" for number in range(5)]
    for face, name in zip(faces, names, strict=True):
        face.save(name)
    crops = np.stack([np.asarray(face) for face in faces])
    records = estimator.predict_crops(crops, batch_size=2, distribution=True)
    assert [record.source for record in records] == [f"crop {number}" for number in range(5)]
    from_files = list(estimator.predict(names, no_detect=True, batch_size=2, distribution=True))
    assert [without_source(record) for record in records] == [without_source(record) for record in from_files]
    assert records[0].box == (0, 0, 150, 150)
    assert len({record.age for record in records}) > 1
    assert estimator.predict_crops(crops[:0]) == []


def test_crops_of_another_shape_are_refused(estimator: Estimator) -> None:
    wrong: list[Any] = [np.zeros((8, 8, 3), np.uint8), np.zeros((2, 3, 8, 8), np.uint8), np.zeros((2, 8, 8, 3))]
    for crops in wrong:
        with pytest.raises(InputError, match="the batch of crops is an array of shape") as caught:
            estimator.predict_crops(crops)
        assert "(n, H, W, 3)" in caught.value.hint
    for batch_size in (0, -1):
        with pytest.raises(InputError, match="batch size"):
            estimator.predict_crops(np.zeros((2, 8, 8, 3), np.uint8), batch_size=batch_size)


def test_a_model_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match=r"gone\.onnx"):
        agecli.load(tmp_path / "gone.onnx")
    with pytest.raises(InputError, match="runs on the CPU"):
        agecli.load(agecli.load().model, device="cuda")


def test_a_checkpoint_without_torch_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingError, match=r"there is no checkpoint mine\.safetensors"):
        agecli.load("mine.safetensors")
    Path("mine.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    with pytest.raises(MissingError, match=r"the checkpoint mine\.safetensors needs torch") as caught:
        agecli.load("mine.safetensors")
    assert caught.value.hint == "pip install 'agecli[train]'"
    with pytest.raises(MissingError, match="--device cuda needs torch"):
        agecli.load(device="cuda")
    assert agecli.load().card  # ONNX needs none


def test_a_network_that_can_not_run_is_an_error_before_any_file_is_written(tmp_path: Path) -> None:
    damaged = tmp_path / "model.onnx"
    damaged.write_bytes(
        (EXAMPLE.parent.parent / "models/default.onnx").read_bytes().replace(b"\x22\x04Conv", b"\x22\x04Kauf")
    )
    for attempt in (
        lambda: agecli.load(damaged),
        lambda: list(agecli.predict(EXAMPLE, model=damaged)),
        lambda: agecli.predict(EXAMPLE, model=damaged).save(tmp_path / "ages.jsonl"),
    ):
        with pytest.raises(InputError, match="not a complete ONNX file"):
            attempt()
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]
