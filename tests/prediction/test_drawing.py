"""Ages on photos: where they belong, readable on any background, and never outside of the picture."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from agecli.core.errors import InputError
from agecli.core.records import Record
from agecli.prediction.drawing import Drawer, draw


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
