"""Photo in, every face's age out: detection and alignment as the model was trained with."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image
from skimage import data

import agecli
from agecli.core.errors import InputError
from agecli.images.video import count_frames
from agecli.model.checkpoint import load_checkpoint
from tests.conftest import Cli, invoke

TINY = {"data.size": 64}


@pytest.fixture(scope="module")
def portrait() -> Image.Image:
    return Image.fromarray(np.asarray(data.astronaut(), np.uint8))  # type: ignore[no-untyped-call]


@pytest.fixture(scope="module")
def model(portrait: Image.Image, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trained on crops that preprocess made, with an alignment that is not the default one."""
    folder = tmp_path_factory.mktemp("model")
    (folder / "photos").mkdir()
    for number in range(12):
        portrait.rotate(3 * number - 18).save(folder / f"photos/{number:03d}A{20 + number}.JPG")
    agecli.preprocess(folder / "photos", out=folder / "aligned", size=128, eye_distance=0.4)
    agecli.train(
        folder / "aligned",
        out=folder / "run",
        backbone="timm:test_efficientnet",
        weights="none",
        freeze=True,
        iterations=60,
        batch_size=4,
        settings=TINY,
    )
    return folder / "run/fold-1/best.safetensors"


def test_the_alignment_travels_in_the_checkpoint(model: Path) -> None:
    alignment = load_checkpoint(model).config.alignment
    assert (alignment.size, alignment.eye_distance, alignment.eye_height) == (128, 0.4, 0.312)


