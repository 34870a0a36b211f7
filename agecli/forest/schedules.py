"""The two annealing schedules, as pure functions of the number of leaf updates so far."""

from __future__ import annotations

COLD = 1e-3  # the paper's guard `T >= 0` is always true; below this T counts as 0


def split_temperature(updates: int, start: float, cooling: float) -> float:
    """T, the weight of the routing's entropy in the loss: T <- eta * T after each leaf update.

    updates: how many so far; start: T_0; cooling: eta, in (0, 1]. Below COLD it is 0.
    """
    T = start * cooling**updates
    return T if T >= COLD else 0.0


def leaf_temperature(updates: int, start: float, cooling: float) -> float:
    """tau, the exponent of the leaves' posterior: tau <- min(1, tau / eta) after each leaf update.

    updates: how many so far; start: tau_0; cooling: eta, in (0, 1].
    """
    return min(1.0, start / cooling**updates) if start > 0 else 0.0
