"""Photos below a folder come in the order of their paths, whatever their names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agecli.images.folders import photos_in
from agecli.images.reading import UnreadableError, read_picture
from agecli.prediction.paths import expand

NAMES = (
    "b.jpg",
    "a/z.png",
    "a-b.jpg",
    "a.jpg",
    "a/b/c.JPG",
    "a/a.webp",
    "A.jpeg",
    "ä/x.jpg",
    "two\nlines.jpg",
    "a/note.txt",
)


def make(folder: Path) -> None:
    for name in NAMES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    (folder / os.fsdecode(b"caf\xe9.jpg")).touch()


def test_paths_are_sorted_by_their_bytes(tmp_path: Path) -> None:
    make(tmp_path)
    expected = sorted((*NAMES[:-1], os.fsdecode(b"caf\xe9.jpg")), key=os.fsencode)
    assert list(photos_in(tmp_path)) == expected
    assert list(expand([str(tmp_path)])) == [os.path.join(tmp_path, name) for name in expected]


def test_links_and_the_folder_to_skip_are_not_entered(tmp_path: Path) -> None:
    make(tmp_path)
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "self").symlink_to("self")
    (tmp_path / "self.jpg").symlink_to("self.jpg")
    found = list(photos_in(tmp_path, skip=tmp_path / "a"))
    assert not [name for name in found if name.startswith(("a/", "link", "self/"))]
    assert "self.jpg" in found


def test_an_empty_folder_that_is_named_like_a_photo_is_listed(tmp_path: Path) -> None:
    (tmp_path / "empty.jpg").mkdir()
    (tmp_path / "full.jpg").mkdir()
    (tmp_path / "full.jpg/a.png").touch()
    assert list(photos_in(tmp_path)) == ["empty.jpg", "full.jpg/a.png"]


def test_a_folder_without_photos_is_listed_as_itself_by_predict(tmp_path: Path) -> None:
    assert list(photos_in(tmp_path)) == []
    assert list(expand([str(tmp_path)])) == [str(tmp_path)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no such permissions")
def test_a_folder_that_may_not_be_read_is_listed(tmp_path: Path) -> None:
    make(tmp_path)
    (tmp_path / "a").chmod(0)
    tmp_path.chmod(0o755)
    reader, writer = os.pipe()
    if not (child := os.fork()):
        os.chdir(tmp_path)
        if os.getuid() == 0:  # who may read everything
            os.setuid(65534)
        names = [*photos_in("."), *(f"record of {reason}" for reason in unreadable("a"))]
        os.write(writer, os.fsencode("\0".join(names)))
        os._exit(0)
    os.close(writer)
    with open(reader, errors="surrogateescape") as file:
        found = file.read().split("\0")
    os.waitpid(child, 0)
    (tmp_path / "a").chmod(0o755)
    assert "a" in found
    assert "b.jpg" in found
    assert "record of it may not be read: permission denied" in found


def unreadable(name: str) -> Iterator[str]:
    try:
        read_picture(Path(name))
    except UnreadableError as error:
        yield str(error)
