"""Frames of a real video file, at the times that were asked for."""

from __future__ import annotations

import os
from pathlib import Path

import cv2
import numpy as np
import pytest

from agecli.core.errors import InputError
from agecli.images.reading import UnreadableError
from agecli.images.video import frames, is_video, parse_every


def film(path: Path, seconds: float = 3.0, rate: float = 10.0) -> Path:
    """Grey frames that grow lighter: the level tells which one it is."""
    kind = {".avi": "MJPG", ".mp4": "mp4v"}[path.suffix]
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*kind), rate, (64, 48))
    for number in range(round(seconds * rate)):
        writer.write(np.full((48, 64, 3), 5 * number, np.uint8))
    writer.release()
    return path


@pytest.mark.parametrize("name", ["a.avi", "a.mp4"])
@pytest.mark.parametrize(("every", "times"), [(1.0, [0, 1, 2]), (0.5, [0, 0.5, 1, 1.5, 2, 2.5]), (10.0, [0])])
def test_a_frame_every_so_often(tmp_path: Path, name: str, every: float, times: list[float]) -> None:
    seen = list(frames(str(film(tmp_path / name)), every))
    assert [frame.time for frame in seen] == pytest.approx(times, abs=0.02)
    levels = [float(frame.photo.mean()) for frame in seen]
    assert levels == pytest.approx([50 * time for time in times], abs=6)
    assert seen[0].photo.shape == (48, 64, 3)


def test_a_gap_between_frames_is_not_made_up_for(tmp_path: Path) -> None:
    slow = film(tmp_path / "a.avi", seconds=8, rate=0.5)  # frames at 0, 2, 4 and 6 s
    assert [frame.time for frame in frames(str(slow), 1.0)] == pytest.approx([0, 2, 4, 6])


def test_what_is_no_video_is_said(tmp_path: Path) -> None:
    (tmp_path / "a.mp4").write_text("no video")
    with pytest.raises(UnreadableError, match="not a video"):
        list(frames(str(tmp_path / "a.mp4"), 1.0))
    name = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.avi")
    film(tmp_path / "good.avi").rename(name)
    with pytest.raises(UnreadableError, match="not UTF-8"):
        list(frames(name, 1.0))
    with pytest.raises(UnreadableError, match="no such file"):
        list(frames(str(tmp_path / "b.mp4"), 1.0))


def test_times_as_people_write_them() -> None:
    assert [parse_every(text) for text in ("1s", "500ms", "2m", "0.5", "1.5 s")] == [1, 0.5, 120, 0.5, 1.5]
    for text in ("soon", "0s", "-1s", "1h", ""):
        with pytest.raises(InputError, match="is not an interval"):
            parse_every(text)
    assert is_video("A.MP4")
    assert not is_video("a.jpg")
