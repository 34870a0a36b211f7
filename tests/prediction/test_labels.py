"""Labels beside faces: nothing is covered where there is room, and the photo is never left."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from agecli.prediction.labels import Label, Rectangle, place_labels, reach

PHOTO = (400.0, 300.0)
SIZES = ((90.0, 27.0), (70.0, 21.0), (40.0, 12.0), (16.0, 12.0))
FACES = st.lists(
    st.tuples(st.integers(-20, 390), st.integers(-20, 290), st.integers(5, 200), st.integers(5, 200)), max_size=14
).map(lambda boxes: [(float(x), float(y), float(x + w), float(y + h)) for x, y, w, h in boxes])


def overlap(a: Rectangle, b: Rectangle) -> bool:
    return min(a[2], b[2]) - max(a[0], b[0]) > 1e-3 and min(a[3], b[3]) - max(a[1], b[1]) > 1e-3


def others(faces: list[Rectangle], labels: list[Label], index: int) -> list[Rectangle]:
    """What was there when a label was placed."""
    return [*faces, *(label.place for label in labels[:index])]


def room(face: Rectangle, taken: list[Rectangle], step: float = 4) -> bool:
    """Whether the smallest label has a free place in reach of a face, by trying them all."""
    width, height = SIZES[-1]
    left, top, right, bottom = reach(PHOTO, face, SIZES[-1])
    places = (
        (x, y, x + width, y + height)
        for x in np.arange(left, right - width, step).tolist()
        for y in np.arange(top, bottom - height, step).tolist()
    )
    return any(not any(overlap(place, each) for each in taken) for place in places)


@given(FACES)
def test_a_label_covers_something_only_if_there_is_no_room(faces: list[Rectangle]) -> None:
    labels = place_labels(PHOTO, faces, [SIZES] * len(faces))
    for index, (face, label) in enumerate(zip(faces, labels, strict=True)):
        taken = others(faces, labels, index)
        if any(overlap(label.place, each) for each in taken):
            assert not room(face, taken)


@given(FACES)
def test_labels_are_whole_and_of_one_of_their_sizes(faces: list[Rectangle]) -> None:
    for label in place_labels(PHOTO, faces, [SIZES] * len(faces)):
        left, top, right, bottom = label.place
        assert min(left, top) >= 0
        assert right <= PHOTO[0] + 1e-9
        assert bottom <= PHOTO[1] + 1e-9
        assert abs(right - left - SIZES[label.variant][0]) < 1e-6
        assert abs(bottom - top - SIZES[label.variant][1]) < 1e-6


def test_a_face_with_room_has_its_largest_label_above_it() -> None:
    (label,) = place_labels(PHOTO, [(150, 120, 230, 200)], [SIZES])
    assert label == Label((145, 91, 235, 118), 0)


def test_a_label_stays_where_it_was_unless_something_comes_in_its_way() -> None:
    face, held = (150.0, 120.0, 230.0, 200.0), Label((145, 205, 235, 232), 0)
    assert place_labels(PHOTO, [face], [SIZES], before=[held]) == [held]
    first, _ = place_labels(PHOTO, [face, (140, 210, 200, 280)], [SIZES] * 2, before=[held, None])
    assert first != held


def test_a_crowd_is_laid_out_within_the_photo() -> None:
    corners = [(36.0 * column, 36.0 * row) for column in range(11) for row in range(8)]
    faces = [(x, y, x + 34, y + 34) for x, y in corners]  # no label fits between them
    labels = place_labels(PHOTO, faces, [SIZES] * len(faces))
    assert len({label.place for label in labels}) > 0.9 * len(faces)
