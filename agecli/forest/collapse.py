"""Collapsed leaves: those that have shrunk to one year, a sign of overfitting."""

from __future__ import annotations

from torch import Tensor

from agecli.forest.forests import Forest, GaussianForest

PEAK = 0.99  # of the probability of a categorical leaf in one year: collapsed
AT_FLOOR = 1 + 1e-4  # times the variance floor: tolerance for float32


def collapsed(forest: Forest) -> Tensor:
    """Which leaves have shrunk to one year: a variance at the floor, or PEAK of the probability.   (K, L), bool"""
    if isinstance(forest, GaussianForest):
        return forest.variance <= forest.floor * AT_FLOOR
    return forest.leaf_pmf().amax(-1) >= PEAK
