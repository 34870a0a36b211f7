"""The face finder: filters, the choice of the main face, and large photos, which need not be decoded as a whole for it."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import agecli
from agecli.images import face_finder
from agecli.images.alignment import Alignment, Photo
from agecli.images.face_finder import FaceFinder, NoFaceError, main_face
from agecli.images.faces import Face
from agecli.images.reading import UnreadableError

EXAMPLE = Path(__file__).parent.parent.parent / "docs/example.jpg"
BLANK: Photo = np.zeros((100, 200, 3), np.uint8)


def face(x: float, y: float, side: float, score: float = 0.9) -> Face:
    """A face with a square box around x, y."""
    box = (x - side / 2, y - side / 2, side, side)
    return Face(box, (x - side / 5, y), (x + side / 5, y), score, "test")


def test_a_central_face_wins_against_a_slightly_larger_one_at_the_border() -> None:
    border, centre, small = face(25, 50, 50), face(100, 50, 45), face(100, 50, 20)
    assert main_face([border, centre, small], BLANK) is centre
    assert main_face([border, small], BLANK) is border  # but not against a much larger one


def test_faces_are_filtered_before_the_main_one_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    blind = Face((60, 10, 80, 80), (100, 50), (100, 50), 0.99, "test")  # its eyes are one point: it can't be aligned
    unsure, good = face(100, 50, 60, score=0.4), face(150, 50, 40)
    monkeypatch.setattr(face_finder, "find_faces", lambda *_: [blind, unsure, good])
    assert FaceFinder(main_only=True, min_score=0.5).find(BLANK) == [good]
    assert FaceFinder(min_face=50).find(BLANK) == [unsure]
    with pytest.raises(NoFaceError, match="none of its 2 faces has 70 pixels and a score of 0"):
        FaceFinder(min_face=70).find(BLANK)
    monkeypatch.setattr(face_finder, "find_faces", lambda *_: [blind])
    with pytest.raises(NoFaceError, match="no face was found"):
        FaceFinder().find(BLANK)


def test_a_face_in_profile_gets_no_age_but_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    side = replace(face(100, 50, 60), profile=True)
    monkeypatch.setattr(face_finder, "find_faces", lambda *_: [side])
    with pytest.raises(NoFaceError, match="in profile only"):
        FaceFinder(frontal_only=True).find(BLANK)
    assert FaceFinder().find(BLANK) == [side]  # `preprocess` keeps it: its age is known
    monkeypatch.setattr(face_finder, "find_faces", lambda *_: [side, face(30, 50, 40)])
    assert len(FaceFinder(frontal_only=True).find(BLANK)) == 1


def enlarged(file: Path, head: int, side: int = 2600) -> Path:
    """The example in a square JPEG of `side` pixels, with `head` pixels for its own side."""
    with Image.open(EXAMPLE) as image:
        photo = Image.new("RGB", (side, side), "grey")
        photo.paste(image.resize((head, head), Image.Resampling.BICUBIC), ((side - head) // 2, (side - head) // 2))
    photo.save(file, quality=95)
    return file


def test_a_large_jpeg_is_reduced_if_its_main_face_is_large_enough(tmp_path: Path) -> None:
    finder, alignment = FaceFinder(main_only=True), Alignment(size=144)
    large = enlarged(tmp_path / "large.jpg", 2600)
    photo, scale, (found,) = finder.find_in(large, alignment)
    whole, one, others = replace(finder, main_only=False).find_in(large, alignment)
    assert (scale, photo.shape) == (2, (1300, 1300, 3))
    assert (one, whole.shape) == (1, (2600, 2600, 3))
    box = main_face(others, whole).box
    least = round(min(box[2:]))
    assert [value * scale for value in found.box] == pytest.approx(box, abs=0.02 * box[2])
    assert finder.find_in(io.BytesIO(large.read_bytes()), alignment)[1] == 2
    assert finder.find_in(enlarged(tmp_path / "large.png", 2600), alignment)[1] == 1  # decoded as a whole in any case
    assert replace(finder, min_face=least - 50).find_in(large, alignment)[1] == 2
    with pytest.raises(NoFaceError, match="none of its"):
        replace(finder, min_face=least + 50).find_in(large, alignment)


def test_a_large_jpeg_is_read_as_a_whole_if_its_main_face_is_small(tmp_path: Path) -> None:
    finder, alignment = FaceFinder(main_only=True), Alignment(size=144)
    small = enlarged(tmp_path / "small.jpg", 600)
    assert finder.find_in(small, alignment)[1] == 1
    assert finder.find_in(io.BytesIO(small.read_bytes()), alignment)[1] == 1
    with pytest.raises(NoFaceError):
        finder.find_in(enlarged(tmp_path / "none.jpg", 10), alignment)
    small.write_bytes(small.read_bytes()[:2000])
    with pytest.raises(UnreadableError):
        finder.find_in(small, alignment)


def test_a_reduced_portrait_gets_the_age_of_the_whole_one(tmp_path: Path) -> None:
    large = enlarged(tmp_path / "large.jpg", 2600)
    (reduced,) = agecli.predict(large, largest=True)
    (whole,) = agecli.predict(large)
    assert reduced.age == pytest.approx(whole.age, abs=1)
    assert reduced.eyes == pytest.approx(whole.eyes, rel=0.02)
