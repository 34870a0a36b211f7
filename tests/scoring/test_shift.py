"""The shift alarm: silent on faces like those of the calibration, loud on others, and never on a handful or one video."""

from __future__ import annotations

import numpy as np
import pytest

from agecli.images.reading import Pixels
from agecli.scoring.shift import (
    STATISTICS,
    ShiftMonitor,
    ShiftReference,
    _percentile,
    picture_statistics,
    shift_of,
    shift_reference,
)


def faces(count: int, seed: int, contrast: float = 1.0) -> Pixels:
    """Random pictures of different light and detail.   (count, 3, 64, 64)"""
    rng = np.random.default_rng(seed)
    light = rng.normal(130, 15, (count, 1, 1, 1))
    noise = rng.normal(0, 1, (count, 3, 64, 64)) * rng.uniform(20, 40, (count, 1, 1, 1)) * contrast
    return (light + noise).clip(0, 255).astype(np.uint8)


@pytest.fixture(scope="module")
def reference() -> ShiftReference:
    made = shift_reference(picture_statistics(faces(200, 0)))
    assert made is not None
    return made


def alarm(reference: ShiftReference | None, pixels: Pixels, source: str = "{}.jpg") -> str | None:
    monitor = ShiftMonitor(reference)
    monitor.add([source.format(number) for number in range(len(pixels))], picture_statistics(pixels))
    return monitor.message()


def test_the_alarm_is_silent_on_the_same_kind_of_faces_and_speaks_on_flat_ones(reference: ShiftReference) -> None:
    assert alarm(reference, faces(100, 1)) is None
    message = alarm(reference, faces(100, 2, contrast=0.5))
    assert message is not None
    assert "calibrate" in message
    assert "\n" not in message


def test_more_detail_is_no_shift(reference: ShiftReference) -> None:
    sharp = np.tile(np.array(reference.mean), (50, 1))
    sharp[:, 3:] += 2 * np.array(reference.std)[3:]
    assert shift_of(sharp, reference) == 0
    assert (reference.distances(sharp) == 0).all()


def test_a_handful_of_faces_one_video_or_an_unknown_reference_raise_no_alarm(reference: ShiftReference) -> None:
    flat = faces(100, 2, contrast=0.5)
    assert alarm(reference, flat[:10]) is None
    assert alarm(reference, flat, "video.mp4") is None
    assert alarm(reference, np.repeat(flat[:1], 100, axis=0)) is None
    assert alarm(None, flat) is None


def test_one_in_a_hundred_calibration_faces_is_unusual(reference: ShiftReference) -> None:
    assert (reference.distances(picture_statistics(faces(200, 0))) > 1).mean() == pytest.approx(0.01, abs=0.006)


def test_a_reference_survives_its_header_and_wrong_ones_are_refused(reference: ShiftReference) -> None:
    header = reference.header()
    assert ShiftReference.read(header) == reference
    assert ShiftReference.read(None) is None
    for change in ({"mean": [1.0]}, {"std": [0.0] * len(STATISTICS)}, {"unusual": 0.0}, {"mean": ["x"] * 8}):
        with pytest.raises((ValueError, TypeError)):
            ShiftReference.read({**header, **change})


def test_too_few_faces_make_no_reference() -> None:
    assert shift_reference(picture_statistics(faces(5, 0))) is None


def test_grey_and_pale_faces_are_no_shift_but_a_cast_is() -> None:
    mean, std = (0.5, 0.15, 0.14, 0.16, 0.78, -4.0, -3.5, -3.2), (0.12, 0.08, 0.08, 0.05, 0.12, 0.3, 0.3, 0.3)
    known = ShiftReference(1000, mean, std, 1.0)
    grey, green = np.tile(mean, (60, 1)), np.tile(mean, (60, 1))
    grey[:, 1:3] = 0
    green[:, 1] = -0.24  # three stds beyond grey
    assert shift_of(grey, known) == 0
    assert (known.distances(grey) == 0).all()
    assert shift_of(green, known) == pytest.approx(np.sqrt((9 - 1 / 60) / 8))


def test_the_shift_of_a_hand_computed_example() -> None:
    known = ShiftReference(1000, (0.5,) * 8, (0.1,) * 8, 1.0)
    faces = np.full((100, 8), 0.5)
    faces[:, 0] += 0.1  # light: one std above
    faces[:, 3] -= 0.2  # contrast: two stds below
    faces[:, 4] += 0.3  # highlights: a surplus, which does not count
    assert shift_of(faces, known) == pytest.approx(np.sqrt((1 - 0.01 + 4 - 0.01) / 8))


@pytest.mark.parametrize("count", [1, 2, 3, 50, 51, 8000])
def test_the_percentile_is_that_of_numpy(count: int) -> None:
    values = np.random.default_rng(count).random(count, dtype=np.float32)
    assert _percentile(values, 98) == pytest.approx(np.percentile(values, 98), rel=1e-6)
