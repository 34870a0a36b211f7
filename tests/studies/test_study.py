"""Studies: the paper's experiments, small, through the real command; a kill in the middle changes nothing."""

from __future__ import annotations

import dataclasses
import json
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

import agecli
from agecli.cli.study import _table
from agecli.core.config import Config, check, implied, replace
from agecli.core.errors import InputError
from agecli.core.files import read_csv
from agecli.forest.routing import entropy
from agecli.model.checkpoint import load_checkpoint
from agecli.studies.cells import ANY_SETUP, STUDIES, find_study
from agecli.studies.figures import draw
from agecli.studies.listener import StudyListener
from agecli.studies.paper import ABLATION, BENCHMARKS
from agecli.studies.seeds import average_rows, confidence_interval
from agecli.studies.study import Outcome, study
from agecli.studies.tables import _more_rows, _ranges, cacd_table
from agecli.training.inputs import make_inputs
from agecli.training.run_folder import open_run, read_faces
from tests.conftest import Cli, invoke

SMALL = (
    *("--setup", "subject", "--weights", "none", "--freeze", "--iterations", "60", "--batch-size", "16"),
    *("--set", "data.folds=2", "--set", "data.size=32", "--set", "training.eval_every=60"),
    *("--set", "forest.update_every=20"),
)


def run_study(*arguments: object, code: int = 0) -> str:
    """Run `agecli study`, check its exit code, and return its output: stdout, or stderr if it fails."""
    done = invoke("study", *arguments)
    assert done.exit_code == code, done.stderr
    return done.stderr if code else done.stdout


@pytest.mark.parametrize("name", STUDIES)
def test_every_cell_is_a_run_that_can_be_asked_for(name: str) -> None:
    study = find_study(name, "lopo")
    names = [cell.name for cell in study.cells]
    assert len(set(names)) == len(names) > 1
    assert study.reference in names
    for cell in study.cells:
        check(replace(Config(), {**implied(cell.settings), **cell.settings}))
    assert len({json.dumps(dict(cell.settings), sort_keys=True) for cell in study.cells}) == len(names)


def test_the_rows_of_the_ablation_are_those_of_the_paper() -> None:
    """T_0, tau_0, the start of the leaves, and what its table prints, copied by hand."""
    expected = {
        "dndf": ("dndf", 0, 1, "uniform", 3.32, 0.807),
        "regression": ("regression", 0, 1, "uniform", 3.21, 0.811),
        "drf-nrf": ("drf-nrf", 0, 1, "kmeans", 3.51, 0.754),
        "dldlf-T0": ("dldlf", 0, 1, "uniform", 3.02, 0.813),
        "dldlf": ("dldlf", 1, 1, "uniform", 2.94, 0.847),
        "drf-T0-tau1-kmeans": ("drf", 0, 1, "kmeans", 2.91, 0.829),
        "drf-T0-tau1": ("drf", 0, 1, "uniform", 6.91, 0.478),
        "drf-tau1-kmeans": ("drf", 1, 1, "kmeans", 2.85, 0.839),
        "drf-T0": ("drf", 0, 0.5, "uniform", 2.85, 0.841),
        "drf": ("drf", 1, 0.5, "uniform", 2.80, 0.856),
    }
    names = ("model", "forest.split_temperature", "forest.leaf_temperature", "forest.leaf_init")
    cells = find_study("ablation", "I").cells
    found = {cell.name: (*(cell.settings[n] for n in names), cell.paper_mae, cell.paper_cs5) for cell in cells}
    assert found == expected
    for _, rows in BENCHMARKS.values():  # the paper's own two are the best of each of its tables
        assert [row.method for row in sorted(rows, key=lambda row: row.mae)][:2] == ["DRF", "DLDLF"]


