"""Pictures: upright, in RGB, cut in the middle, whatever kind of file they come in."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from agecli.images.reading import PictureSpec, UnreadableError, cut, read_picture

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
    (tmp_path / "folder.jpg").mkdir()
    for name, says in (("empty.jpg", "not a picture"), ("folder.jpg", "folder"), ("gone.jpg", "no such file")):
        with pytest.raises(UnreadableError, match=says):
            read_picture(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nothing_here.jpg", "there is no such file"),
        ("nothing*.jpg", "no file matches this pattern"),
        ("https://example.org/face.jpg", "it is an address, not a file: download it first"),
    ],
)
def test_what_is_not_there_is_said_in_the_words_that_help(name: str, words: str) -> None:
    with pytest.raises(UnreadableError) as caught:
        read_picture(Path(name))
    assert str(caught.value) == words
