"""`agecli plot` through the real command line, and what its figures show."""

from __future__ import annotations

import inspect
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

import agecli
from agecli.core.ages import AgeGrid
from agecli.core.errors import InputError, MissingError
from agecli.model.checkpoint import load_checkpoint
from agecli.reports.figure_data import (
    ExplainedFace,
    Leaves,
    explain,
    read_ages,
    read_histories,
    read_leaves,
    read_runs,
)
from agecli.reports.figures import face as face_figure
from agecli.reports.figures import leaves as leaf_figure
from agecli.reports.figures.accuracy import cs_curve
from agecli.reports.figures.history import history
from agecli.reports.figures.style import TEXT_WIDTH
from agecli.scoring.metrics import within
from agecli.training.results import read_predictions
from agecli.training.run_folder import find_source, open_run, read_faces
from tests.conftest import Cli
from tests.training.test_train import TINY

TREES, LEAVES = 3, 8
MAGIC = {"png": b"\x89PNG\r\n\x1a\n", "svg": b"<?xml", "pdf": b"%PDF-"}


@pytest.fixture(scope="module")
def runs(toy: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A drf run of two folds, a dldlf run, and a model without a forest."""
    folder = tmp_path_factory.mktemp("runs")
    settings = {"data.size": 64, "forest.update_every": 10, "training.eval_every": 10}
    shared: dict[str, Any] = {**TINY, "setup": "subject", "trees": TREES, "depth": 4, "settings": settings}
    agecli.train(toy, out=folder / "drf", **shared, folds="1-2")
    agecli.train(toy, out=folder / "dldlf", **shared, folds="1", model="dldlf")
    agecli.train(toy, out=folder / "regression", **{**shared, "iterations": 10}, folds="1", model="regression")
    return folder


@pytest.fixture(scope="module")
def face(runs: Path, toy: Path) -> ExplainedFace:
    return explain(next((toy / "images").iterdir()), runs / "drf/fold-1/best.safetensors", no_detect=True)


def figure(draw: Callable[..., bytes], *data: Any) -> Figure:
    """What was drawn, before it became a file."""
    drawn = inspect.unwrap(draw)(*data)
    assert isinstance(drawn, Figure)
    return drawn


def kind_of(path: Path) -> str:
    return next(kind for kind, magic in MAGIC.items() if path.read_bytes().startswith(magic))


def test_leaves_of_two_models_are_drawn(cli: Cli, runs: Path, tmp_path: Path) -> None:
    done = cli("plot", "leaves", runs / "dldlf", runs / "drf/fold-1/best.safetensors", "-o", "here/two.pdf")
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert "wrote here/two.pdf" in done.stderr
    assert kind_of(tmp_path / "here/two.pdf") == "pdf"


def test_a_training_is_drawn_and_the_same_svg_twice(cli: Cli, runs: Path, tmp_path: Path) -> None:
    for name in ("a.svg", "b.SVG"):
        done = cli("plot", "history", runs / "drf", "-o", name)
        assert done.returncode == 0, done.stderr
    assert kind_of(tmp_path / "a.svg") == "svg"
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.SVG").read_bytes()


def test_cumulative_scores_of_two_runs_are_drawn(cli: Cli, runs: Path, tmp_path: Path) -> None:
    done = cli("plot", "cs", runs / "drf", runs / "dldlf")
    assert done.returncode == 0, done.stderr
    assert "wrote cs.png" in done.stderr
    assert kind_of(tmp_path / "cs.png") == "png"
    assert "not tested on the same faces" in done.stderr


def test_a_face_is_drawn(cli: Cli, toy: Path, tmp_path: Path, runs: Path) -> None:
    photo, model = next((toy / "images").iterdir()), runs / "dldlf/fold-1/best.safetensors"
    done = cli("plot", "distribution", photo, "--no-detect", "-m", model, "-q")
    assert done.returncode == 0, done.stderr
    assert (done.stdout, done.stderr) == ("", "")
    assert kind_of(tmp_path / "distribution.png") == "png"


@pytest.mark.parametrize(
    ("arguments", "code", "message", "hint"),
    [
        (("history", "RUNS/drf", "-o", "a.gif"), 2, "a.gif: a figure can't be written as `.gif`", ".png, .svg, .pdf"),
        (("leaves", "default", "-o", "a"), 2, "a: a figure can't be written as a file without a suffix", ".png"),
        (("history", "nowhere"), 3, "nowhere is no run folder", "agecli train"),
        (("cs", "RUNS/drf", "nowhere"), 3, "nowhere is no run folder", "agecli train"),
        (("leaves", "nowhere"), 3, "there is no run or checkpoint nowhere", "agecli train"),
        (("history", "RUNS/drf", "--fold", 7), 3, "has no history of fold 7", "there are: 1, 2"),
        (("distribution", "x.jpg", "-m", "m.onnx"), 2, "m.onnx is an ONNX graph", ".safetensors"),
    ],
)
def test_errors_are_two_lines(
    cli: Cli, runs: Path, tmp_path: Path, arguments: tuple[str, ...], code: int, message: str, hint: str
) -> None:
    done = cli("plot", *(str(argument).replace("RUNS", str(runs)) for argument in arguments))
    assert done.returncode == code
    first, second = done.stderr.splitlines()
    assert first.startswith("error: ")
    assert message in first
    assert second.startswith(" hint: ")
    assert hint in second
    assert list(tmp_path.iterdir()) == []


def test_errors_of_models_name_what_is_there(runs: Path, toy: Path) -> None:
    regression = runs / "regression/fold-1/best.safetensors"
    with pytest.raises(InputError, match="has no leaves"):
        read_leaves(find_source(runs / "regression"))
    with pytest.raises(InputError, match="has no leaves"):
        explain(next((toy / "images").iterdir()), regression, no_detect=True)
    with pytest.raises(InputError, match="has no tree 4") as caught:
        read_leaves(find_source(runs / "drf"), tree=TREES + 1)
    assert "3, numbered from 1" in caught.value.hint
    with pytest.raises(MissingError, match=r"fold 3 of .* is not there") as missing:
        find_source(runs / "drf", fold=3)
    assert missing.value.hint == "there are: 1, 2"
    with pytest.raises(InputError, match="there is no such file"):
        explain(toy / "nobody.jpg", runs / "drf/fold-1/best.safetensors")


def test_a_model_without_a_forest_still_has_a_history_and_scores(runs: Path) -> None:
    assert history(read_histories(runs / "regression"))
    assert cs_curve(read_runs([runs / "regression"]))


@pytest.mark.parametrize("model", ["drf", "dldlf"])
def test_each_leaf_is_a_line_of_its_own_colour(runs: Path, model: str) -> None:
    every, one = (read_leaves(find_source(runs / model), tree) for tree in (None, 2))
    axes = figure(leaf_figure.leaves, [every, one]).axes
    assert [len(panel.get_lines()) for panel in axes] == [TREES * LEAVES, LEAVES]
    distinct = len(np.unique(every.mean.round(6)))
    assert len({to_hex(line.get_color()) for line in axes[0].get_lines()}) >= distinct / 2  # the map has 256 colours
    assert np.array_equal(one.mean, every.mean[LEAVES : 2 * LEAVES])


@pytest.mark.parametrize("model", ["drf", "dldlf"])
def test_leaves_are_distributions(runs: Path, model: str) -> None:
    leaves = read_leaves(find_source(runs / model))
    between = (leaves.heights[:, 1:] + leaves.heights[:, :-1]) / 2 * np.diff(leaves.ages)
    sums = between.sum(1) if leaves.density else leaves.heights.sum(1)
    assert leaves.density == (model == "drf")
    assert sums == pytest.approx(np.ones(TREES * LEAVES), abs=1e-3)


def test_gaussian_leaves_are_those_of_the_checkpoint(runs: Path) -> None:
    forest: Any = load_checkpoint(runs / "drf/fold-2/best.safetensors").model.forest
    leaves = read_leaves(find_source(runs / "drf", fold=2))
    assert leaves.mean == pytest.approx(forest.mean.flatten().numpy())
    peak = 1 / np.sqrt(2 * np.pi * forest.variance.flatten().numpy())
    assert leaves.heights.max(1) == pytest.approx(peak, rel=1e-5)


def test_a_very_sharp_leaf_is_scaled_and_the_label_says_so() -> None:
    heights = np.array([[0.0, 0.1, 0.0], [0.0, 0.12, 0.0], [0.0, 9.0, 0.0]])
    leaves = Leaves("DRF", "x", True, np.tile([19.0, 20.0, 21.0], (3, 1)), heights, np.full(3, 20.0), AgeGrid())
    (axes,) = figure(leaf_figure.leaves, [leaves]).axes
    assert max(np.max(line.get_ydata()) for line in axes.get_lines()) == pytest.approx(leaf_figure.SHARP * 0.11)
    assert "1 peak scaled to 0.44" in axes.get_ylabel()


def test_the_histogram_is_of_the_training_part(runs: Path, toy: Path) -> None:
    source = find_source(runs / "drf", fold=2)
    manifest, folds = read_faces(open_run(runs / "drf"))
    known = read_ages([source], AgeGrid())
    assert known is not None
    assert sorted(known) == sorted(manifest.samples[index].age for index in folds[1].train)
    top = figure(leaf_figure.leaves, [read_leaves(source)], known).axes[0]
    assert sum(bar.get_height() for bar in top.patches if isinstance(bar, Rectangle)) == len(known)
    inside = read_ages([find_source(runs / "drf/fold-2/best.safetensors")], AgeGrid())
    assert np.array_equal(known, inside if inside is not None else [])


def test_a_checkpoint_alone_has_a_histogram_only_of_given_faces(runs: Path, toy: Path, tmp_path: Path) -> None:
    shutil.copy(runs / "drf/fold-1/best.safetensors", tmp_path / "alone.safetensors")
    source = find_source(tmp_path / "alone.safetensors")
    leaves = read_leaves(source)
    assert read_ages([source], leaves.grid) is None
    assert len(figure(leaf_figure.leaves, [leaves]).axes) == 1
    given = read_ages([source], leaves.grid, toy)
    assert given is not None
    assert len(given) == 120


def test_a_run_whose_faces_are_gone_is_drawn_without_them(
    runs: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.copytree(runs / "drf", tmp_path / "moved")
    about = (tmp_path / "moved/environment.json").read_text()
    (tmp_path / "moved/environment.json").write_text(about.replace("toy", "elsewhere"))
    with caplog.at_level("WARNING", logger="agecli"):
        assert read_ages([find_source(tmp_path / "moved")], AgeGrid()) is None
    assert "--data DIR" in caplog.text


def test_a_history_without_validation_fills_the_page(runs: Path) -> None:
    fold = read_histories(runs / "drf")[1]
    fold["val_mae"] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of a layout that can't be made
        drawing = figure(history, {1: fold, 2: fold})
        drawing.canvas.draw()
    left, right = drawing.axes[2:]
    assert right.get_legend_handles_labels()[1] == ["training"]
    assert left.get_position().width > 0.35


def test_a_history_has_a_line_for_each_fold(runs: Path) -> None:
    both, one = read_histories(runs / "drf"), read_histories(runs / "drf", fold=2)
    assert (list(both), list(one)) == ([1, 2], [2])
    assert np.isfinite(both[1]["val_mae"]).sum() == 3  # at iterations 10, 20 and 30
    loss = figure(history, both).axes[0]
    drawn = [line.get_ydata() for line in loss.get_lines() if len(np.asarray(line.get_xdata()))]
    assert len(drawn) == 4  # loss and nll
    assert np.array_equal(drawn[1], both[2]["loss"].dropna())


def test_the_scores_of_a_run_are_of_all_its_folds(runs: Path, tmp_path: Path) -> None:
    parts = [read_predictions(runs / f"drf/fold-{number}") for number in (1, 2)]
    hits = np.concatenate([within(part, 5) for part in parts if part])
    (pooled,) = read_runs([runs / "drf"]).values()
    assert within(pooled, 5).mean() == hits.mean()
    shutil.copytree(runs / "drf/fold-1", tmp_path / "evaluated")
    (alone,) = read_runs([tmp_path / "evaluated"]).values()
    assert len(alone) < len(pooled)
    shutil.copytree(runs / "drf", tmp_path / "cut")
    (tmp_path / "cut/fold-2/distributions.npz").unlink()
    with pytest.raises(MissingError, match="fold-2 has no whole") as caught:
        read_runs([tmp_path / "cut"])
    assert "agecli evaluate" in caught.value.hint


def test_the_weighted_leaves_of_a_face_add_up_to_what_is_predicted(face: ExplainedFace, runs: Path, toy: Path) -> None:
    assert face.weights.sum() == pytest.approx(1)
    assert face.parts.sum(0) == pytest.approx(face.pmf)
    model = runs / "drf/fold-1/best.safetensors"
    (record,) = agecli.predict(next((toy / "images").iterdir()), model=model, no_detect=True, distribution=True)
    assert face.pmf == pytest.approx(record.distribution, abs=1e-5)
    assert (face.age, *face.interval) == (record.age, record.low, record.high)
    assert len(face.names) == TREES * LEAVES
    assert face.names[LEAVES] == "tree 2, leaf 1"


def test_the_heaviest_leaves_are_named(face: ExplainedFace) -> None:
    corner = figure(face_figure.distribution, face).axes[3]
    legend = corner.get_legend()
    assert legend is not None
    named = [text.get_text() for text in legend.get_texts()]
    heaviest = face.names[int(face.weights.argmax())]
    assert len(named) == face_figure.NAMED
    assert heaviest in named[0]


@pytest.mark.parametrize("kind", MAGIC)
def test_each_figure_is_the_same_bytes_twice_in_each_kind(runs: Path, face: ExplainedFace, kind: str) -> None:
    panels = [read_leaves(find_source(runs / model), 1) for model in ("drf", "dldlf")]
    for draw, data in (
        (leaf_figure.leaves, (panels, np.array([3.0, 40.0]))),
        (history, (read_histories(runs / "drf"),)),
        (face_figure.distribution, (face,)),
        (cs_curve, (read_runs([runs / "drf"]),)),
    ):
        content = draw.render(kind, *data)
        assert content.startswith(MAGIC[kind])
        assert content == draw.render(kind, *data)
        if kind == "svg":
            assert ElementTree.fromstring(content).tag.endswith("svg")


def test_a_png_is_good_enough_to_print(face: ExplainedFace) -> None:
    content = face_figure.distribution.render("png", face)
    width = int.from_bytes(content[16:20], "big")
    assert width / TEXT_WIDTH >= 200