def start(*arguments: object, cwd: Path) -> subprocess.Popen[str]:
    """As from a terminal, where Ctrl-C is heard, also if the tests themselves run in the background."""
    command = [sys.executable, "-m", "agecli", "study", *map(str, arguments)]
    return subprocess.Popen(
        command,
        cwd=cwd,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def wait_for(pattern: str, count: int, study: subprocess.Popen[str], folder: Path) -> list[Path]:
    found: list[Path] = []
    while len(found) < count and study.poll() is None:
        time.sleep(0.02)
        found = list(folder.glob(pattern))
    return found


@pytest.mark.slow
def test_ablation_killed_in_the_middle_and_resumed_is_the_same_table(cli: Cli, toy: Path, tmp_path: Path) -> None:
    """Two cells are cut off in a fold, between two of its saved states, and go on from these."""
    saving = ("--set", "training.save_every=0", "--data", toy, *SMALL)
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    run_study("ablation", *saving, "--out", whole)
    killed = start("ablation", *saving, "--out", cut, "--jobs", "2", cwd=tmp_path)
    wait_for("runs/*/report.csv", 2, killed, cut)
    wait_for("runs/*/fold-*/state.safetensors", 1, killed, cut)
    killed.kill()
    killed.wait()
    finished = list(cut.glob("runs/*/report.csv"))
    assert 2 <= len(finished) < 10
    before = {file: file.stat().st_mtime_ns for file in finished}
    done = cli("study", "ablation", "--resume", "--out", cut)
    assert done.returncode == 0, done.stderr
    assert (cut / "study.csv").read_bytes() == (whole / "study.csv").read_bytes()
    assert {file: file.stat().st_mtime_ns for file in finished} == before  # no finished cell was run again
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["cell"] for row in rows] == list(ABLATION)
    assert rows[-1]["difference"] is None  # the reference itself
    assert all(row["mae_low"] <= row["mae"] <= row["mae_high"] for row in rows)
    assert (cut / "ablation.png").read_bytes()[:4] == b"\x89PNG"
    assert (cut / "ablation.svg").read_bytes() == (whole / "ablation.svg").read_bytes()
    assert not list(cut.glob("runs/*/fold-2/*.safetensors"))
    assert list(cut.glob("runs/*/fold-1/best.safetensors"))
    refused = invoke("evaluate", cut / "runs/drf")
    assert refused.exit_code == 3
    assert "run it with --keep" in refused.stderr


@pytest.mark.slow
def test_ctrl_c_stops_all_cells_and_says_how_to_resume(toy: Path, tmp_path: Path) -> None:
    long = [word if word != "60" else "100000" for word in SMALL]
    study = start("benchmark", "--data", toy, *long, "--out", "study", "--jobs", "2", cwd=tmp_path)
    wait_for("study/runs/*/config.toml", 2, study, tmp_path)
    study.send_signal(signal.SIGINT)
    try:
        _, words = study.communicate(timeout=120)
    finally:
        study.kill()  # one that did not stop would go on for hours
    assert study.returncode == 130, words
    assert "agecli study benchmark --resume --out study" in words
    assert not list(tmp_path.glob("study/runs/*/report.csv"))


@pytest.mark.slow
def test_a_corrected_command_works_and_a_study_resumes_from_any_folder(toy: Path, tmp_path: Path) -> None:
    """With the paper's preset, another backbone than its own, and a file that is named from where one is."""
    there = ("--out", tmp_path / "study")
    run_study("alpha", "--data", tmp_path / "nowhere", *SMALL, *there, code=3)
    assert "unknown setting" in run_study("alpha", "--data", toy, "--set", "forest.tree=3", *there, code=2)
    lender: dict[str, Any] = {"iterations": 20, "freeze": True, "weights": "none", "settings": {"data.size": 32}}
    agecli.train(toy, out=tmp_path / "lender", **lender)
    lent = ("--preset", "paper", "--weights", "lender/fold-1/best.safetensors", "--freeze", "--iterations", "50")
    cut = start("benchmark", "--data", toy, *lent, "--lr", "0.001", "--out", "study", cwd=tmp_path)
    wait_for("study/runs/dldlf/config.toml", 1, cut, tmp_path)
    cut.kill()
    cut.wait()
    (tmp_path / "elsewhere").mkdir()
    command = [sys.executable, "-m", "agecli", "study", "benchmark", "--resume", "--out", "../study"]
    again = subprocess.run(command, cwd=tmp_path / "elsewhere", capture_output=True, text=True, timeout=300)
    assert again.returncode == 0, again.stderr
    assert [row["cell"] for row in read_csv(tmp_path / "study/study.csv")][:2] == ["dldlf", "drf"]
    assert "the paper has no table for the setup random" in again.stderr


