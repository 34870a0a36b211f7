"""Packs: pictures in tars are found by their paths, and WebDataset's readers can use the tars."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from agecli.images.opening import UnreadableError, open_regular, read_content, state_of
from agecli.images.pack_writing import PackWriter, write_index
from agecli.images.packs import ENTRY, INDEX, find_packed, open_index, tar_path
from agecli.images.reading import read_picture

NAMES = ["faces/a.jpg", "faces/b/c.png.jpg", "more-faces/a.2.jpg", "faces/\udcff.jpg"]


def jpeg(shade: int) -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (8, 8), (shade,) * 3).save(stream, "JPEG")
    return stream.getvalue()


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    """A folder with two tars of two faces each, in grey of 0, 50, 100 and 150."""
    places = []
    for number in range(2):
        with tar_path(tmp_path, number).open("wb") as file, PackWriter(file, number) as pack:
            for place in (2 * number, 2 * number + 1):
                offset = pack.add(jpeg(50 * place), {"path": NAMES[place], "age": place})
                places.append((NAMES[place], number, offset, len(jpeg(50 * place))))
    with (tmp_path / INDEX).open("wb") as file:
        write_index(file, places)
    return tmp_path


@pytest.mark.parametrize(("place", "name"), list(enumerate(NAMES)))
def test_a_picture_is_found_by_the_path_that_it_would_have_without_a_pack(
    packed: Path, place: int, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert np.asarray(read_picture(packed / name))[0, 0].tolist() == [50 * place] * 3
    assert read_content(packed / name, 10_000) == jpeg(50 * place)
    assert state_of(packed / name)[0] == len(jpeg(50 * place))
    monkeypatch.chdir(packed)
    assert read_content(name, 10_000) == jpeg(50 * place)


def test_names_that_are_not_there_are_not_found(packed: Path) -> None:
    for name in ("faces/z.jpg", "a.jpg", "faces", "other/a.jpg"):
        assert find_packed(packed / name) is None
        with pytest.raises(UnreadableError, match="there is no such file"):
            read_picture(packed / name)


def test_a_file_comes_before_a_packed_picture(packed: Path) -> None:
    (packed / "faces").mkdir()
    (packed / "faces/a.jpg").write_bytes(jpeg(200))
    assert read_content(packed / "faces/a.jpg", 10_000) == jpeg(200)


def test_the_tars_are_webdatasets_and_have_the_same_bytes_each_time(packed: Path) -> None:
    keys = []
    for number in range(2):
        with tarfile.open(tar_path(packed, number)) as tar:
            members = tar.getnames()
            for picture, about in zip(members[::2], members[1::2], strict=True):
                key, ending = picture.split(".", 1)  # WebDataset's key ends at the first dot
                assert (ending, about) == ("jpg", f"{key}.json")
                keys.append(key)
                stored = tar.extractfile(about)
                assert stored is not None
                assert json.load(stored)["path"] == NAMES[len(keys) - 1]
            assert {member.mtime for member in tar} == {0}
    assert len(set(keys)) == len(NAMES)


def test_a_truncated_tar_is_an_unreadable_picture(packed: Path) -> None:
    content = tar_path(packed, 1).read_bytes()
    tar_path(packed, 1).write_bytes(content[:600])
    with pytest.raises(UnreadableError, match=r"faces-00001\.tar ends before it does"):
        read_picture(packed / NAMES[2])
    tar_path(packed, 1).unlink()
    with pytest.raises(UnreadableError):
        read_picture(packed / NAMES[2])
    read_picture(packed / NAMES[0])


@pytest.mark.parametrize("content", [b"", b"no index", b"\x93NUMPY\x01\x00"])
def test_an_index_that_can_not_be_used_is_as_none(packed: Path, content: bytes) -> None:
    (packed / INDEX).write_bytes(content)
    assert open_index(packed) is None
    with pytest.raises(FileNotFoundError):
        open_regular(packed / NAMES[0])


def test_an_index_of_another_kind_or_with_objects_is_not_used(packed: Path) -> None:
    for values in (np.zeros(3), np.zeros((2, 2), ENTRY), np.array([{}], object)):
        np.save(packed / INDEX, values, allow_pickle=True)
        assert open_index(packed) is None


def test_two_paths_with_one_key_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {name: (7, place) for place, name in enumerate(NAMES)}
    for module in ("packs", "pack_writing"):
        monkeypatch.setattr(f"agecli.images.{module}.hash_of", lambda name: keys[name])
    with (tmp_path / INDEX).open("wb") as file:
        write_index(file, ((name, 0, 10 * place, 1) for place, name in enumerate(NAMES)))
    for place, name in enumerate(NAMES):
        found = find_packed(tmp_path / name)
        assert found is not None
        assert found.offset == 10 * place


def test_an_empty_index(tmp_path: Path) -> None:
    with (tmp_path / INDEX).open("wb") as file:
        write_index(file, ())
    assert find_packed(tmp_path / "faces/a.jpg") is None
