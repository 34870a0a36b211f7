"""Videos of real faces: two that cross are two persons, and their drawing is a video."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageOps
from skimage import data

import agecli
from agecli.core.records import Record
from agecli.images.video import VideoFile, count_frames, frame_rate, frames
from agecli.prediction.estimator import Estimator


@pytest.fixture(scope="module")
def estimator() -> Estimator:
    return agecli.load()


@pytest.fixture(scope="module")
def film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three seconds: a face walks to the right, in front of a larger one that walks to the left."""
    path = tmp_path_factory.mktemp("film") / "cross.mp4"
    portrait = Image.fromarray(np.asarray(data.astronaut(), np.uint8)).crop((140, 30, 310, 220))  # type: ignore[no-untyped-call]
    behind = ImageOps.mirror(portrait).resize((204, 228))
    with VideoFile(path, 5.0) as video:
        for number in range(15):
            photo = Image.new("RGB", (700, 320), (110, 120, 130))
            photo.paste(behind, (480 - 33 * number, 80))
            photo.paste(portrait, (10 + 33 * number, 40))
            video.write(np.asarray(photo))
    return path


@pytest.fixture(scope="module")
def records(estimator: Estimator, film: Path) -> list[Record]:
    return list(estimator.predict(film, every="200ms"))


def test_two_faces_that_cross_are_two_tracks(records: list[Record]) -> None:
    assert {record.track for record in records if record.status == "ok"} == {0, 1}
    for track, way in ((0, -1), (1, 1)):  # 0 is the larger one, which comes first in the first frame
        places = [record.box[0] for record in records if record.track == track and record.box]
        assert len(places) >= 10
        assert (way * np.diff(places) > 0).all()


def test_each_person_is_one_record(estimator: Estimator, film: Path, records: list[Record]) -> None:
    persons = list(estimator.predict(film, every="200ms", per_person=True))
    assert [person.track for person in persons] == [0, 1]
    for person in persons:
        own = [record for record in records if record.track == person.track]
        assert (person.frames, person.first, person.last) == (len(own), own[0].time, own[-1].time)
        seen = [record.age for record in own if record.age is not None]
        assert person.age is not None
        assert min(seen) <= person.age <= max(seen)
        assert person.low is not None
        assert person.high is not None
        assert person.low <= person.age <= person.high
        assert person.distribution is None


def test_an_interrupted_run_with_a_video_resumes_to_the_same_bytes(
    estimator: Estimator, film: Path, tmp_path: Path
) -> None:
    def save(names: list[str], name: str, resume: bool = False) -> None:
        estimator.predict(names, every="600ms", per_person=True).save(tmp_path / name, resume=resume)

    save([str(film), "gone.jpg"], "whole.json")
    with pytest.raises(agecli.Interrupted):
        estimator.predict(_interrupted(str(film)), every="600ms", per_person=True, batch_size=1).save(
            tmp_path / "cut.json"
        )
    save([str(film), "gone.jpg"], "cut.json", resume=True)
    assert (tmp_path / "cut.json").read_bytes() == (tmp_path / "whole.json").read_bytes()


def _interrupted(film: str) -> Iterator[str]:
    yield film
    yield "gone.jpg"
    raise KeyboardInterrupt


def test_a_drawn_video_has_the_size_rate_and_length_of_the_video(
    estimator: Estimator, film: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(film.parent)
    list(estimator.predict(film.name, every="1s", draw=tmp_path))
    drawn = str(tmp_path / film.name)
    assert (count_frames(drawn, 0.0), frame_rate(drawn)) == (15, 5.0)
    assert next(iter(frames(drawn, 0.0))).photo.shape == (320, 700, 3)
