"""Persons of a video: one record each, as sure as its frames are and no surer."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import agecli
from agecli.core.records import Record
from agecli.model.card import Card
from agecli.prediction.estimation import records_of
from agecli.prediction.options import Options
from agecli.prediction.persons import pool


@pytest.fixture(scope="module")
def card() -> Card:
    return agecli.load().card


def pmf(card: Card, age: float, std: float = 4.0) -> list[float]:
    mass = np.exp(-((card.grid.years - age) ** 2) / (2 * std**2))
    return [0.0] * card.grid.low + [float(p) for p in mass / mass.sum()]


def face(card: Card, time: float, track: int, age: float, side: int = 100, source: str = "v.mp4") -> Record:
    return Record(
        source, face=track, box=(5, 5, side, side), time=time, track=track, age=age, distribution=pmf(card, age)
    )


def test_a_person_has_the_average_of_its_frames(card: Card) -> None:
    options = Options(per_person=True, readout="mean", distribution=True)
    records = [face(card, float(time), 0, age) for time, age in enumerate((30, 40, 50))]
    (person,) = pool(records, card, options)
    assert person.age == pytest.approx(40, abs=0.1)
    assert (person.frames, person.first, person.last, person.time) == (3, 0.0, 2.0, None)
    assert person.distribution is not None
    assert np.allclose(person.distribution, np.mean([pmf(card, age) for age in (30, 40, 50)], axis=0), atol=1e-5)


def test_many_frames_do_not_narrow_the_interval(card: Card) -> None:
    options = Options(per_person=True)
    (one,) = pool([face(card, 0.0, 0, 43)], card, options)
    (many,) = pool([face(card, float(time), 0, 43) for time in range(100)], card, options)
    (unsure,) = pool([face(card, float(time), 0, 30 + 20 * (time % 2)) for time in range(100)], card, options)
    assert (one.low, one.high) == pytest.approx((many.low, many.high), abs=0.5)  # the steps of the ends
    (alone,) = records_of(np.array([pmf(card, 43)[card.grid.low :]]), card, options)
    assert (one.age, one.std, one.low, one.high) == (alone.age, alone.std, alone.low, alone.high)
    assert unsure.std is not None
    assert one.std is not None
    assert unsure.std > 2 * one.std


def test_large_faces_count_for_more(card: Card) -> None:
    records = [face(card, 0.0, 0, 30, side=100), face(card, 1.0, 0, 60, side=20)]
    (person,) = pool(records, card, Options(per_person=True, readout="mean"))
    assert person.age is not None
    assert person.age < 35
    assert person.box == (5, 5, 100, 100)


def test_photos_pass_and_videos_end_before_the_next_input(card: Card) -> None:
    def records() -> Iterator[Record]:
        yield Record("a.jpg", face=0, age=3.0, distribution=[1.0])
        yield from (face(card, 0.0, track, 20 + 20 * track) for track in (0, 1))
        yield Record("v.mp4", "no_face", time=1.0)
        yield face(card, 2.0, 0, 20)
        yield Record("empty.mp4", "no_face", error="no face was found", time=0.0)
        yield Record("empty.mp4", "no_face", error="no face was found", time=1.0)
        yield Record("bad.mp4", "unreadable", error="it is not a video")
        yield face(card, 0.0, 0, 70, source="w.mp4")

    said = [
        (each.source, each.status, each.face, each.track, each.frames, each.last, each.distribution)
        for each in pool(records(), card, Options(per_person=True))
    ]
    assert said == [
        ("a.jpg", "ok", 0, None, None, None, None),
        ("v.mp4", "ok", 0, 0, 2, 2.0, None),
        ("v.mp4", "ok", 1, 1, 1, 0.0, None),
        ("empty.mp4", "no_face", None, None, None, None, None),
        ("bad.mp4", "unreadable", None, None, None, None, None),
        ("w.mp4", "ok", 0, 0, 1, 0.0, None),
    ]
