"""Pictures: upright, in RGB, cut in the middle, whatever kind of file they come in."""

from __future__ import annotations

import resource
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from agecli.core.worker_process import Limits
from agecli.core.workers import Workers
from agecli.images.reading import (
    MOST_DECODED,
    PictureSpec,
    UnreadableError,
    cut,
    cut_aligned,
    read_picture,
    read_reduced,
)
from benchmarks.attack.odd_inputs import eps, huge_png, odd_inputs

SPEC = PictureSpec(64, 0.8, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))


@pytest.mark.parametrize(
    ("mode", "suffix"), [("L", "png"), ("RGBA", "png"), ("P", "gif"), ("CMYK", "jpg"), ("1", "bmp"), ("RGB", "webp")]
)
def test_every_kind_becomes_rgb(tmp_path: Path, mode: str, suffix: str) -> None:
    path = tmp_path / f"x.{suffix}"
    Image.new("RGB", (50, 70), (200, 200, 200)).convert(mode).save(path)
    assert read_picture(path).mode == "RGB"
    assert cut(read_picture(path), SPEC).shape == (3, 64, 64)


@pytest.mark.parametrize("size", [(50, 70), (400, 90), (81, 80), (64, 64), (1, 1), (1, 200_000)])
def test_any_size_is_cut_to_the_middle(tmp_path: Path, size: tuple[int, int]) -> None:
    Image.new("RGB", size, "white").save(tmp_path / "x.png")
    pixels = cut(read_picture(tmp_path / "x.png"), SPEC)
    assert pixels.shape == (3, 64, 64)
    assert (pixels == 255).all()


@pytest.mark.parametrize("side", [80, 81, 64, 200])
def test_an_aligned_face_as_an_array_is_cut_like_a_picture(side: int) -> None:
    face = np.random.default_rng(side).integers(0, 256, (side, side, 3), dtype=np.uint8)
    pixels = cut_aligned(face, SPEC)
    assert pixels.flags.c_contiguous
    assert np.array_equal(pixels, cut(Image.fromarray(face), SPEC))


def test_a_photo_taken_sideways_is_turned(tmp_path: Path) -> None:
    top_red = np.zeros((40, 40, 3), np.uint8)
    top_red[:20, :, 0] = 255
    image = Image.fromarray(top_red).rotate(90, expand=True)  # as the camera stored it
    exif = Image.Exif()
    exif[0x0112] = 6
    image.save(tmp_path / "x.png", exif=exif)
    assert np.array_equal(np.asarray(read_picture(tmp_path / "x.png")), top_red)


def test_why_a_file_can_not_be_read(tmp_path: Path) -> None:
    (tmp_path / "empty.jpg").touch()
    (tmp_path / "text.jpg").write_text("text")
    (tmp_path / "folder.jpg").mkdir()
    reasons = {"empty": "empty file", "text": "not a picture", "folder": "folder", "gone": "no such file"}
    for name, says in reasons.items():
        with pytest.raises(UnreadableError, match=says):
            read_picture(tmp_path / f"{name}.jpg")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nothing_here.jpg", "there is no such file"),
        ("nothing*.jpg", "no file matches this pattern"),
        (
            "https://example.org/face.jpg",
            "it is an address, not a file: `agecli predict` reads it, with the extra `remote`",
        ),
    ],
)
def test_what_is_not_there_is_said_in_the_words_that_help(name: str, words: str) -> None:
    with pytest.raises(UnreadableError) as caught:
        read_picture(Path(name))
    assert str(caught.value) == words


def test_pipes_sockets_and_devices_are_never_waited_for(tmp_path: Path) -> None:
    for path in odd_inputs(tmp_path):
        with pytest.raises(UnreadableError):
            read_picture(path)


def test_only_formats_of_photos_are_opened(tmp_path: Path) -> None:
    eps(tmp_path / "x.jpg")  # for which Pillow would start Ghostscript
    with pytest.raises(UnreadableError, match="not a picture"):
        read_picture(tmp_path / "x.jpg")


@pytest.mark.parametrize("suffix", ["jpg", "png", "tif", "webp", "ppm", "jp2"])
def test_formats_of_photos_are(tmp_path: Path, suffix: str) -> None:
    Image.new("RGB", (20, 30)).save(tmp_path / f"x.{suffix}")
    assert read_picture(tmp_path / f"x.{suffix}").size == (20, 30)


@pytest.mark.parametrize(
    ("mode", "suffix"), [("RGB", "jpg"), ("RGBA", "png"), ("P", "png"), ("I;16", "png"), ("L", "jpg")]
)
def test_a_large_photo_is_reduced_and_otherwise_the_same(tmp_path: Path, mode: str, suffix: str) -> None:
    dice = np.random.default_rng(0)
    small = Image.fromarray(dice.integers(0, 255, (6, 10, 3), dtype=np.uint8)).resize((500, 300))
    deep = Image.fromarray(np.asarray(small.convert("L"), np.uint16) * 257)
    image = deep if mode == "I;16" else small.convert(mode)
    exif = Image.Exif()
    exif[0x0112] = 6
    image.save(tmp_path / f"x.{suffix}", exif=exif)
    whole, scale = read_reduced(tmp_path / f"x.{suffix}")
    assert (whole.size, scale) == ((300, 500), 1)
    part, scale = read_reduced(tmp_path / f"x.{suffix}", most=20_000)
    assert part.size == (100, 167)
    assert scale == pytest.approx(3, abs=0.01)
    difference = np.asarray(whole.resize(part.size, Image.Resampling.BOX), float) - np.asarray(part, float)
    assert np.abs(difference).mean() < 3


def test_strips_give_the_same_pixels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dice = np.random.default_rng(0)
    Image.fromarray(dice.integers(0, 255, (700, 90, 4), dtype=np.uint8)).save(tmp_path / "x.png")
    whole = np.asarray(read_picture(tmp_path / "x.png"))
    monkeypatch.setattr("agecli.images.reading.WHOLE", 1)
    assert np.array_equal(np.asarray(read_picture(tmp_path / "x.png")), whole)


def test_a_small_file_with_many_pixels_is_read_in_bounded_memory(tmp_path: Path) -> None:
    huge_png(tmp_path / "x.png")
    with Workers(1, Limits(memory=10**9, seconds=60)) as workers:
        (width, height), scale, peak = workers.submit(_measured, tmp_path / "x.png").result()
    assert width * height <= MOST_DECODED
    assert round(width * scale) == 10_900
    assert peak < 10**6


def _measured(path: Path) -> tuple[tuple[int, int], float, int]:
    """Size and scale of a picture, and the peak memory in kilobytes."""
    image, scale = read_reduced(path)
    return image.size, scale, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
