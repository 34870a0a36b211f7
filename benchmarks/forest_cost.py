"""Cost of the forest: a training step with a DRF relative to one with a linear L2 head, and a leaf update relative to
the 50 steps before it. resnet18 at 224 px, batch 16; ratios from one run.

    python -m benchmarks.forest_cost
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch
from torch import nn

from agecli.core.config import Config, replace
from agecli.model.devices import keep_memory, to_device
from agecli.model.network import build_model, start_leaves
from agecli.training.batches import Batch
from agecli.training.loop import Learner
from agecli.training.optimisation import Part, make_optimiser

CPU = torch.device("cpu")
ROUNDS = 15
SETTINGS = {"backbone.name": "resnet18", "backbone.weights": "none", "training.batch_size": 16}


def seconds(work: Callable[[], object]) -> float:
    """Wall-clock time of one call."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def main() -> None:
    """Measure both ratios and print them beside their upper limits."""
    keep_memory()
    config = replace(Config(), SETTINGS)
    batch = Batch(torch.randint(0, 256, (16, 3, 224, 224), dtype=torch.uint8), torch.rand(16) * 80)
    model = build_model(config)
    start_leaves(model.forest, torch.arange(90.0), 0)
    network = model.network.to(memory_format=torch.channels_last).train()  # type: ignore[call-overload]
    learner = Learner(
        network, model.forest, make_optimiser([Part(list(network.parameters()))], config.training), config, CPU
    )

    plain = build_model(config)
    linear = nn.Sequential(plain.colours, plain.backbone, nn.Linear(plain.f.in_features, 1))
    linear = linear.to(memory_format=torch.channels_last).train()  # type: ignore[call-overload]
    optimiser = make_optimiser([Part(list(linear.parameters()))], config.training)

    def linear_step() -> None:
        loss = ((linear(to_device(batch.inputs, CPU)).squeeze(1) - batch.ages) ** 2).mean()
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(linear.parameters(), config.training.clip_norm)
        optimiser.step()

    def forest_step() -> None:
        learner.learn_splits(batch)
        learner.routing.clear()

    ratios, steps = [], []
    for repeat in range(ROUNDS + 2):
        a, b, c = (
            seconds(linear_step),
            seconds(forest_step),
            seconds(linear_step),
        )  # a forest step between two linear ones
        if repeat >= 2:  # the first two are warm-up
            ratios.append(b / ((a + c) / 2))
            steps.append(b)
    step = statistics.median(steps)
    print(f"training step, resnet18 at 224, batch 16: {1e3 * step:.0f} ms with DRF")
    print(f"DRF / linear L2 head: {statistics.median(ratios):.3f} (median of {ROUNDS}; limit 1.05)")

    y = torch.rand(800) * 80
    for name in ("drf", "dldlf"):
        other = build_model(replace(config, {"model": name}))
        start_leaves(other.forest, y, 0)
        log_p = other.forest.route(torch.randn(800, config.forest.units))
        times = [seconds(lambda forest=other.forest, p=log_p: forest.update(p, y, 0.7, 20)) for _ in range(7)]  # type: ignore[misc]
        update = statistics.median(times)
        print(
            f"leaf update, {name}, 800 faces, 20 rounds: {1e3 * update:.0f} ms, {update / (50 * step):.2%} of 50 steps (limit 1 %)"
        )


if __name__ == "__main__":
    main()
