"""Result files: what is written is read back, unless it was made from something else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from agecli.core.files import read_csv
from agecli.core.records import Sample
from agecli.scoring.groups import GROUP_COLUMNS
from agecli.scoring.metrics import Predictions
from agecli.training.results import read_predictions, write_pooled, write_predictions, write_results
from tests.scoring.test_groups import FACES
from tests.scoring.test_metrics import GRID, random_pmf


def test_predictions_are_read_back_unless_they_came_from_something_else(tmp_path: Path) -> None:
    samples = [Sample("a.jpg", 20.0, "x", "F", "Black"), Sample("b.jpg", 31.5)]
    whole = Predictions.from_pmf(random_pmf(0, 2).astype(np.float32), samples, "median", GRID)
    write_predictions(tmp_path, whole, {"checkpoint": "1"})
    back = read_predictions(tmp_path, {"checkpoint": "1"})
    assert back is not None
    assert back.samples == tuple(samples)
    assert np.array_equal(back.pmf, whole.pmf)
    assert back.predicted == pytest.approx(whole.predicted, abs=1e-4)
    assert read_predictions(tmp_path, {"checkpoint": "2"}) is None
    (tmp_path / "distributions.npz").write_bytes(b"no")
    assert read_predictions(tmp_path) is None


def test_several_folds_are_written_as_one_with_the_fold_of_each_row(tmp_path: Path) -> None:
    write_pooled(tmp_path, {"1": FACES, "2": FACES})
    assert [row["fold"] for row in read_csv(tmp_path / "predictions.csv")] == ["1"] * 6 + ["2"] * 6
    assert read_csv(tmp_path / "metrics.csv")[0]["images"] == "12"


def test_metrics_csv_begins_with_all_faces(tmp_path: Path) -> None:
    write_results(tmp_path, FACES, {})
    rows = read_csv(tmp_path / "metrics.csv")
    assert list(rows[0]) == list(GROUP_COLUMNS)
    assert (rows[0]["by"], rows[0]["images"]) == ("all", "6")
    assert float(rows[0]["mae_low"]) <= float(rows[0]["mae"]) <= float(rows[0]["mae_high"])
