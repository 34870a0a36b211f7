"""HEIC and AVIF photos: read where they can be, and what to install where not."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from agecli.images.heif import is_heif, register_heif
from agecli.images.reading import UnreadableError, read_picture


@pytest.fixture(scope="module")
def heic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A HEIC file whose left half is red."""
    pillow_heif = pytest.importorskip("pillow_heif")
    pixels = np.zeros((64, 96, 3), np.uint8)
    pixels[:, :48, 0] = 255
    path: Path = tmp_path_factory.mktemp("heic") / "photo.heic"
    pillow_heif.from_pillow(Image.fromarray(pixels)).save(path, quality=95)
    return path


def test_a_heic_file_is_read_with_the_extra(heic: Path, tmp_path: Path) -> None:
    named_otherwise = tmp_path / "photo.jpg"  # the content counts, not the name
    named_otherwise.write_bytes(heic.read_bytes())
    for path in (heic, named_otherwise):
        image = read_picture(path)
        assert image.size == (96, 64)
        red, black = image.getpixel((10, 30)), image.getpixel((90, 30))
        assert isinstance(red, tuple)
        assert isinstance(black, tuple)
        assert red[0] > 200 > 50 > black[0]


def test_without_the_extra_it_says_what_to_install(heic: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pillow_heif" else find_spec(name))
    register_heif.cache_clear()
    with pytest.raises(UnreadableError, match=r"needs pillow_heif.*pip install 'agecli\[heif\]'"):
        read_picture(heic)
    register_heif.cache_clear()


def test_an_avif_file_is_read_without_any_extra(tmp_path: Path) -> None:
    Image.new("RGB", (40, 30), (200, 30, 30)).save(tmp_path / "photo.avif")
    assert read_picture(tmp_path / "photo.avif").size == (40, 30)
    assert not is_heif((tmp_path / "photo.avif").read_bytes()[:64])


def test_what_is_no_heif_is_not_taken_for_one() -> None:
    assert is_heif(b"\x00\x00\x00\x18ftypheic\x00\x00\x00\x00mif1heic")
    assert is_heif(b"\x00\x00\x00\x18ftypmif1\x00\x00\x00\x00mif1heic")
    assert not is_heif(b"\x00\x00\x00\x18ftypmif1\x00\x00\x00\x00mif1avif")
    assert not is_heif(b"\xff\xd8\xff\xe0\x00\x10JFIF")
    assert not is_heif(b"")
