"""Comparison of models on the faces that all of them were tested on, by a paired bootstrap over subjects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from agecli.core.errors import InputError
from agecli.scoring import bootstrap
from agecli.scoring.metrics import Predictions, measure, pick, tidy

DIFFERENCE_COLUMNS = ("difference", "difference_low", "difference_high", "p")
Face = tuple[str, float, str, int]  # path, age, subject, and the how-manieth prediction of that face it is


def compare(models: Mapping[str, Predictions]) -> list[dict[str, Any]]:
    """MAE and CS@5 of each model on the faces that all have in common, and the difference in MAE to the first model.

    The bootstrap draws the same subjects for all models, so that the difference is paired by face.

    models: the predictions of each model, by its name
    Returns a row for each model, rounded: `model`, `images`, `mae` in years, `cs5`, `mae_low` and `mae_high` (95 % CI),
    and for all but the first `DIFFERENCE_COLUMNS`.
    Raises InputError if the models have no face in common.
    Example: `compare({"drf": one, "dldlf": two})[1]["p"]`
    """
    shared = on_common_faces(models)
    people = bootstrap.subject_ids(next(iter(shared.values())).samples)
    errors = np.stack([np.abs(predictions.error) for predictions in shared.values()], axis=1)  # (n, models)
    draws = bootstrap.resampled_means(errors, np.ones_like(errors), people)  # (R, models)
    low, high = bootstrap.percentile_interval(draws)
    rows: list[dict[str, Any]] = []
    for place, (name, predictions) in enumerate(shared.items()):
        metrics = measure(predictions)
        row: dict[str, Any] = {"model": name, "images": len(predictions), "mae": metrics.mae, "cs5": metrics.cs5}
        row |= {"mae_low": float(low[place]), "mae_high": float(high[place])}
        if place:
            difference = draws[:, place] - draws[:, 0]
            ends = bootstrap.percentile_interval(difference[:, None])
            row |= {"difference": metrics.mae - rows[0]["mae"], "p": bootstrap.two_sided_p(difference)}
            row |= {"difference_low": float(ends[0][0]), "difference_high": float(ends[1][0])}
        rows.append(row)
    return [{name: tidy(value) for name, value in row.items()} for row in rows]


def on_common_faces(models: Mapping[str, Predictions]) -> dict[str, Predictions]:
    """The predictions of each model for the faces that all have in common, in the same order.

    Raises InputError if there are none.
    """
    places = {name: _places(predictions) for name, predictions in models.items()}
    common = sorted(set.intersection(*(set(faces) for faces in places.values())))
    if not common:
        raise InputError(
            f"{' and '.join(models)} were tested on no face in common",
            hint="measure them on the same faces: --data DIR, or runs with the same --setup and --seed",
        )
    return {name: pick(predictions, [places[name][face] for face in common]) for name, predictions in models.items()}


def _places(predictions: Predictions) -> dict[Face, int]:
    """The index of each face. Paths alone are not unique: other data sets have the same, and folds may overlap."""
    times: Counter[tuple[str, float, str]] = Counter()
    places: dict[Face, int] = {}
    for place, sample in enumerate(predictions.samples):
        face = (sample.path, sample.age, sample.subject)
        times[face] += 1
        places[(*face, times[face])] = place
    return places
