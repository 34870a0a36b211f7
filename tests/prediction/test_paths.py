"""The inputs that a folder stands for, and how many there are."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from agecli.prediction import paths
from agecli.prediction.counting import count_items
from agecli.prediction.inputs import read_inputs
from tests.images.test_video import film


@pytest.fixture
def album(tmp_path: Path) -> Path:
    """Two photos and four videos, one of them of three seconds."""
    (tmp_path / "album/more").mkdir(parents=True)
    for name in ("a.jpg", "more/z.png"):
        Image.new("RGB", (8, 8)).save(tmp_path / "album" / name)
    film(tmp_path / "album/b.avi")
    for name in ("c.MP4", "d.mov", "more/e.mkv"):
        (tmp_path / "album" / name).touch()
    return tmp_path / "album"


def names(folder: Path, videos: bool) -> list[str]:
    return [str(Path(str(name)).relative_to(folder)) for name in read_inputs(folder, videos=videos)]


def test_videos_in_folders_are_named_when_they_are_skipped(album: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "agecli"):
        assert names(album, videos=False) == ["a.jpg", "more/z.png"]
    (said,) = caplog.messages
    first = ", ".join(str(album / name) for name in ("b.avi", "c.MP4", "d.mov"))
    assert said == f"4 video(s) in folders were skipped: {first}, …; --videos predicts them"


def test_videos_in_folders_are_predicted_on_request(album: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "agecli"):
        assert names(album, videos=True) == ["a.jpg", "b.avi", "c.MP4", "d.mov", "more/e.mkv", "more/z.png"]
        assert list(read_inputs(str(album / "b.avi"))) == [str(album / "b.avi")]  # a video that is named is meant
    assert not caplog.messages


def test_a_folder_of_videos_alone_gives_a_record_that_says_so(album: Path) -> None:
    (album / "more/z.png").unlink()
    assert names(album / "more", videos=False) == ["."]


def test_files_folders_lists_and_frames_are_counted(album: Path) -> None:
    def count(images: object, videos: bool = False, done: int = 0) -> int | None:
        return count_items(images, False, None, videos, 0.5, done)  # type: ignore[arg-type]

    assert count(str(album)) == 2
    assert count(str(album), videos=True) == 5 + 6  # three seconds, every 0.5 s
    assert count([str(album), album / "b.avi", Image.new("RGB", (8, 8))]) == 2 + 6 + 1
    assert count([str(album), album / "b.avi"], done=1) == 1 + 6
    (album / "list.txt").write_text(f"{album}\n{album}/a.jpg\ngone.jpg\n")
    assert count(f"@{album}/list.txt") == 4


def test_what_must_be_waited_for_is_not_counted(album: Path) -> None:
    def camera() -> Iterator[str]:
        raise AssertionError("it was read")
        yield ""

    for images in ("-", ["a.jpg", "-"], camera()):
        assert count_items(images, False, None, False, 1.0) is None


@pytest.mark.parametrize("ending", ["zip", "tar", "tar.gz", "parquet"])
def test_a_picture_that_is_named_like_an_archive_is_a_picture(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"x.{ending}"
    path.write_bytes(b"\xff\xd8\xff\xe0 a photo")
    assert list(paths.expand([str(path)])) == [str(path)]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_a_list_may_come_from_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "names")
    writer = threading.Thread(target=(tmp_path / "names").write_text, args=("a.jpg\nb.jpg\n",), daemon=True)
    writer.start()
    assert list(paths.expand([f"@{tmp_path / 'names'}"])) == ["a.jpg", "b.jpg"]
