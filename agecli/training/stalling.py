"""Stalled runs: the entropy of the routing stays at its maximum although annealing has ended."""

from __future__ import annotations

import math

from agecli.core.config import Config

NEAR = 0.995  # share of log L, the entropy of uniform routing
COLD = 0.05  # T below which the entropy term no longer keeps splits soft
PATIENCE = 5  # leaf updates in a row


class StallCheck:
    """Counts consecutive leaf updates at which the splits are no better than chance.

    >>> check = StallCheck(config)
    >>> message = check(entropy=3.46, T=0.0)  # after each leaf update; a text once, when the run is stalled
    """

    def __init__(self, config: Config) -> None:
        self.config, self.count = config, 0
        self.most = math.log(config.forest.leaves)

    def __call__(self, entropy: float, T: float) -> str | None:
        """A warning for the user, once, when the run is stalled; else None.

        entropy: H, the mean over the faces since the last leaf update, in nats; T: temperature of the splits.
        """
        if self.config.model == "regression" or T > COLD:
            return None
        self.count = self.count + 1 if entropy >= NEAR * self.most else 0
        return self.message() if self.count == PATIENCE else None

    def message(self) -> str:
        """What is wrong, and which settings may help."""
        forest, training = self.config.forest, self.config.training
        remedy = (
            f"a larger --lr than {training.lr:g} or --set forest.units_std={10 * forest.units_std:g}"
            if forest.standardise or self.config.backbone.freeze
            else "--set forest.standardise=true"
        )
        return (
            f"the run is stalled: after {PATIENCE} leaf updates without annealing every face still reaches every leaf "
            f"equally often (entropy within 0.5 % of log {forest.leaves}), so all ages come out near the mean; "
            f"start again with {remedy}"
        )
