"""Predictions are read once, or saved to a file that an interrupted run can resume, from Python as from the command."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

import agecli
from agecli.core.errors import InputError, Interrupted
from agecli.core.files import WRITTEN
from agecli.prediction.estimator import Estimator
from agecli.prediction.finished import MADE_OF
from agecli.prediction.predictions import Summary

EXAMPLE = Path(__file__).parent.parent.parent / "docs/example.jpg"


@pytest.fixture(scope="module")
def estimator() -> Estimator:
    return agecli.load()


@pytest.fixture
def photos(tmp_path: Path) -> list[str]:
    """Six faces; the third is not a picture."""
    names = [str(tmp_path / f"{number}.jpg") for number in range(6)]
    with Image.open(EXAMPLE) as image:
        for number, name in enumerate(names):
            image.crop((150 + number, 40, 300, 190)).save(name)
    Path(names[2]).write_text("no picture")
    return names


def interrupted(names: list[str], after: int) -> Iterator[str]:
    """The names, until Ctrl-C is pressed."""
    yield from names[:after]
    raise KeyboardInterrupt


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "tsv", "json", "parquet"])
def test_an_interrupted_save_resumes_to_the_same_bytes(
    estimator: Estimator, photos: list[str], tmp_path: Path, suffix: str
) -> None:
    whole, stopped = tmp_path / f"whole.{suffix}", tmp_path / f"stopped.{suffix}"
    estimator.predict(photos, no_detect=True).save(whole)
    with pytest.raises(Interrupted, match="the records so far are in") as caught:
        estimator.predict(interrupted(photos, 4), no_detect=True, batch_size=1).save(stopped)
    assert "--resume" in caught.value.hint
    assert not stopped.exists()
    done: list[int] = []
    summary = estimator.predict(photos, no_detect=True).save(stopped, resume=True, progress=done.append)
    assert stopped.read_bytes() == whole.read_bytes()
    assert done == [1, 2, 3]  # three inputs are certainly whole, the fourth was predicted again
    assert summary == Summary(6, 1, 0, summary.message)
    assert summary.message.startswith(f"1 of 6 inputs gave no age: {photos[2]}: ")
    assert not summary.ok
    assert sorted(path.name for path in tmp_path.glob("*.unfinished")) == []


def test_a_resumed_save_must_have_the_same_options_and_photos(
    estimator: Estimator, photos: list[str], tmp_path: Path
) -> None:
    with pytest.raises(Interrupted):
        estimator.predict(interrupted(photos, 4), no_detect=True, batch_size=1).save(tmp_path / "a.csv")
    with pytest.raises(InputError, match="--readout"):
        estimator.predict(photos, no_detect=True, readout="mode").save(tmp_path / "a.csv", resume=True)
    with pytest.raises(InputError, match=photos[1]):
        estimator.predict(photos[1:], no_detect=True).save(tmp_path / "a.csv", resume=True)
    with pytest.raises(InputError, match="image 0"), Image.open(EXAMPLE) as image:
        estimator.predict(image.copy(), no_detect=True).save(tmp_path / "a.csv", resume=True)
    with pytest.raises(InputError):
        estimator.predict(photos, no_detect=True).save(tmp_path / "a.csv")  # not overwritten by mistake


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
def test_a_finished_file_is_resumed_only_by_the_run_that_wrote_it(
    estimator: Estimator, photos: list[str], tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"a.{suffix}"
    first = estimator.predict(photos, no_detect=True).save(path)
    if not hasattr(os, "getxattr") or WRITTEN not in os.listxattr(path):
        pytest.skip("the file system has no extended attributes")
    content = path.read_bytes()
    again = estimator.predict(photos, no_detect=True).save(path, resume=True)
    assert (again.inputs, again.failed, again.ok) == (first.inputs, first.failed, False) == (6, 1, False)
    with pytest.raises(InputError, match="other options: --readout"):
        estimator.predict(photos, no_detect=True, readout="mode").save(path, resume=True)
    for others in (photos[1:], photos[:-1], [*photos, str(EXAMPLE)], photos[::-1]):
        with pytest.raises(InputError, match="holds other inputs"):
            estimator.predict(others, no_detect=True).save(path, resume=True)
    assert path.read_bytes() == content
    copy = tmp_path / f"copy.{suffix}"
    copy.write_bytes(content)
    assert estimator.predict(photos[1:], no_detect=True).save(copy, resume=True).ok  # nothing is known about it
    assert copy.read_bytes() == content
    path.write_bytes(content[:-1])
    with pytest.raises(InputError, match="was changed"):
        estimator.predict(photos, no_detect=True).save(path, resume=True)
    os.setxattr(path, MADE_OF, b'{"counts": [1]}')
    with pytest.raises(InputError, match="was changed"):
        estimator.predict(photos, no_detect=True).save(path, resume=True)


def test_a_file_and_the_iterator_hold_the_same_records(estimator: Estimator, photos: list[str], tmp_path: Path) -> None:
    records = list(estimator.predict(photos, no_detect=True))
    stream = io.StringIO()
    summary = estimator.predict(photos, no_detect=True).save(stream)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert len({tuple(line) for line in lines}) == 1  # all lines of a file have the same fields
    assert lines == [dict.fromkeys(lines[0]) | json.loads(json.dumps(record.row())) for record in records]
    assert (summary.inputs, summary.failed) == (6, 1)
    estimator.predict(photos, no_detect=True, abstain_above=3).save(tmp_path / "ages.txt", file_format="csv")
    with (tmp_path / "ages.txt").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["age"] for row in rows] == ["" if record.age is None else str(record.age) for record in records]
    assert rows[0]["abstain"] == "True"


def test_pictures_in_memory_can_be_saved(estimator: Estimator, tmp_path: Path) -> None:
    with Image.open(EXAMPLE) as image:
        summary = estimator.predict([image.copy(), image.copy()]).save(tmp_path / "ages.jsonl")
    assert summary == Summary(inputs=2)
    assert summary.ok
    sources = [json.loads(line)["source"] for line in (tmp_path / "ages.jsonl").read_text().splitlines()]
    assert sources == ["image 0", "image 1"]


def test_drawings_are_written_while_records_are_read(
    estimator: Estimator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.jpg").write_bytes(EXAMPLE.read_bytes())
    (record,) = estimator.predict("a.jpg", draw="drawn")
    assert record.status == "ok"
    assert Image.open("drawn/a.jpg").size == Image.open("a.jpg").size
    Path("outside").mkdir()
    Path("sub").mkdir()
    Path("sub/a.jpg").write_bytes(EXAMPLE.read_bytes())
    Path("drawn/sub").symlink_to(tmp_path / "outside")  # leads out of the folder of drawings
    summary = estimator.predict("sub/a.jpg", draw="drawn").save("ages.jsonl")
    assert (summary.failed, summary.not_drawn, summary.ok) == (0, 1, False)
    assert not list(Path("outside").iterdir())
    with pytest.raises(InputError, match="draw needs files"):
        list(estimator.predict(Image.open("a.jpg"), draw="drawn"))


def test_predictions_are_read_once(estimator: Estimator, photos: list[str]) -> None:
    predictions = estimator.predict(photos, no_detect=True)
    assert next(predictions).source == photos[0]
    assert [record.source for record in predictions] == photos[1:]
    assert list(predictions) == []


def test_what_save_cannot_do_is_an_error(estimator: Estimator, photos: list[str], tmp_path: Path) -> None:
    predictions = estimator.predict(photos[:1], no_detect=True)
    for output, options, says in (
        (tmp_path / "a.csv", {"file_format": "xml"}, "unknown format `xml`"),
        (tmp_path, {}, "is a folder"),
        (io.StringIO(), {"resume": True}, "--resume needs the file"),
    ):
        with pytest.raises(InputError, match=says):
            predictions.save(output, **options)
    next(predictions)
    with pytest.raises(InputError, match="have been read already"):
        predictions.save(tmp_path / "a.csv")
    for arguments, says in (({"batch_size": 0}, "batch size 0"), ({"workers": 0}, "--workers 0")):
        with pytest.raises(InputError, match=says):
            estimator.predict(photos, **arguments)  # type: ignore[arg-type]