@pytest.mark.slow
def test_other_options_for_a_study_that_was_begun_are_refused(toy: Path, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "study")
    words = ("--data", toy, *SMALL, "--folds", "1")
    run_study("alpha", *words, *out)
    rows = read_csv(tmp_path / "study/study.csv")
    assert [float(row["x"]) for row in rows] == [0, 0.5, 1, 2, 3, 4, 6, 8, 10]
    assert "holds a study already" in run_study("alpha", *out, code=2)
    assert "training.lr: None then, 0.5 now" in run_study("alpha", *out, "--resume", "--lr", "0.5", code=2)
    assert "study: alpha then, depth now" in run_study("depth", *out, "--resume", code=2)
    run_study("alpha", *words, *out, "--resume")  # the same words go on with it


@pytest.mark.slow
def test_options_are_kept_also_before_the_first_cell_is_begun(toy: Path, tmp_path: Path) -> None:
    out = tmp_path / "study"
    study = ("alpha", "--out", out)
    run_study(*study, "--data", tmp_path / "later", *SMALL, "--folds", "1", code=3)  # the data are not there yet
    shutil.copytree(toy, tmp_path / "later")
    run_study(*study, "--resume", "--iterations", "20", "--jobs", "2")
    plan = json.loads((out / "study.json").read_text())["plan"]
    assert plan["data"] == str(tmp_path / "later")
    assert (plan["folds"], plan["settings"]["data.setup"], plan["settings"]["training.iterations"]) == (
        "1",
        "subject",
        20,
    )


@pytest.mark.slow
def test_cells_on_other_weights_are_not_put_beside_those_there(toy: Path, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "study")
    run_study("benchmark", "--data", toy, *SMALL, "--folds", "1", *out)
    about = tmp_path / "study/runs/dldlf/environment.json"
    about.write_text(about.read_text().replace('"backbone_sha256": "', '"backbone_sha256": "0'))
    assert "are not the weights that" in run_study("benchmark", *out, "--resume", code=2)


@pytest.mark.slow
def test_cells_get_the_options_of_train_and_their_folds_are_counted_while_other_processes_train(
    toy: Path, tmp_path: Path
) -> None:
    seen: list[tuple[int, int]] = []

    class Counting(StudyListener):
        def folds_finished(self, done: int, total: int) -> None:
            seen.append((done, total))

    small: dict[str, Any] = {"iterations": 40, "freeze": True, "weights": "none", "setup": "subject"}
    settings = {"data.size": 32, "data.folds": 3}
    left_out = sorted(path.name for path in (toy / "images").iterdir())[::10]
    (tmp_path / "bad.txt").write_text("\n".join(left_out))
    small |= {"settings": settings, "exclude": tmp_path / "bad.txt"}
    outcome = study("benchmark", toy, out=tmp_path / "s", jobs=2, listener=Counting(), **small)
    assert seen[-1] == (6, 6)
    assert [row["images"] for row in outcome.rows[:2]] == [120 - len(left_out)] * 2


def test_a_setting_that_a_study_varies_can_not_be_set(toy: Path, tmp_path: Path) -> None:
    words = ("--data", toy, "--out", tmp_path / "study")
    assert "varies forest.depth itself" in run_study("depth", *words, "--set", "forest.depth=3", code=2)
    assert "there is no study `breadth`" in run_study("breadth", *words, code=2)
    assert "take its backbone alone" in run_study("phi", *words, "--set", "init=default", code=2)
    assert "no leaf update" in run_study("entropy", *words, "--iterations", "40", code=2)
    assert "there is no study in" in run_study("phi", *words, "--resume", code=3)
    assert not (tmp_path / "study").exists()


