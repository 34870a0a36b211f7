"""The tables of `evaluate` fit a terminal and say what each rate is a share of."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from agecli.evaluation.evaluate import Result
from agecli.reports.evaluation_tables import write_evaluation
from agecli.scoring.comparison import compare
from agecli.scoring.groups import breakdown
from tests.reports.figures.test_accuracy import predictions_of

AGES = (18.0, 25.0)


def result(model: str, spread: float, folder: Path, known: bool = True) -> Result:
    faces = predictions_of(400, spread=spread, known=known)  # 33 people of each sex
    return Result(model, Path(model).stem, folder, folder, faces, breakdown(faces, AGES), 0.25, {})


def written(form: str, folder: Path, known: bool = True) -> str:
    results = [result("runs/drf-subject", 4, folder, known), result("runs/dldlf-subject", 9, folder, known)]
    wholes = {one.model: one for one in results}
    stream = io.StringIO()
    comparison = compare({name: one.predictions for name, one in wholes.items()})
    write_evaluation(results, wholes, comparison, AGES, form, stream)
    return stream.getvalue()


@pytest.mark.parametrize("known", [True, False])
def test_no_line_is_longer_than_100_characters(tmp_path: Path, known: bool) -> None:
    text = written("table", tmp_path, known)
    assert max(map(len, text.splitlines())) <= 100, [line for line in text.splitlines() if len(line) > 100]
    assert f"95 % CI over {'people' if known else 'photos'}" in text
    assert "(few)" in text
    assert "under 18, accepted at predicted age >= " in text
    assert ("largest gap by sex" in text) == known
    assert "compliant" not in text


def test_programs_get_every_count(tmp_path: Path) -> None:
    header, first, *_ = written("csv", tmp_path).splitlines()
    row = dict(zip(header.split(","), first.split(","), strict=True))
    assert row["cs5_of"] == row["images"] == "400"
    assert float(row["cs5"]) == pytest.approx(int(row["cs5_count"]) / 400, abs=1e-4)
    assert int(row["fpr_18_of"]) + int(row["fnr_18_of"]) == 400
    assert {"balanced_mae", "nist_mae", "nist_cells", "error_std", "rmse", "ccc", "over"} <= set(row)


def test_latex_has_a_row_for_each_model_and_the_best_in_bold(tmp_path: Path) -> None:
    lines = written("latex", tmp_path).splitlines()
    assert r"\toprule" in lines
    (better,) = (line for line in lines if line.startswith("runs/drf"))
    (worse,) = (line for line in lines if line.startswith("runs/dldlf"))
    assert r"\textbf{" in better
    assert r"\textbf{" not in worse
