"""EMA of the weights, by `torch.optim.swa_utils.AveragedModel`: what is validated, tested and saved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from agecli.core.errors import InputError


class Average:
    """EMA of a network's weights and floating-point buffers, such as batch-norm statistics.

    average <- decay * average + (1 - decay) * weight after each iteration. The decay is warmed up: it is at most
    (1 + iteration) / (10 + iteration), so that the initial weights are soon forgotten.

    >>> average = Average(network, decay=0.998)
    >>> average.update(iteration=0)
    >>> with average.shown(): validate(network)
    """

    def __init__(self, network: nn.Module, decay: float) -> None:
        self.network, self.decay = network, decay
        self.rate = 1.0  # 1 - decay of the current iteration
        self.averaged = AveragedModel(network, multi_avg_fn=self._mix, use_buffers=True)
        self.averaged.n_averaged.fill_(1)  # the first update mixes, too, and does not copy

    def _mix(self, averages: Sequence[Tensor], values: Sequence[Tensor], count: Tensor | int) -> None:
        """Update the averages, all of one dtype, in place; counters of batches are copied."""
        if averages[0].is_floating_point():
            torch._foreach_lerp_(tuple(averages), tuple(values), self.rate)
        else:
            torch._foreach_copy_(tuple(averages), tuple(values))

    @property
    def values(self) -> dict[str, Tensor]:
        """The averages by the network's own names; a view, not a copy."""
        return _floats(self.averaged.module)

    @torch.no_grad()
    def update(self, iteration: int) -> None:
        """Mix in the weights after an iteration, counted from 0."""
        self.rate = 1 - min(self.decay, (1 + iteration) / (10 + iteration))
        self.averaged.update_parameters(self.network)

    @torch.no_grad()
    def load(self, values: Mapping[str, Tensor]) -> None:
        """Take over averages that were saved by name. Raises InputError if some are missing."""
        if missing := self.values.keys() - values.keys():
            raise InputError(
                f"the training state has no EMA of {min(missing)}", hint="start a new run with another --out"
            )
        for name, value in self.values.items():
            value.copy_(values[name])

    @torch.no_grad()
    def settle(self) -> None:
        """Copy the average into the network, for good; afterwards the network has the weights that are tested."""
        averages = self.values
        for name, value in _floats(self.network).items():
            value.copy_(averages[name])

    @contextmanager
    def shown(self) -> Iterator[None]:
        """The network has the averaged weights while the block lasts, and its own ones again afterwards."""
        before = {name: value.clone() for name, value in _floats(self.network).items()}
        self.settle()
        try:
            yield
        finally:
            with torch.no_grad():
                for name, value in _floats(self.network).items():
                    value.copy_(before[name])


def _floats(network: nn.Module) -> dict[str, Tensor]:
    """The floating-point weights and buffers of a network, by name."""
    return {name: value for name, value in network.state_dict().items() if value.is_floating_point()}