@pytest.mark.slow
def test_a_cell_that_fails_does_not_stop_the_others(toy: Path, tmp_path: Path) -> None:
    """Steps far too large."""
    wild = ("--set", "training.optimiser=sgd", "--lr", "1e30", "--set", "training.clip_norm=0", "--folds", "1")
    words = run_study("benchmark", "--data", toy, *SMALL, *wild, "--out", tmp_path / "study", code=1)
    assert "is not a number" in words
    assert "2 cell(s) failed: dldlf, drf" in words


def _row(cell: str, **more: object) -> dict[str, object]:
    return {"cell": cell, "label": cell, "mae": 3.0, "mae_low": 2.8, "mae_high": 3.3, "paper_mae": None, **more}


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_has_a_figure_and_the_same_rows_give_the_same_bytes(name: str) -> None:
    study = find_study(name, "lopo")
    rows = [_row(cell.name, group=cell.group, x=cell.x) for cell in study.cells]
    if name == "entropy":
        rows = [
            {"cell": cell.name, "label": cell.label, "group": cell.group, "iteration": i, "entropy": 3.0 - i / 100}
            for cell in study.cells
            for i in (50, 100)
        ]
    if name == "phi":
        rows += [_row("mean"), _row("std", mae=0.02)]
    one, two = (draw(study, rows, "lopo", "svg") for _ in range(2))
    assert one == two
    assert b"<svg" in one


def test_a_study_that_is_not_there() -> None:
    with pytest.raises(InputError, match="there is no study `x`"):
        find_study("x", "I")


def test_several_seeds_have_one_figure_with_their_spread() -> None:
    tables = [
        [{"cell": "a", "label": "α", "group": "DLDLF", "x": 1.0, "mae": mae, "cs5": 0.5, "difference": mae - 3}]
        for mae in (3.0, 5.0)
    ]
    (row,) = average_rows(tables)
    assert (row["mae"], row["mae_std"], row["difference_std"], row["seeds"]) == (4, 1.4142, 1.4142, 2)
    assert draw(find_study("alpha", "random"), [row], "random", "png").startswith(b"\x89PNG")
    svg = draw(find_study("ablation", "random"), [row], "random", "svg").decode()
    assert "std over seeds" in svg
    assert "95 % CI" not in svg


def test_the_range_over_the_starts_is_the_largest_difference_for_each_kind_of_annealing() -> None:
    cells = find_study("initialisation", "random").cells
    rows = [{"x": cell.x, "train_nll": float(n), "test_nll": 2.0 * n, "mae": 3.0} for n, cell in enumerate(cells)]
    ranges = _ranges(rows)
    assert [row["label"] for row in ranges][::3] == [
        "range over 5 starts, no annealing",
        "range over 5 starts, T and τ",
    ]
    assert [(row["train_nll"], row["test_nll"], row["mae"]) for row in ranges] == [(4, 8, 0)] * 4


def test_a_confidence_interval_over_seeds_is_student_s() -> None:
    low, high = confidence_interval(3.0, 0.3, 3)
    assert high - 3 == pytest.approx(4.3027 * 0.3 / 3**0.5, abs=1e-4)
    assert low + high == pytest.approx(6)


