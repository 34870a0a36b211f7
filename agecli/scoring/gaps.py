"""Gaps between groups: the largest difference in MAE or bias among sexes, races and their crossings, with its 95 % CI."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from agecli.scoring import bootstrap
from agecli.scoring.groups import SMALL, groups
from agecli.scoring.metrics import Predictions, tidy

GAP_KINDS = ("sex", "race", "sex x race")
GAP_COLUMNS = (
    *("by", "metric", "group", "other", "value", "other_value", "images", "other_images"),
    *("difference", "difference_low", "difference_high", "p", "pairs"),
)


def largest_gaps(predictions: Predictions) -> list[dict[str, Any]]:
    """For each kind of group, and for MAE and bias, the two groups that differ most; the rows of gaps.csv, rounded.

    The bootstrap resamples people and recomputes the difference of these two groups. The pair is the largest of `pairs`,
    so its interval is too optimistic: with k pairs, divide 0.05 by k and compare p with that (Bonferroni).

    Groups of fewer than SMALL people are left out. Example: `largest_gaps(predictions)[0]["difference"]`
    """
    people = bootstrap.subject_ids(predictions.samples)
    kinds: dict[str, dict[str, Any]] = {}
    for by, name, faces in groups(predictions):
        if by in GAP_KINDS and len(np.unique(people[faces])) >= SMALL:
            member = np.zeros(len(predictions))
            member[faces] = 1
            kinds.setdefault(by, {})[name] = member
    rows = []
    for by, members in kinds.items():
        if len(members) < 2:
            continue
        weights = np.stack([*members.values()], axis=1)  # (n, groups)
        for metric, values in (("mae", np.abs(predictions.error)), ("bias", predictions.error)):
            draws = bootstrap.resampled_means(values[:, None] * weights, weights, people)  # (R, groups)
            means = (values[:, None] * weights).sum(0) / weights.sum(0)
            rows.append({"by": by, "metric": metric, **_largest([*members], means, weights.sum(0), draws)})
    return rows


def _largest(names: list[str], means: Any, counts: Any, draws: Any) -> dict[str, Any]:
    """The row of the two groups that differ most; the first of them has the larger value.

    means, counts: (groups,); draws: (R, groups)
    """
    worst, best = int(np.argmax(means)), int(np.argmin(means))
    difference = draws[:, worst] - draws[:, best]
    low, high = bootstrap.percentile_interval(difference[:, None])
    row = {
        "group": names[worst],
        "other": names[best],
        "value": float(means[worst]),
        "other_value": float(means[best]),
        "images": int(counts[worst]),
        "other_images": int(counts[best]),
        "difference": float(means[worst] - means[best]),
        "difference_low": float(low[0]),
        "difference_high": float(high[0]),
        "p": bootstrap.two_sided_p(difference),
        "pairs": len(list(combinations(names, 2))),
    }
    return {name: tidy(value) for name, value in row.items()}
