"""Models are compared face by face, on the faces that all were tested on."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from agecli.core.ages import AgeGrid
from agecli.core.errors import InputError
from agecli.core.records import Sample
from agecli.scoring.comparison import compare
from agecli.scoring.metrics import Predictions


def predictions_of(paths: str, error: float) -> Predictions:
    """Faces of 30 years, one for each letter, all predicted with the same error in years."""
    samples = tuple(Sample(path, 30.0, path) for path in paths)
    ages = np.full(len(paths), 30.0 + error)
    pmf = np.full((len(paths), 121), 1 / 121, np.float32)
    return Predictions(samples, pmf, AgeGrid(), ages, ages, ages - 9, ages + 9, calibrated=False)


def test_a_comparison_goes_by_the_faces_that_all_models_were_tested_on() -> None:
    rows = compare({"one": predictions_of("abcdee", 2), "two": predictions_of("edcb", -5)})
    assert [row["images"] for row in rows] == [4, 4]  # e was tested twice by one of them, and once by the other
    assert rows[1]["difference"] == 3
    other = compare({"one": predictions_of("abcdee", 2), "two": predictions_of("edcb", -5)})
    assert other == rows
    older = dataclasses.replace(predictions_of("ab", 1), samples=tuple(Sample(path, 50.0, path) for path in "ab"))
    with pytest.raises(InputError, match="no face in common"):  # other faces under the same names
        compare({"one": predictions_of("ab", 1), "two": older})
    with pytest.raises(InputError, match="no face in common"):
        compare({"one": predictions_of("ab", 1), "two": predictions_of("cd", 1)})