@pytest.mark.slow
def test_the_study_of_starts_measures_the_training_parts(
    toy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = find_study("initialisation", "random")
    some = dataclasses.replace(
        whole, cells=tuple(cell for cell in whole.cells if cell.group in ("narrow", "quantiles"))
    )
    some = dataclasses.replace(some, cells=some.cells[-2:])  # with both kinds of annealing
    monkeypatch.setitem(ANY_SETUP, "initialisation", lambda: some)
    run_study("initialisation", "--data", toy, *SMALL, "--folds", "1", "--out", tmp_path / "s")
    rows = read_csv(tmp_path / "s/study.csv")
    assert [row["cell"] for row in rows] == ["quantiles-T1-tau0.5", "narrow-T1-tau0.5", "range-3"]
    assert float(rows[2]["train_nll"]) == pytest.approx(
        abs(float(rows[0]["train_nll"]) - float(rows[1]["train_nll"])), abs=2e-4
    )
    run = tmp_path / "s/runs/narrow-T1-tau0.5"
    trained = {row["path"] for row in read_csv(run / "splits.csv") if (row["fold"], row["part"]) == ("1", "train")}
    (tmp_path / "others.txt").write_text("".join(f"{name}\n" for name in all_names(toy) if name not in trained))
    (again,) = agecli.evaluate(
        run / "fold-1/best.safetensors", data=toy, exclude=tmp_path / "others.txt", out=tmp_path / "e"
    )
    assert again.metrics.nll == pytest.approx(float(read_csv(run / "fold-1/training.csv")[0]["nll"]), abs=1e-4)


def all_names(folder: Path) -> list[str]:
    """The pictures of a data folder, as its table names them."""
    return [row["path"] for row in read_csv(folder / "labels.csv")]


def test_phi_takes_the_number_of_forests() -> None:
    assert len(find_study("phi", "random").cells) == 20
    assert len(find_study("phi", "random", 50).cells) == 50
    for name, number in (("phi", 1), ("trees", 50)):
        with pytest.raises(InputError, match="--forests"):
            find_study(name, "random", number)


def test_values_that_the_paper_read_from_curves_keep_their_star() -> None:
    starred = {setup: [row.method for row in printed if row.read] for setup, (_, printed) in BENCHMARKS.items()}
    assert starred["I"] == ["Human workers", "AGES", "MTWGP", "DLA"]
    assert starred["II"] == ["IIS-LDL", "OR-SVM", "CCA", "LSVR"]
    assert len(starred["lopo"]) == 8
    assert starred["III"] == starred["cacd-train"] == []
    rows = [row for row in _more_rows(find_study("benchmark", "lopo"), [], "lopo") if row["paper_read"]]
    assert [row["label"] for row in rows][:2] == ["Human workers (FG-NET)", "Rank (FG-NET)"]
    outcome = Outcome(find_study("benchmark", "lopo"), "lopo", Path(), rows, {})
    shown, _ = _table("benchmark", outcome, "table")
    assert shown[0]["paper_cs5"] == "69.5%*"


def test_cacd_is_one_table_of_both_training_sets() -> None:
    rows = [
        {"cell": f"{model}-{part}", "mae": mae, "mae_low": mae - 1, "mae_high": mae + 1}
        for model, part, mae in (
            ("drf", "train", 4.5),
            ("dldlf", "train", 4.6),
            ("drf", "val", 5.5),
            ("dldlf", "val", 6),
        )
    ]
    train, val = cacd_table(rows)
    assert train["trained"] == "CACD (train)"
    assert (train["DEX (paper)"], train["DLDLF"], train["DRF"], train["DRF (paper)"]) == (4.785, 4.6, 4.5, 4.61)
    assert (val["DEX (paper)"], val["DLDLF"], val["DRF"], val["DLDLF (paper)"]) == (6.521, 6, 5.5, 6.162)


def test_the_entropy_of_a_study_is_over_the_whole_training_part(toy: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"freeze": True, "weights": "none", "setup": "subject", "folds": "1", "select": "last"}
    settings = {"data.size": 32, "forest.update_every": 2, "data.val_share": 0, "training.full_entropy": True}
    report = agecli.train(toy, out=tmp_path / "r", iterations=4, batch_size=8, lr=1e-9, settings=settings, **options)
    model = load_checkpoint(report.run / "fold-1/best.safetensors").model
    run = open_run(report.run)
    manifest, folds = read_faces(run)
    inputs = make_inputs(model, run.config, manifest, torch.device("cpu"))
    with torch.no_grad():
        H = entropy(model.forest.route(inputs.units(model, folds[0].train).values)).mean()
    assert float(read_csv(report.run / "fold-1/history.csv")[-1]["entropy"]) == pytest.approx(float(H), abs=1e-5)
