"""The paper's alternating loop: Theta by back-propagation on each mini-batch, the leaves every n_B mini-batches.

It prints nothing and saves nothing: it yields, and the caller decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from agecli.core import ages
from agecli.core.config import Config
from agecli.core.errors import TrainingError
from agecli.core.seeding import derive
from agecli.forest.forests import Top
from agecli.forest.schedules import leaf_temperature, split_temperature
from agecli.model.devices import draw_from, to_device
from agecli.training import distributed
from agecli.training.averaging import Average
from agecli.training.batches import Batch
from agecli.training.mixup import blend
from agecli.training.optimisation import learning_rate, set_learning_rate

SMALLER_STEPS = "start again in another --out with a smaller --lr, or with --set training.clip_norm=1"


@dataclass(frozen=True)
class Progress:
    """What the mini-batches since the last leaf update showed, before the leaves changed."""

    loss: float  # E
    nll: float  # R
    entropy: float  # H
    T: float
    tau: float
    lr: float
    train_mae: float


@dataclass(frozen=True)
class Step:
    """One iteration is done."""

    iteration: int
    images: int
    broken: tuple[tuple[str, str], ...]
    progress: Progress | None  # after a leaf update


class Learner:
    """A network, its forest and its optimiser, and how far they have come."""

    def __init__(
        self, network: nn.Module, forest: Top, optimiser: Optimizer, config: Config, device: torch.device
    ) -> None:
        self.network, self.forest, self.optimiser, self.config, self.device = network, forest, optimiser, config, device
        self.average = Average(network, config.training.average) if config.training.average else None
        self.trainee = distributed.average_gradients(network, device)
        self.iteration = 0
        self.routing: list[
            tuple[Tensor, Tensor]
        ] = []  # log P(l | x) and the ages of the batches since the last leaf update
        self.losses: dict[int, Tensor] = {}  # by iteration, counted from 1
        self.half = config.training.amp and device.type == "cuda"
        self.precision = (
            torch.bfloat16 if self.half and torch.cuda.is_bf16_supported(including_emulation=False) else torch.float16
        )
        self.scaler = torch.amp.GradScaler(device.type, enabled=self.half and self.precision is torch.float16)

    @property
    def updates(self) -> int:
        """Leaf updates so far; both temperatures follow from it."""
        return self.iteration // self.config.forest.update_every

    @property
    def T(self) -> float:
        return split_temperature(self.updates, self.config.forest.split_temperature, self.config.forest.cooling)

    @property
    def tau(self) -> float:
        return leaf_temperature(self.updates, self.config.forest.leaf_temperature, self.config.forest.cooling)

    @property
    def tree(self) -> int | None:
        """The one tree that learns from this mini-batch, drawn as DNDF does; None: all of them, jointly."""
        forest = self.config.forest
        if forest.ensemble == "joint":
            return None
        return derive(self.config.training.seed, "tree", self.iteration) % forest.trees

    def learn_splits(self, batch: Batch) -> None:
        """One step of back-propagation, with the leaves fixed.  [eqn:gradient_forest]

        The gradient is that of the mean over the faces of all ranks. A rank that could read none of its pictures adds
        a gradient of 0 and takes the same step. If no rank could read one, there is no step.
        """
        faces, all_faces = len(batch.ages), distributed.total(len(batch.ages))
        if not all_faces:
            return
        training = self.config.training
        draw_from(derive(training.seed, "step", self.iteration, distributed.rank()), self.device)  # dropout, if resumed
        set_learning_rate(self.optimiser, learning_rate(self.iteration, training), self.iteration)
        routing, y, E = self._forward(batch) if faces else self._forward_empty(batch)
        self.optimiser.zero_grad(set_to_none=True)
        share = faces * distributed.ranks() / all_faces  # DDP takes the plain mean over the ranks
        self.scaler.scale(E * share).backward()
        if training.clip_norm:
            self.scaler.unscale_(self.optimiser)
            nn.utils.clip_grad_norm_([p for g in self.optimiser.param_groups for p in g["params"]], training.clip_norm)
        self.scaler.step(self.optimiser)
        self.scaler.update()
        distributed.copy_buffers(self.network)
        if self.average:
            self.average.update(self.iteration)
        self.routing.append((routing.detach(), y))
        self.losses[self.iteration + 1] = E.detach()
        if self.device.type == "cpu":
            self.check_finite()

    def _forward(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """The routing of a batch (B, …), its ages (B,), and E, the mean over its faces."""
        self.network.train()
        inputs = to_device(batch.inputs, self.device)
        y = batch.ages.to(self.device, non_blocking=True)
        if self.config.data.blend:
            inputs, y = blend(inputs, y, self.config.data.blend)
        with torch.autocast(self.device.type, self.precision, enabled=self.half):
            units = self.trainee(inputs)
        routing = self.forest.route(units)  # outside of autocast: the forest is float32
        E, _, _ = self.forest.energy(routing, y, self.T, self.tree)
        return routing, y, E

    def _forward_empty(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """The same of a batch without faces: routing (0, …), ages (0,) and E = 0, whose gradient is 0 for all weights.

        DDP needs a forward pass on each rank: a blank input, in evaluation mode, which leaves batch-norm statistics.
        """
        self.network.eval()
        blank = batch.inputs.new_zeros(1, *batch.inputs.shape[1:])
        with torch.autocast(self.device.type, self.precision, enabled=self.half):
            units = self.trainee(to_device(blank, self.device))
        return self.forest.route(units[:0]), batch.ages.to(self.device), units.float().sum() * 0

    def as_tested(self) -> AbstractContextManager[None]:
        """The network as it is tested and saved: its average, if there is one."""
        return self.average.shown() if self.average else nullcontext()

    def learn_leaves(self) -> Progress | None:
        """Rounds of variational bounding on the routing of exactly the last mini-batches, with Theta fixed.

        All ranks do this at the same iteration, and their sums are added up by all-reduce, also those of a rank
        without faces, which are 0. Returns what the mini-batches of all ranks showed before the update; None, and the
        leaves stay, if no rank had a face.
        """
        self.check_finite()
        waiting, self.routing, self.losses = self.routing, [], {}
        if not distributed.total(sum(len(y) for _, y in waiting)):
            return None
        routing, y = (torch.cat(parts) for parts in zip(*waiting, strict=True))
        with torch.no_grad():
            E, R, H = self.forest.energy(routing, y, self.T)
            pmf = self.forest.pmf(routing).cpu().numpy()
        error = abs(ages.read(pmf, self.forest.readout, self.forest.grid) - y.cpu().numpy()).sum() / max(1, len(y))
        loss, nll, entropy, mae = distributed.weighted_mean([E.item(), R.item(), H.item(), float(error)], len(y))
        self.forest.update(routing, y, self.tau, self.config.forest.update_rounds, distributed.all_reduce)
        lr = learning_rate(self.iteration, self.config.training)
        return Progress(loss, nll, entropy, self.T, self.tau, lr, mae)

    def check_finite(self) -> None:
        """Stop at a loss that is no number. On a GPU asked once in a while, so that it never waits for the answer."""
        if not self.losses:
            return
        bad = ~torch.isfinite(torch.stack(list(self.losses.values())))
        if bad.any():
            first = list(self.losses)[int(bad.nonzero()[0])]
            raise TrainingError(f"the loss at iteration {first} is not a number", hint=SMALLER_STEPS)

    def check_weights(self) -> None:
        """Before they are saved: the last step may have ruined them, which only the next loss would show."""
        if not all(torch.isfinite(weights).all() for weights in self.network.parameters()):
            raise TrainingError(f"the weights after iteration {self.iteration} are not numbers", hint=SMALLER_STEPS)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """All that is needed to go on as if there had been no stop: tensors, and plain values."""
        self.check_finite()
        self.check_weights()
        tensors = {f"network.{name}": value for name, value in self.network.state_dict().items()}
        tensors |= {f"forest.{name}": value for name, value in self.forest.state_dict().items()}
        if self.average:
            tensors |= {f"average.{name}": value for name, value in self.average.values.items()}
        slots = self.optimiser.state_dict()["state"]
        tensors |= {
            f"optimiser.{i}.{key}": value
            for i, slot in slots.items()
            for key, value in slot.items()
            if value is not None
        }
        if self.routing:
            tensors["routing.log_p"] = torch.cat([routing for routing, _ in self.routing])
            tensors["routing.y"] = torch.cat([y for _, y in self.routing])
        return tensors, {"iteration": self.iteration, "scaler": self.scaler.state_dict()}

    def restore(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        def under(prefix: str) -> dict[str, Tensor]:
            return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}

        self.network.load_state_dict(under("network."))
        self.forest.load_state_dict(under("forest."))
        if self.average:
            self.average.load(under("average."))
        slots: dict[int, dict[str, Tensor]] = {}
        for name, value in under("optimiser.").items():
            position, _, key = name.partition(".")
            slots.setdefault(int(position), {})[key] = value
        weights = [weight for group in self.optimiser.param_groups for weight in group["params"]]
        for number, slot in slots.items():  # laid out in memory as the weights are: fused optimisers count on it
            like = weights[number]
            slots[number] = {
                key: torch.empty_like(like).copy_(value) if value.shape == like.shape else value
                for key, value in slot.items()
            }
        self.optimiser.load_state_dict({"state": slots, "param_groups": self.optimiser.state_dict()["param_groups"]})
        self.iteration = int(values["iteration"])
        if values["scaler"] and self.scaler.is_enabled():
            self.scaler.load_state_dict(values["scaler"])
        if "routing.log_p" in tensors:
            saved = tensors["routing.log_p"].to(self.device), tensors["routing.y"].to(self.device)
            self.routing = [saved if distributed.rank() == 0 else (saved[0][:0], saved[1][:0])]  # each face once


def fit(learner: Learner, batches: Iterable[Batch]) -> Iterator[Step]:
    """Learn from each batch; a step each, with the progress where the leaves were updated."""
    every = learner.config.forest.update_every
    for batch in batches:
        learner.learn_splits(batch)
        update = (learner.iteration + 1) % every == 0
        progress = learner.learn_leaves() if update else None
        learner.iteration += 1
        yield Step(learner.iteration, len(batch.ages), batch.broken, progress)