def test_a_photo_gives_what_its_preprocessed_crop_gives(model: Path, portrait: Image.Image, tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    portrait.save(tmp_path / "x/a.png")
    agecli.preprocess(tmp_path / "x", out=tmp_path / "out", size=128, eye_distance=0.4)
    (photo,) = agecli.predict(tmp_path / "x/a.png", model=model)
    (crop,) = agecli.predict(tmp_path / "out/faces/a.png.jpg", model=model, no_detect=True)
    assert photo.age is not None
    assert crop.age is not None
    assert abs(photo.age - crop.age) < 0.5  # the crop went through JPEG
    assert photo.box is not None
    x, _, w, _ = photo.box
    assert 150 < x < 200
    assert 50 < w < 120
    assert photo.score is not None


def test_every_face_of_every_photo_in_order(cli: Cli, model: Path, portrait: Image.Image, tmp_path: Path) -> None:
    both = Image.new("RGB", (1024, 512))
    both.paste(portrait, (0, 0))
    both.paste(portrait.resize((400, 400)), (560, 60))
    both.save(tmp_path / "two.jpg")
    portrait.save(tmp_path / "one.jpg")
    Image.new("RGB", (300, 300), "grey").save(tmp_path / "none.jpg")
    done = cli("predict", "two.jpg", "none.jpg", "one.jpg", "-m", model, "--batch-size", 1)
    assert done.returncode == 1, done.stderr
    records = [json.loads(line) for line in done.stdout.splitlines()]
    said = [(record["source"], record["status"], record["face"]) for record in records]
    assert said == [("two.jpg", "ok", 0), ("two.jpg", "ok", 1), ("none.jpg", "no_face", None), ("one.jpg", "ok", 0)]
    assert records[0]["box"][2] > records[1]["box"][2]
    assert len(cli("predict", "two.jpg", "-m", model, "--largest").stdout.splitlines()) == 1
    assert cli("predict", "two.jpg", "-m", model, "--detector", "eyes").returncode == 2


@pytest.mark.slow
def test_a_model_of_unknown_alignment_is_warned_of(cli: Cli, toy: Path, portrait: Image.Image, tmp_path: Path) -> None:
    portrait.save(tmp_path / "one.jpg")
    tiny = (
        "--backbone timm:test_efficientnet --weights none --freeze --iterations 20 --set data.size=64 --batch-size 16"
    )
    assert cli("train", "--data", toy, "--out", "run", *tiny.split()).returncode == 0
    done = cli("predict", "one.jpg", "-m", "run/fold-1/best.safetensors")
    assert done.returncode == 0, done.stderr
    assert "not trained on faces from `agecli preprocess`" in done.stderr


def test_any_number_of_workers_gives_the_same_records_in_order(
    model: Path, portrait: Image.Image, tmp_path: Path
) -> None:
    names = []
    for number in range(30):
        names.append(tmp_path / f"{29 - number}.jpg")
        portrait.rotate(number).save(names[-1])
    names[17].write_text("no picture")
    one, three = (list(agecli.predict(names, model=model, workers=count, batch_size=7)) for count in (1, 3))
    assert one == three
    assert [record.source for record in one] == [str(name) for name in names]
    assert one[17].status == "unreadable"


def test_small_and_doubtful_faces_are_left_out_and_wide_intervals_marked(
    cli: Cli, model: Path, portrait: Image.Image, tmp_path: Path
) -> None:
    portrait.save(tmp_path / "a.png")
    (found,) = agecli.predict(tmp_path / "a.png", model=model, abstain_above=500, distribution=True)
    assert found.abstain is False
    assert found.box is not None
    assert found.score is not None
    assert found.distribution is not None
    assert sum(found.distribution) == pytest.approx(1, abs=1e-3)
    assert next(iter(agecli.predict(tmp_path / "a.png", model=model, abstain_above=0.1))).abstain
    for limits in ({"min_face": min(found.box[2:]) + 1}, {"min_score": found.score + 1}):
        (none,) = agecli.predict(tmp_path / "a.png", model=model, **limits)
        assert none.status == "no_face"
        assert "none of its 1 faces" in (none.error or "")
    done = cli("predict", "a.png", "--model", model, "--distribution", "--abstain-above", 1, "--format", "csv")
    row = next(csv.DictReader(done.stdout.splitlines()))
    assert row["abstain"] == "True"
    assert len(json.loads(row["distribution"])) == 121


def test_an_age_check_gives_the_probability_and_a_decision(model: Path, portrait: Image.Image, tmp_path: Path) -> None:
    portrait.save(tmp_path / "a.png")
    (whole,) = agecli.predict(tmp_path / "a.png", model=model, distribution=True)
    assert whole.decision is None
    assert whole.distribution is not None
    assert not {"over", "p_over", "decision"} & set(whole.row())
    expected = sum(whole.distribution[18:])
    for confidence, decision in ((expected - 0.01, "over"), (min(1, expected + 0.01), "challenge")):
        (found,) = agecli.predict(tmp_path / "a.png", model=model, over=18, over_confidence=confidence)
        assert (found.over, found.decision) == (18, decision)
        assert found.p_over == pytest.approx(expected, abs=1e-3)
    done = invoke("predict", tmp_path / "a.png", "--model", model, "--over", 18, "--format", "csv")
    row = next(csv.DictReader(done.stdout.splitlines()))
    assert float(row["p_over"]) == pytest.approx(expected, abs=1e-3)
    with pytest.raises(InputError, match="no age to check"):
        agecli.predict(tmp_path / "a.png", model=model, over=-3)


@pytest.fixture(scope="module")
def graph(model: Path) -> Path:
    agecli.export(model, out=model.with_suffix(".onnx"))
    return model.with_suffix(".onnx")


@pytest.mark.parametrize("form", ["jsonl", "csv", "json", "parquet"])
def test_a_run_that_was_killed_goes_on_with_each_input_once(
    cli: Cli, graph: Path, portrait: Image.Image, tmp_path: Path, form: str
) -> None:
    portrait.resize((160, 160)).save(tmp_path / "face.jpg")
    (tmp_path / "photos").mkdir()
    for number in range(600):
        os.link(tmp_path / "face.jpg", tmp_path / f"photos/{number:04d}.jpg")
    (tmp_path / "photos/0300.jpg").unlink()
    (tmp_path / "photos/0300.jpg").write_text("no picture")
    command = ("predict", "photos", "-m", graph, "--no-detect", "--batch-size", 4)
    assert cli(*command, "-o", f"whole.{form}").returncode == 1
    arguments = [sys.executable, "-m", "agecli", *map(str, command), "-o", f"killed.{form}"]
    killed = subprocess.Popen(arguments, cwd=tmp_path, stderr=subprocess.DEVNULL)
    journal = tmp_path / f"killed.{form}.unfinished"
    while killed.poll() is None and not (journal.exists() and journal.read_bytes().count(b"\n") > 60):
        time.sleep(0.01)
    killed.kill()
    killed.wait()
    assert journal.exists(), "it was too quick to be killed"
    assert not (tmp_path / f"killed.{form}").exists()
    assert cli(*command, "-o", f"killed.{form}").returncode == 2  # not thrown away by mistake
    done = cli(*command, "-o", f"killed.{form}", "--resume")
    assert done.returncode == 1
    assert "resuming after" in done.stderr
    assert "1 of 600 inputs gave no age: photos/0300.jpg" in done.stderr
    assert (tmp_path / f"killed.{form}").read_bytes() == (tmp_path / f"whole.{form}").read_bytes()
    assert not journal.exists()
    assert "nothing was done" in cli(*command, "-o", f"killed.{form}", "--resume").stderr


def test_a_video_gives_a_record_for_each_frame_and_face(
    cli: Cli, graph: Path, portrait: Image.Image, tmp_path: Path
) -> None:
    frame = np.asarray(portrait)[:, :, ::-1]
    writer = cv2.VideoWriter(str(tmp_path / "film.avi"), cv2.VideoWriter.fourcc(*"MJPG"), 5.0, (512, 512))
    for number in range(20):
        writer.write(frame if number < 12 else np.zeros_like(frame))
    writer.release()
    portrait.save(tmp_path / "a.png")
    (tmp_path / "bad.mp4").write_text("no video")
    done = cli("predict", "film.avi", "bad.mp4", "a.png", "-m", graph, "--every", "800ms", "--draw", "drawn")
    records = [json.loads(line) for line in done.stdout.splitlines()]
    said = [(record["source"], record["status"], record["time"]) for record in records]
    assert said == [
        *(("film.avi", "ok", time) for time in (0.0, 0.8, 1.6)),
        *(("film.avi", "no_face", time) for time in (2.4, 3.2)),
        ("bad.mp4", "unreadable", None),
        ("a.png", "ok", None),
    ]
    assert done.returncode == 1
    assert (
        "1 of 3 inputs gave no age: bad.mp4: it is not a video" in done.stderr
    )  # frames without a face are no failure
    assert {record["track"] for record in records} == {0, None}
    assert count_frames(str(tmp_path / "drawn/film.avi.mp4"), 0.0) == 20
    done = cli("predict", "film.avi", "-m", graph, "--every", "800ms", "--per-person", "--format", "json")
    (person,) = json.loads(done.stdout)
    assert {name: person[name] for name in ("track", "frames", "first", "last", "time", "box")} == {
        "track": 0, "frames": 3, "first": 0.0, "last": 1.6, "time": None, "box": records[0]["box"]
    }  # fmt: skip
    assert person["age"] == pytest.approx(records[0]["age"], abs=0.5)
    drawn, photo = (np.asarray(Image.open(tmp_path / name).convert("RGB"), int) for name in ("drawn/a.png", "a.png"))
    assert abs(drawn - photo)[:240, 150:290].max() > 100
    assert (drawn[300:] == photo[300:]).all()


def test_a_table_shows_the_distribution_and_which_face_it_is(
    cli: Cli, graph: Path, portrait: Image.Image, tmp_path: Path
) -> None:
    both = Image.new("RGB", (1024, 512))
    both.paste(portrait, (0, 0))
    both.paste(portrait, (512, 0))
    both.save(tmp_path / "two.jpg")
    lines = cli("predict", "two.jpg", "-m", graph, "--format", "table").stdout.splitlines()
    assert len(lines) == 3
    assert lines[2].endswith("two.jpg, face 1")
    assert "█" in lines[1]
