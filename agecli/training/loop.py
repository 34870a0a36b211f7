"""The paper's alternating loop: Theta by back-propagation on each mini-batch, the leaves every n_B mini-batches.

It prints and saves nothing: `fit` yields a `Step` after each iteration, and the caller decides.

1. `Learner.learn_splits`: one step of the optimiser on E = R - T * H, with the leaves fixed.
2. Every `forest.update_every` mini-batches, `Learner.learn_leaves`: a leaf update on the routing of those mini-batches,
   with Theta fixed. Then T falls and tau rises, as functions of the number of leaf updates.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from agecli.forest.routing import divergence
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
    """Means over the mini-batches since the last leaf update, of all ranks, before the leaves changed."""

    loss: float  # E = R - T * H
    nll: float  # R
    entropy: float  # H, in nats
    T: float  # temperature of the splits
    tau: float  # temperature of the leaves
    lr: float  # learning rate
    train_mae: float  # in years


@dataclass(frozen=True)
class Step:
    """The result of one iteration."""

    iteration: int  # counted from 1
    images: int  # that this rank read
    broken: tuple[tuple[str, str], ...]  # path and reason of pictures that it could not read
    progress: Progress | None  # after a leaf update


class Learner:
    """A network, its forest and its optimiser, and the state of their training.

    network: inputs -> (B, M), the part of the model that is trained
    forest: its leaves are updated here
    optimiser: of `make_optimiser`, over weights of the network
    config: the settings of the run; device: that of the network
    teacher: f(x) of the teacher for the n training faces, (n, M), if there is one (`training.distillation`)

    On several ranks, all of them hold the same weights, leaves, EMA and optimiser state after each iteration.
    """

    def __init__(
        self,
        network: nn.Module,
        forest: Top,
        optimiser: Optimizer,
        config: Config,
        device: torch.device,
        teacher: Tensor | None = None,
    ) -> None:
        self.teacher = teacher
        self.network, self.forest, self.optimiser, self.config, self.device = network, forest, optimiser, config, device
        self.average = Average(network, config.training.average) if config.training.average else None
        self.trainee = distributed.average_gradients(network, device)
        self.iteration = 0
        self.routing: list[
            tuple[Tensor, Tensor]
        ] = []  # log P(l | x) and the ages of the batches since the last leaf update
        self.inputs: list[Tensor] = []  # of these batches, if their routing is recomputed
        self.losses: dict[int, Tensor] = {}  # by iteration, counted from 1
        self.half = config.training.amp and device.type == "cuda"
        self.precision = (
            torch.bfloat16 if self.half and torch.cuda.is_bf16_supported(including_emulation=False) else torch.float16
        )
        self.scaler = torch.amp.GradScaler(device.type, enabled=self.half and self.precision is torch.float16)

    @property
    def updates(self) -> int:
        """Leaf updates so far; both temperatures are functions of it."""
        return self.iteration // self.config.forest.update_every

    @property
    def T(self) -> float:
        """Temperature of the splits: the weight of the entropy in E."""
        return split_temperature(self.updates, self.config.forest.split_temperature, self.config.forest.cooling)

    @property
    def tau(self) -> float:
        """Temperature of the leaves: the exponent of their posterior."""
        return leaf_temperature(self.updates, self.config.forest.leaf_temperature, self.config.forest.cooling)

    @property
    def tree(self) -> int | None:
        """The tree that learns from this mini-batch, drawn at random as in DNDF; None for all of them, jointly."""
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
        inputs, routing, y, E = self._forward(batch) if faces else self._forward_empty(batch)
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
        if self.config.forest.update_routing == "recomputed":
            self.inputs.append(inputs)
        self.losses[self.iteration + 1] = E.detach()
        if self.device.type == "cpu":
            self.check_finite()

    def _forward(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The inputs of a batch (B, …), its routing (B, …), its ages (B,), and E, the mean over its faces.

        With a teacher, E also has the divergence from the teacher's routing.
        """
        self.network.train()
        inputs = to_device(batch.inputs, self.device)
        y = batch.ages.to(self.device, non_blocking=True)
        if self.config.data.blend:
            inputs, y = blend(inputs, y, self.config.data.blend)
        with torch.autocast(self.device.type, self.precision, enabled=self.half):
            units = self.trainee(inputs)
        routing = self.forest.route(units)  # outside of autocast: the forest is float32
        E, _, _ = self.forest.energy(routing, y, self.T, self.tree)
        if self.teacher is not None:
            goal = self.forest.route(self.teacher[list(batch.indices)].to(self.device, non_blocking=True))
            E = E + self.config.training.distil * divergence(goal, routing)
        return inputs, routing, y, E

    def _forward_empty(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The same of a batch without faces: inputs and routing (0, …), ages (0,) and E = 0, whose gradient is 0 for all weights.

        DDP needs a forward pass on each rank: a blank input, in evaluation mode, which leaves batch-norm statistics.
        """
        self.network.eval()
        blank = batch.inputs.new_zeros(1, *batch.inputs.shape[1:])
        with torch.autocast(self.device.type, self.precision, enabled=self.half):
            units = self.trainee(to_device(blank, self.device))
        nothing = to_device(batch.inputs, self.device)
        return nothing, self.forest.route(units[:0]), batch.ages.to(self.device), units.float().sum() * 0

    def as_tested(self) -> AbstractContextManager[None]:
        """A context in which the network has the weights to test and save: the EMA, if there is one."""
        return self.average.shown() if self.average else nullcontext()

    def learn_leaves(self) -> Progress | None:
        """Rounds of variational bounding on the routing of exactly the last mini-batches, with Theta fixed.

        All ranks do this at the same iteration, and their sums are added up by all-reduce, also those of a rank
        without faces, which are 0. Returns what the mini-batches of all ranks showed before the update; None, and the
        leaves stay, if no rank had a face.
        """
        self.check_finite()
        waiting, self.routing, self.losses = self.routing, [], {}
        inputs, self.inputs = self.inputs, []
        if not distributed.total(sum(len(y) for _, y in waiting)):
            return None
        routing, y = (torch.cat(parts) for parts in zip(*waiting, strict=True))
        with torch.no_grad():
            E, R, H = self.forest.energy(routing, y, self.T)
            pmf = self.forest.pmf(routing).cpu().numpy()
        error = abs(ages.read(pmf, self.forest.readout, self.forest.grid) - y.cpu().numpy()).sum() / max(1, len(y))
        loss, nll, entropy, mae = distributed.weighted_mean([E.item(), R.item(), H.item(), float(error)], len(y))
        if inputs:
            routing = self._routing_now(inputs)
        self.forest.update(routing, y, self.tau, self.config.forest.update_rounds, distributed.all_reduce)
        lr = learning_rate(self.iteration, self.config.training)
        return Progress(loss, nll, entropy, self.T, self.tau, lr, mae)

    def _routing_now(self, inputs: Sequence[Tensor]) -> Tensor:
        """The routing of the last mini-batches at the current weights, in evaluation mode.   (B, …) each -> (n, …)"""
        self.network.eval()
        with torch.no_grad(), torch.autocast(self.device.type, self.precision, enabled=self.half):
            units = [self.network(part) for part in inputs if len(part)] or [self.network(inputs[0])]
        return self.forest.route(torch.cat([part.float() for part in units]))

    def check_finite(self) -> None:
        """Raise TrainingError if a loss since the last leaf update is not finite. On a GPU this is called only now and then,
        because it waits for the GPU."""
        if not self.losses:
            return
        bad = ~torch.isfinite(torch.stack(list(self.losses.values())))
        if bad.any():
            first = list(self.losses)[int(bad.nonzero()[0])]
            raise TrainingError(f"the loss at iteration {first} is not a number", hint=SMALLER_STEPS)

    def check_weights(self) -> None:
        """Raise TrainingError if a weight is not finite, before weights are saved: the next loss would come too late."""
        if not all(torch.isfinite(weights).all() for weights in self.network.parameters()):
            raise TrainingError(f"the weights after iteration {self.iteration} are not numbers", hint=SMALLER_STEPS)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors by name, and plain values, to resume from as if there had been no stop.

        Raises TrainingError if the losses or the weights are not finite.
        """
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
        if self.inputs:
            tensors["routing.inputs"] = torch.cat(self.inputs)  # cut by the lengths in `values` when it is restored
        values = {"iteration": self.iteration, "scaler": self.scaler.state_dict(), "weights": self._weight_names()}
        values["inputs"] = [len(part) for part in self.inputs]
        return tensors, values

    def _weight_names(self) -> list[str]:
        """The names of the weights in the order of the optimiser, which numbers them."""
        names = {id(weight): name for name, weight in self.network.named_parameters()}
        return [names[id(weight)] for group in self.optimiser.param_groups for weight in group["params"]]

    def restore(self, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> None:
        """Take over what `state` returned. Raises KeyError or RuntimeError if it does not fit."""
        self.network.load_state_dict(_under("network.", tensors))
        self.forest.load_state_dict(_under("forest.", tensors))
        if self.average:
            self.average.load(_under("average.", tensors))
        self._restore_optimiser(_under("optimiser.", tensors), values.get("weights"))
        self.iteration = int(values["iteration"])
        if values["scaler"] and self.scaler.is_enabled():
            self.scaler.load_state_dict(values["scaler"])
        if "routing.log_p" in tensors:
            saved = tensors["routing.log_p"].to(self.device), tensors["routing.y"].to(self.device)
            self.routing = [saved if distributed.rank() == 0 else (saved[0][:0], saved[1][:0])]  # each face once
        if "routing.inputs" in tensors:
            parts = [to_device(part, self.device) for part in tensors["routing.inputs"].split(values["inputs"])]
            self.inputs = parts if distributed.rank() == 0 else [part[:0] for part in parts]

    def _restore_optimiser(self, tensors: Mapping[str, Tensor], names: Sequence[str] | None) -> None:
        """Take over the optimiser's state, by `<number of the weight>.<name>`; `names` are those of the weights.

        States of older versions have no names: their order is that of `_order_without_layers`, or the current one.
        Raises ValueError if the shapes fit neither.
        """
        slots: dict[int, dict[str, Tensor]] = {}
        for name, value in tensors.items():
            position, _, key = name.partition(".")
            slots.setdefault(int(position), {})[key] = value
        current = self._weight_names()
        orders = [names] if names else [_order_without_layers(self.network), current]
        weights = dict(self.network.named_parameters())
        order = next((order for order in orders if _fits(order, slots, weights)), None)
        if order is None:
            raise ValueError("the optimiser's state does not fit the network")
        state = {}
        for number, slot in slots.items():  # fused optimisers need the memory layout of the weights
            like = weights[order[number]]
            state[current.index(order[number])] = {
                key: torch.empty_like(like).copy_(value) if value.shape == like.shape else value
                for key, value in slot.items()
            }
        self.optimiser.load_state_dict({"state": state, "param_groups": self.optimiser.state_dict()["param_groups"]})


def _order_without_layers(network: nn.Module) -> list[str]:
    """The order of an optimiser with two groups, matrices and others, for each direct child of the network."""
    weights = dict(network.named_parameters())
    children = dict.fromkeys(name.split(".")[0] for name in weights)
    parts = [[name for name in weights if name.split(".")[0] == child] for child in children]
    return [name for part in parts for name in sorted(part, key=lambda name: weights[name].ndim <= 1)]


def _fits(order: Sequence[str], slots: Mapping[int, Mapping[str, Tensor]], weights: Mapping[str, nn.Parameter]) -> bool:
    """Whether every tensor of an optimiser's state is a scalar, or of the shape of its weight in this order."""
    return all(
        number < len(order)
        and order[number] in weights
        and all(value.ndim == 0 or value.shape == weights[order[number]].shape for value in slot.values())
        for number, slot in slots.items()
    )


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors whose names begin with a prefix, without it."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def fit(learner: Learner, batches: Iterable[Batch]) -> Iterator[Step]:
    """Learn from each batch, and yield a step after it; with its progress if the leaves were updated.  [eqn:best_para_ldl]

    On several ranks, each gets its own share of every batch, and all must get the same number of batches.

    >>> for step in fit(learner, batches): print(step.iteration)
    """
    every = learner.config.forest.update_every
    for batch in batches:
        learner.learn_splits(batch)
        update = (learner.iteration + 1) % every == 0
        progress = learner.learn_leaves() if update else None
        learner.iteration += 1
        yield Step(learner.iteration, len(batch.ages), batch.broken, progress)
