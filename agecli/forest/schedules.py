"""The two annealing schedules, as pure functions of the number of leaf updates so far."""

from __future__ import annotations

COLD = 1e-3  # the paper's guard `T >= 0` is always true; below this T counts as 0


def split_temperature(updates: int, start: float, cooling: float) -> float:
    """T <- eta * T after each leaf update: how much the entropy of the routing counts."""
    T = start * cooling**updates
    return T if T >= COLD else 0.0


def leaf_temperature(updates: int, start: float, cooling: float) -> float:
    """tau <- min(1, tau / eta) after each leaf update: how much the posterior of a leaf is trusted."""
    return min(1.0, start / cooling**updates) if start > 0 else 0.0
