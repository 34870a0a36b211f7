"""Ages on photos: where they belong, readable on any background, and never outside of the picture."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from agecli.core.errors import InputError
from agecli.core.records import Record
from agecli.images.video import VideoFile, frame_rate, frames
from agecli.prediction.drawing import Drawer
from agecli.prediction.drawn_video import FacesInTime
from agecli.prediction.marking import _variants, draw


def face(x: int, y: int, w: int, h: int, number: int = 0, source: str = "a.png") -> Record:
    return Record(source, face=number, age=34.4, low=27.0, high=43.0, box=(x, y, w, h))


@pytest.mark.parametrize("colour", ["black", "white", "grey", "orange"])
def test_light_letters_on_a_dark_plate_whatever_is_behind(colour: str) -> None:
    photo = Image.new("RGB", (400, 300), colour)
    changed = np.asarray(draw(photo, [face(150, 120, 80, 90)]), float).mean(axis=2)
    label = changed[80:118, 140:240]
    assert label.min() < 40
    assert label.max() > 230
    assert np.array_equal(np.asarray(photo), np.asarray(Image.new("RGB", (400, 300), colour)))  # the photo itself stays


@given(
    size=st.tuples(st.integers(40, 500), st.integers(40, 500)),
    boxes=st.lists(st.tuples(st.integers(-50, 480), st.integers(-50, 480), st.integers(1, 400), st.integers(1, 400))),
)
def test_any_box_can_be_drawn(size: tuple[int, int], boxes: list[tuple[int, int, int, int]]) -> None:
    records = [face(*box, number) for number, box in enumerate(boxes)]
    assert draw(Image.new("RGB", size), records).size == size


@pytest.mark.parametrize("box", [(0, 0, 100, 100), (300, 200, 100, 100), (0, 0, 400, 300), (150, 2, 60, 290)])
def test_the_label_is_whole_at_the_edges(box: tuple[int, int, int, int]) -> None:
    middle = np.asarray(draw(Image.new("RGB", (400, 300), "grey"), [face(170, 150, 60, 60)]))
    edge = np.asarray(draw(Image.new("RGB", (400, 300), "grey"), [face(*box)]))
    letters = [(picture.min(axis=2) > 190).sum() for picture in (middle, edge)]
    assert letters[1] > 0.8 * letters[0]


def test_a_picture_for_each_photo_with_a_face(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Image.new("RGB", (200, 100), "white").save("a.png")
    Image.new("RGB", (200, 100), "white").save("b.jpg")
    records = [
        face(10, 40, 30, 30, 0),
        face(90, 40, 30, 30, 1),
        Record("gone.jpg", "unreadable"),
        face(150, 40, 30, 30, 0, "b.jpg"),
    ]
    assert list(Drawer(Path("out"), "1s")(records)) == records
    assert sorted(path.name for path in Path("out").iterdir()) == ["a.png", "b.jpg"]
    drawn = np.asarray(Image.open("out/a.png").convert("L"))
    assert max(drawn[55, 10:14].min(), drawn[55, 90:94].min()) < 60
    assert drawn[55, 60] == 255
    (tmp_path / "a.jpg").write_bytes(b"")
    drawer = Drawer(Path("out"), "1s")
    assert list(drawer([*records, face(1, 1, 9, 9, 0, "a.jpg")]))[:-1] == records
    assert drawer.failed == 1  # the others are drawn
    with pytest.raises(InputError, match=r"--draw a\.png: File exists"):
        Drawer(Path("a.png"), "1s")
    with pytest.raises(InputError, match="would overwrite the photo"):
        list(Drawer(Path(), "1s")(records))


def walking(path: Path, rate: float = 10.0, seconds: float = 2.0, size: tuple[int, int] = (321, 241)) -> Path:
    """A video of a white square that walks to the right, 50 pixels a second, from x = 40 on."""
    with VideoFile(path, rate) as video:
        for number in range(round(rate * seconds)):
            photo = np.full((size[1], size[0], 3), 90, np.uint8)
            x = round(40 + 50 * number / rate)
            photo[100:160, x : x + 60] = 250
            video.write(photo)
    return path


def test_a_drawn_video_is_a_video_with_labels_that_follow_the_faces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    walking(Path("v.mp4"))
    records = [
        replace(face(40 + 50 * time, 100, 60, 60, source="v.mp4"), time=float(time), track=0) for time in range(2)
    ]
    drawer = Drawer(Path("out"), "1s")
    assert list(drawer(records)) == records
    assert [path.name for path in Path("out").iterdir()] == ["v.mp4"]
    before, after = (list(frames(name, 0.0)) for name in ("v.mp4", "out/v.mp4"))
    assert (len(after), frame_rate("out/v.mp4")) == (len(before), 10.0)
    for number in (0, 5, 9):  # half a second after a predicted frame, too
        changed = np.abs(after[number].photo.astype(int) - before[number].photo).max(axis=2) > 60
        columns = np.flatnonzero(changed.any(axis=0))
        assert abs((columns[0] + columns[-1]) / 2 - (40 + 5 * number + 30)) < 12
        assert not changed[108:150, 40 + 5 * number + 10 : 40 + 5 * number + 50].any()  # the face itself
    label = [np.flatnonzero((frame.photo[60:96].max(axis=2) < 50).any(axis=0)).mean() for frame in after[:10]]
    assert np.diff(label) == pytest.approx(5, abs=2.5)  # in steps, without jumps


def test_a_face_is_shown_from_half_a_step_before_it_is_found_to_half_a_step_after() -> None:
    records = [
        Record("v.mp4", "no_face", time=0.0),
        replace(face(0, 0, 40, 40), time=1.0, track=0),
        replace(face(20, 0, 40, 60), time=2.0, track=0),
        Record("v.mp4", "no_face", time=3.0),
    ]
    faces = FacesInTime(records, 1.0)
    boxes = {time: [record.box for record in faces.at(time)] for time in (0.0, 0.4, 0.6, 1.5, 2.0, 2.4, 2.6, 3.5, 9.0)}
    assert boxes == {
        0.0: [], 0.4: [], 0.6: [(0, 0, 40, 40)], 1.5: [(10, 0, 40, 50)], 2.0: [(20, 0, 40, 60)],
        2.4: [(20, 0, 40, 60)], 2.6: [], 3.5: [], 9.0: []
    }  # fmt: skip


def test_a_video_that_is_not_written_whole_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agecli.images.video.count_frames", lambda name, every: 3)
    with pytest.raises(OSError, match="only 3 of 20 frames"):
        walking(tmp_path / "v.mp4")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("size", [(48, 48), (90, 60), (1000, 700), (6000, 4000)])
def test_text_is_as_large_as_the_photo_needs(size: tuple[int, int]) -> None:
    small, large = (_variants(face(5, 5, side, side), size) for side in (10, min(size) // 2))
    for variants in (small, large):
        assert min(text.font_size for text in variants) >= max(10, max(size) // 91)
        assert variants[0].font_size <= max(13, min(size) / 11)
    assert large[0].font_size >= small[0].font_size
