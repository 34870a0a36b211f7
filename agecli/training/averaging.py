"""A running average of a network's weights: it lags behind, errs less, and is what is tested and saved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class Average:
    """Of weights and of the statistics of norms: v <- decay * v + (1 - decay) * weight after each iteration."""

    def __init__(self, network: nn.Module, decay: float) -> None:
        self.network, self.decay = network, decay
        self.values = {name: value.clone() for name, value in self._live().items()}

    def _live(self) -> dict[str, Tensor]:
        return {name: value for name, value in self.network.state_dict().items() if value.is_floating_point()}

    @torch.no_grad()
    def update(self, iteration: int) -> None:
        """Early averages follow quickly: there is nothing worth remembering yet."""
        decay = min(self.decay, (1 + iteration) / (10 + iteration))
        live = self._live()
        torch._foreach_lerp_([self.values[name] for name in live], list(live.values()), 1 - decay)

    @torch.no_grad()
    def load(self, values: Mapping[str, Tensor]) -> None:
        for name, value in self.values.items():
            value.copy_(values[name])

    @torch.no_grad()
    def settle(self) -> None:
        """The network becomes its average."""
        for name, value in self._live().items():
            value.copy_(self.values[name])

    @contextmanager
    def shown(self) -> Iterator[None]:
        """The network is its average while the block lasts."""
        live = {name: value.clone() for name, value in self._live().items()}
        self.settle()
        try:
            yield
        finally:
            with torch.no_grad():
                for name, value in self._live().items():
                    value.copy_(live[name])
