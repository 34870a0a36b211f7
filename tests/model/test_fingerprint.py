"""Fingerprints: copies of training faces are found, other faces are not, and model files carry them unchanged."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from agecli.core.errors import InputError
from agecli.images.alignment import Alignment
from agecli.images.face_frames import BITS, Floats, face_frame, frequencies
from agecli.model.bundled import bundled
from agecli.model.fingerprint import (
    NEW,
    SELECTED,
    TRAINED,
    Fingerprint,
    fingerprint_of,
    read_fingerprint,
    write_fingerprint,
)
from agecli.model.metadata import read_metadata
from agecli.model.predictors import OnnxPredictor

ALIGNMENT = Alignment(size=128)


def picture(seed: int) -> Image.Image:
    """A smooth random picture, with the spectrum of a photo."""
    rng = np.random.default_rng(seed)
    small = sum(
        np.asarray(
            Image.fromarray(rng.integers(0, 256, (side, side), dtype=np.uint8)).resize(
                (128, 128), Image.Resampling.BICUBIC
            ),
            dtype=float,
        )
        / side
        for side in (4, 8, 16)
    )
    grey = np.asarray(small)
    return Image.fromarray(((grey - grey.min()) / np.ptp(grey) * 255).astype(np.uint8)).convert("RGB")


def frame(image: Image.Image) -> Floats:
    return face_frame(image, ALIGNMENT)


def re_encoded(image: Image.Image) -> Image.Image:
    """Resized to 75 % and saved as a JPEG of quality 75."""
    side = round(image.width * 0.75)
    file = io.BytesIO()
    image.resize((side, side), Image.Resampling.BICUBIC).save(file, "JPEG", quality=75)
    return Image.open(file).convert("RGB")


@pytest.fixture(scope="module")
def known() -> Fingerprint:
    values = np.stack([frequencies(frame(picture(seed))) for seed in range(60)])
    return fingerprint_of(values[:40], values[40:], ["ann", "bob", ""])


def test_copies_are_found_and_other_faces_are_not(known: Fingerprint) -> None:
    turned = picture(3).rotate(3, Image.Resampling.BICUBIC, fillcolor=(128, 128, 128))
    frames = [frame(re_encoded(picture(0))), frame(picture(50)), frame(turned), frame(picture(900)), None]
    assert known.seen(frames).tolist() == [TRAINED, SELECTED, TRAINED, NEW, NEW]
    others = known.seen([frame(picture(seed)) for seed in range(1000, 1050)])
    assert not others.any()


def test_subjects_are_known_by_name_and_an_empty_name_is_nobody(known: Fingerprint) -> None:
    assert [known.knows(name) for name in ("ann", "eve", "")] == [True, False, False]


def test_a_fine_tuned_model_remembers_the_faces_of_its_parent(known: Fingerprint) -> None:
    values = np.stack([frequencies(frame(picture(seed))) for seed in (200, 201)])
    child = fingerprint_of(values[:1], values[1:], ["eve"], known)
    seen = child.seen([frame(picture(seed)) for seed in (0, 50, 200, 201, 900)])
    assert seen.tolist() == [TRAINED, SELECTED, TRAINED, SELECTED, NEW]
    assert child.knows("ann")
    assert child.knows("eve")
    assert not fingerprint_of(values, values, [], None, complete=False).complete


def test_unreadable_faces_have_no_hash() -> None:
    values = np.full((3, BITS), np.nan, dtype=np.float32)
    values[1] = frequencies(frame(picture(1)))
    assert len(fingerprint_of(values, values[:0], []).trained) == 1


@pytest.mark.parametrize("suffix", [".onnx", ".safetensors"])
def test_a_model_file_with_a_fingerprint_has_the_same_weights(known: Fingerprint, suffix: str, tmp_path: Path) -> None:
    source, copy = bundled(suffix), tmp_path / f"model{suffix}"
    write_fingerprint(source, known, copy)
    again = read_fingerprint(copy)
    assert again is not None
    for name in ("median", "spread", "trained", "selected", "subjects"):
        assert np.array_equal(getattr(again, name), getattr(known, name)), name
    others = {key: value for key, value in read_metadata(copy).items() if key != "fingerprint"}
    assert others == {key: value for key, value in read_metadata(source).items() if key != "fingerprint"}
    if suffix == ".onnx":
        one, two = OnnxPredictor(source), OnnxPredictor(copy)
        pixels = np.zeros((1, 3, one.card.picture.size, one.card.picture.size), dtype=np.uint8)
        assert np.array_equal(one.pmf(pixels), two.pmf(pixels))
    else:
        from safetensors import safe_open

        with safe_open(source, "np") as before, safe_open(copy, "np") as after:
            assert all(np.array_equal(before.get_tensor(name), after.get_tensor(name)) for name in before.keys())  # noqa: SIM118


def test_forty_thousand_faces_fit_into_a_megabyte() -> None:
    zeros = np.zeros(BITS, dtype=np.float32)
    hashes = np.zeros((36_000, BITS // 8), np.uint8), np.zeros((4_000, BITS // 8), np.uint8)
    whole = Fingerprint(zeros, zeros + 1, *hashes, np.zeros(15_000, np.uint32))
    assert len(whole.to_json()) < 1_000_000


@pytest.mark.parametrize(
    "damage",
    [
        '{"median": 3}',
        "{",
        '{"median": "", "spread": "", "trained": "", "selected": "", "subjects": "", "complete": true}',
    ],
)
def test_a_damaged_fingerprint_is_an_error_that_names_the_file(damage: str, tmp_path: Path) -> None:
    from agecli.model.metadata import write_metadata

    write_metadata(bundled(".onnx"), tmp_path / "m.onnx", {"fingerprint": damage})
    with pytest.raises(InputError, match=r"m\.onnx"):
        read_fingerprint(tmp_path / "m.onnx")


def test_a_file_that_is_cut_short_is_an_error(tmp_path: Path) -> None:
    for suffix in (".onnx", ".safetensors"):
        path = tmp_path / f"cut{suffix}"
        path.write_bytes(bundled(suffix).read_bytes()[:1000])
        with pytest.raises(InputError, match="not a whole model file"):
            read_metadata(path)
