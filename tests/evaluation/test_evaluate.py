"""Evaluation through the real command line: numbers to publish, other readouts, comparisons, age checks, the page."""

from __future__ import annotations

import csv
import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import agecli
from agecli.core.errors import InputError
from agecli.core.files import read_csv
from agecli.evaluation import evaluate as evaluation
from agecli.evaluation.inference import infer
from agecli.evaluation.selection import Measurement
from agecli.model.checkpoint import load_checkpoint
from tests.conftest import Cli, invoke
from tests.training.test_train import TINY


@pytest.fixture(scope="module")
def runs(toy: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs with the same folds and one with others."""
    folder = tmp_path_factory.mktemp("runs")
    settings = {"data.size": 64, "data.val_share": 0.4}  # enough faces to calibrate on
    shared: dict[str, Any] = {**TINY, "setup": "subject", "folds": "1-2", "settings": settings}
    agecli.train(toy, out=folder / "a", **shared)
    agecli.train(toy, out=folder / "b", **{**shared, "iterations": 5, "model": "dldlf"})
    agecli.train(toy, out=folder / "plain", **{**TINY, "select": "last", "settings": {**settings, "data.val_share": 0}})
    return folder


def test_another_readout_does_not_run_the_network_again(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {path: path.read_bytes() for path in (runs / "a").rglob("*.csv")}

    def network(*_: Any) -> Any:
        raise AssertionError("the network ran")

    monkeypatch.setattr(evaluation, "infer", network)
    mean = agecli.evaluate(runs / "a")
    median = agecli.evaluate(runs / "a", readout="median")
    mode = agecli.evaluate(runs / "a", readout="mode", out=tmp_path / "mode")
    assert {path: path.read_bytes() for path in before} == before  # the run's own numbers stay
    assert (runs / "a/evaluation-median/fold-1/metrics.csv").exists()
    assert (tmp_path / "mode/fold-2/predictions.csv").exists()
    for one, two in ((mean, median), (median, mode)):
        assert not np.array_equal(one[0].predictions.predicted, two[0].predictions.predicted)
        assert np.array_equal(one[0].predictions.pmf, two[0].predictions.pmf)
    assert all(float(age).is_integer() for age in mode[0].predictions.predicted)


@pytest.mark.slow
def test_stored_predictions_are_used_only_for_the_same_weights_and_pictures(
    runs: Path, toy: Path, tmp_path: Path
) -> None:
    shutil.copytree(runs / "a", tmp_path / "a")
    shutil.copytree(toy, tmp_path / "toy")
    evaluation.evaluate(tmp_path / "a", data=tmp_path / "toy")
    inferred: list[str] = []

    def noted(measurement: Measurement, *rest: Any) -> Any:
        inferred.append(measurement.name)
        return infer(measurement, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluation, "infer", noted)
        evaluation.evaluate(tmp_path / "a", data=tmp_path / "toy")
        assert inferred == []
        picture = next((tmp_path / "toy/images").iterdir())
        picture.write_bytes(picture.read_bytes() + b"\0")
        evaluation.evaluate(tmp_path / "a", data=tmp_path / "toy")
        assert inferred == ["fold-1", "fold-2"]
        shutil.copyfile(tmp_path / "a/fold-2/best.safetensors", tmp_path / "a/fold-1/best.safetensors")
        evaluation.evaluate(tmp_path / "a", data=tmp_path / "toy")
        assert inferred == ["fold-1", "fold-2", "fold-1"]


@pytest.mark.slow
def test_intervals_are_calibrated_on_held_out_faces_or_labelled_as_uncalibrated(
    cli: Cli, runs: Path, toy: Path
) -> None:
    best, plain = (runs / f"{run}/fold-1/best.safetensors" for run in ("a", "plain"))
    calibration = load_checkpoint(best).calibration
    assert calibration is not None
    assert calibration.faces == sum(
        row["fold"] == "1" and row["part"] == "val" for row in read_csv(runs / "a/splits.csv")
    )
    assert load_checkpoint(plain).calibration is None
    face = next((toy / "images").iterdir())
    for model, kind, warned in ((best, "conformal", False), (plain, "mixture", True)):
        done = cli("predict", face, "--no-detect", "--model", model)
        assert json.loads(done.stdout)["interval"] == kind
        assert ("not calibrated" in done.stderr) == warned


def test_runs_are_compared_face_by_face(cli: Cli, runs: Path, tmp_path: Path) -> None:
    done = cli("evaluate", runs / "a", runs / "b", "--format", "csv", "--challenge", "18,25")
    assert done.returncode == 0, done.stderr
    table = {row["model"]: row for row in csv.DictReader(done.stdout.splitlines())}
    one, two = (table[f"{runs / name} compared"] for name in ("a", "b"))
    assert one["images"] == two["images"]
    assert float(two["difference"]) == pytest.approx(float(two["mae"]) - float(one["mae"]), abs=2e-4)
    assert float(two["difference_low"]) <= float(two["difference"]) <= float(two["difference_high"])
    assert 0 < float(two["p"]) <= 1
    assert table[f"{runs / 'a'} fold-1"]["fpr_18_25"] != ""
    screen = invoke("evaluate", runs / "a", runs / "b", "--format", "table")
    assert "paired" in screen.stdout
    assert "(few)" in screen.stdout


def test_metrics_have_a_confidence_interval(cli: Cli, runs: Path) -> None:
    done = cli("evaluate", runs / "a", "--format", "jsonl")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["model"] for row in rows] == ["fold-1", "fold-2", "pooled"]
    assert rows[0]["mae_low"] is None  # four people are too few
    assert rows[2]["mae_low"] <= rows[2]["mae"] <= rows[2]["mae_high"]
    for row in rows:
        assert row["cs0"] <= row["cs5"] <= row["cs10"]
        assert row["leakage"] == 0
    assert invoke("evaluate", runs / "a", "--readout", "middle").exit_code == 2
    assert invoke("evaluate", runs / "a", "--challenge", "x").exit_code == 2


def test_a_run_of_several_folds_has_its_pooled_numbers_in_files(runs: Path) -> None:
    pooled = read_csv(runs / "a/metrics.csv")
    assert pooled[0]["images"] == str(sum(int(read_csv(runs / f"a/fold-{n}/metrics.csv")[0]["images"]) for n in (1, 2)))
    assert {row["by"] for row in pooled} >= {"all", "decade"}
    assert {row["fold"] for row in read_csv(runs / "a/predictions.csv")} == {"1", "2"}


def test_a_run_keeps_its_results_when_a_picture_is_lost(cli: Cli, runs: Path, toy: Path, tmp_path: Path) -> None:
    shutil.copytree(toy, tmp_path / "toy")
    agecli.train(tmp_path / "toy", out=tmp_path / "run", **TINY)
    (tmp_path / "run/fold-1-old").mkdir()
    before = (tmp_path / "run/report.csv").read_bytes(), (tmp_path / "run/fold-1/metrics.csv").read_bytes()
    tested = [row["path"] for row in read_csv(tmp_path / "run/splits.csv") if row["part"] == "test"]
    (tmp_path / "toy" / tested[0]).write_text("no picture")
    done = cli("evaluate", "run", "--format", "csv")
    assert done.returncode == 1, done.stderr
    assert before == ((tmp_path / "run/report.csv").read_bytes(), (tmp_path / "run/fold-1/metrics.csv").read_bytes())
    assert read_csv(tmp_path / "run/evaluation/fold-1/metrics.csv")[0]["images"] == str(len(tested) - 1)


def test_a_model_that_has_seen_the_photos_says_so_and_fails(cli: Cli, runs: Path, toy: Path) -> None:
    best = runs / "a/fold-1/best.safetensors"
    done = cli("evaluate", best, "--data", toy, "--format", "csv")
    assert done.returncode == 1
    parts = [row["part"] for row in read_csv(runs / "a/splits.csv") if row["fold"] == "1"]
    counted = re.search(r"trained on (\d+) of these 120 photos", done.stderr)
    assert counted is not None
    assert int(counted[1]) >= parts.count("train")  # drawn faces are alike: some of the others count, too
    whole, seen, unseen = csv.DictReader(done.stdout.splitlines())
    assert float(whole["leakage"]) > 0.5
    assert float(whole["seen"]) >= 1 - parts.count("test") / 120 - 1e-4
    assert (seen["model"], unseen["model"]) == ("best, seen", "best, unseen")
    assert int(seen["images"]) + int(unseen["images"]) == 120
    allowed = invoke("evaluate", best, "--data", toy, "--format", "csv", "--allow-seen")
    assert allowed.exit_code == 0


def test_a_run_counts_the_test_faces_that_its_initial_model_has_seen(runs: Path, toy: Path, tmp_path: Path) -> None:
    first = runs / "a/fold-1/best.safetensors"
    agecli.train(toy, out=tmp_path / "tuned", init=str(first), setup="random", freeze=True, iterations=2, batch_size=16)
    done = invoke("evaluate", tmp_path / "tuned", "--format", "csv")
    assert done.exit_code == 1, done.output
    assert re.search(r"best.safetensors was trained on \d+ of these \d+ photos", done.stderr)
    (row, *_) = csv.DictReader(done.stdout.splitlines())
    assert float(row["seen"]) > 0.5
    assert invoke("evaluate", tmp_path / "tuned", "--allow-seen").exit_code == 0
    (result,) = evaluation.evaluate(runs / "plain")
    assert result.seen == 0  # a run from ImageNet weights: its test part was kept apart


def test_a_run_whose_initial_model_is_gone_does_not_say_that_nothing_was_seen(
    runs: Path, toy: Path, tmp_path: Path
) -> None:
    first = Path(shutil.copy(runs / "a/fold-1/best.safetensors", tmp_path / "first.safetensors"))
    agecli.train(toy, out=tmp_path / "tuned", init=str(first), setup="random", freeze=True, iterations=2, batch_size=16)
    first.unlink()
    (result,) = evaluation.evaluate(tmp_path / "tuned")
    assert result.seen is None


def test_a_model_named_twice_is_measured_once(runs: Path) -> None:
    twice = invoke("evaluate", runs / "a", runs / "a", "--format", "csv")
    assert "named twice" in twice.stderr
    assert len(twice.stdout.splitlines()) == 4


def test_pictures_that_can_not_be_read_at_all_are_no_traceback(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad/a.jpg").write_text("no picture")
    (tmp_path / "bad/labels.csv").write_text("path,age\na.jpg,30\n")
    done = invoke("evaluate", runs / "a/fold-1/best.safetensors", "--data", tmp_path / "bad")
    assert done.exit_code == 2
    assert "no face to measure on" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_resumed_run_keeps_its_faces(runs: Path, toy: Path, tmp_path: Path) -> None:
    (tmp_path / "out.txt").write_text(f"{next((toy / 'images').iterdir()).name}\n")
    with pytest.raises(InputError, match="was started with all faces"):
        agecli.train(toy, out=runs / "plain", resume=True, exclude=tmp_path / "out.txt")


def test_the_page_is_written(cli: Cli, runs: Path, tmp_path: Path) -> None:
    done = cli("evaluate", runs / "a", runs / "b", "--report", "report.html", "--challenge", "18")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "report.html").read_text()
    assert page.count("<img") >= 26  # the figures and the twenty worst faces
    assert "https://" not in page.replace("http://www.w3.org", "")


@pytest.mark.slow
def test_excluded_faces_are_left_out_of_a_run_s_own_test_parts(cli: Cli, runs: Path, toy: Path, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in (runs / "a").rglob("*.csv")}
    tested = [row["path"] for row in read_csv(runs / "a/splits.csv") if row["part"] == "test" and row["fold"] in "12"]
    (tmp_path / "bad labels.txt").write_text(f"{tested[0]}\n{tested[-1]}\n")
    done = cli("evaluate", runs / "a", "--exclude", "bad labels.txt", "--format", "csv")
    assert done.returncode == 0, done.stderr
    table = {row["model"]: row for row in csv.DictReader(done.stdout.splitlines())}
    assert int(table["pooled"]["images"]) == len(tested) - 2
    assert {path: path.read_bytes() for path in before} == before  # the run's own results are not overwritten
    written = read_csv(runs / "a/evaluation-without-bad labels/predictions.csv")
    assert {row["path"] for row in written} == set(tested) - {tested[0], tested[-1]}
    checkpoint = cli(
        *("evaluate", runs / "a/fold-1/best.safetensors", "--data", toy),
        *("--exclude", "bad labels.txt", "--out", "checkpoint", "--format", "csv"),
    )
    assert next(csv.DictReader(checkpoint.stdout.splitlines()))["images"] == "118"
    (tmp_path / "all.txt").write_text("\n".join(tested))
    refused = invoke("evaluate", runs / "a", "--exclude", tmp_path / "all.txt")
    assert refused.exit_code == 2
    assert "excludes every test face" in refused.stderr


def test_an_unreadable_picture_in_a_later_fold_keeps_all_results_in_one_folder(toy: Path, tmp_path: Path) -> None:
    shutil.copytree(toy, tmp_path / "toy")
    agecli.train(tmp_path / "toy", out=tmp_path / "run", **{**TINY, "setup": "subject"}, folds="1-2")
    own = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*.csv")}
    tested = [
        row["path"] for row in read_csv(tmp_path / "run/splits.csv") if (row["fold"], row["part"]) == ("2", "test")
    ]
    (tmp_path / "toy" / tested[0]).write_text("no picture")
    results = agecli.evaluate(tmp_path / "run")
    assert [result.folder for result in results] == [tmp_path / f"run/evaluation/fold-{n}" for n in (1, 2)]
    assert {row["fold"] for row in read_csv(tmp_path / "run/evaluation/predictions.csv")} == {"fold-1", "fold-2"}
    assert {path: path.read_bytes() for path in own} == own
