"""A face keeps its number from frame to frame, also when faces cross, hide for a while, or are sampled rarely."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agecli.core.records import Box, Record
from agecli.prediction.tracking import Tracker, follow, iou

BOXES = st.lists(
    st.tuples(st.integers(-50, 500), st.integers(-50, 500), st.integers(1, 300), st.integers(1, 300)), max_size=5
)


@given(st.lists(BOXES, max_size=8), st.floats(0.04, 5))
def test_any_boxes_get_different_numbers_in_a_frame_counted_from_0(frames: list[list[Box]], step: float) -> None:
    tracker = Tracker()
    seen: list[int] = []
    for number, boxes in enumerate(frames):
        numbers = tracker.update(number * step, boxes)
        assert len(set(numbers)) == len(numbers) == len(boxes)
        seen += [each for each in numbers if each not in seen]
    assert seen == sorted(seen) == list(range(len(seen)))


@given(box=st.tuples(st.integers(0, 500), st.integers(0, 500), st.integers(20, 300), st.integers(20, 300)))
def test_a_face_that_stays_is_one_track(box: Box) -> None:
    tracker = Tracker()
    assert [tracker.update(float(time), [box]) for time in range(5)] == [[0]] * 5


def moving(x: float, speed: float, time: float, y: float = 100, side: int = 80) -> Box:
    return (round(x + speed * time), round(y), side, side)


@pytest.mark.parametrize("step", [0.04, 0.1, 0.2])
@pytest.mark.parametrize("seed", range(5))
def test_two_faces_that_cross_keep_their_numbers(step: float, seed: int) -> None:
    noise = random.Random(seed)
    tracker = Tracker()
    before: dict[str, int] = {}
    for time in np.arange(0, 5, step).tolist():
        left = moving(0, 120, time, 100 + noise.uniform(-3, 3))
        right = moving(600, -120, time, 115 + noise.uniform(-3, 3))
        boxes = {"left": left, "right": right}
        if abs(left[0] - right[0]) < 60:
            del boxes["right"]  # hidden behind the other one
        names = list(boxes)
        noise.shuffle(names)
        numbers = tracker.update(time, [boxes[name] for name in names])
        before = before or dict(zip(names, numbers, strict=True))
        assert dict(zip(names, numbers, strict=True)) == {name: before[name] for name in names}, time
    assert tracker.count == 2


def test_a_face_that_walks_is_followed_at_one_frame_per_second() -> None:
    tracker = Tracker()
    assert {tracker.update(float(time), [moving(0, 100, time)])[0] for time in range(6)} == {0}  # no overlap at all


def test_a_hidden_face_comes_back_and_a_long_gone_one_does_not() -> None:
    tracker = Tracker()
    box = (100, 100, 80, 80)
    assert tracker.update(0.0, [box]) == [0]
    assert tracker.update(0.5, []) == []
    assert tracker.update(1.5, [box]) == [0]
    assert tracker.update(2.0, []) == []
    assert tracker.update(9.0, []) == []
    assert tracker.update(9.5, [box]) == [1]


def test_a_face_elsewhere_or_of_another_size_is_another_one() -> None:
    tracker = Tracker()
    tracker.update(0.0, [(100, 100, 80, 80)])
    assert tracker.update(0.2, [(400, 100, 80, 80)]) == [1]
    tracker = Tracker()
    tracker.update(0.0, [(100, 100, 80, 80)])
    assert tracker.update(0.2, [(170, 100, 25, 25)]) == [1]


def test_iou_of_known_boxes() -> None:
    a, b = np.array([[0.0, 0, 2, 2]]), np.array([[1.0, 0, 3, 2], [0, 0, 2, 2], [5, 5, 6, 6]])
    assert iou(a, b).tolist() == [[pytest.approx(1 / 3), 1, 0]]


def record(source: str, time: float | None, boxes: Sequence[Box]) -> list[Record]:
    if not boxes:
        return [Record(source, "no_face", time=time)]
    return [Record(source, face=number, box=box, time=time, age=30.0) for number, box in enumerate(boxes)]


def test_records_of_videos_get_tracks_and_photos_none() -> None:
    a, b = (0, 0, 50, 50), (300, 0, 40, 40)
    records = [
        *record("p.jpg", None, [a, b]),
        *record("v.mp4", 0.0, [a, b]),
        *record("v.mp4", 0.5, []),
        *record("v.mp4", 1.0, [(300, 0, 60, 60), (2, 0, 50, 50)]),  # the other one is the largest now
        *record("v.mp4", 0.0, [b]),  # the same video once more
        *record("w.mp4", 0.5, [b]),
    ]
    followed = list(follow(records))
    assert [each.track for each in followed] == [None, None, 0, 1, None, 1, 0, 0, 0]
    assert [each.box for each in followed] == [each.box for each in records]


def test_photos_are_passed_on_before_the_next_one_is_known() -> None:
    waiting = iter(record("a.jpg", None, [(0, 0, 9, 9)]) + record("b.jpg", None, []))
    next(iter(follow(waiting)))
    assert next(waiting).source == "b.jpg"
