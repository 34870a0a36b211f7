"""The alternating loop: it fits what can be fitted, at the right temperatures, and a stop in the middle changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn

from agecli.core import ages
from agecli.core.ages import AgeGrid
from agecli.core.config import Config, implied, preset, replace
from agecli.core.errors import TrainingError
from agecli.forest.forests import Forest
from agecli.forest.regression import Regression
from agecli.forest.routing import draw_phi
from agecli.model.network import build_forest, start_leaves
from agecli.training.averaging import Average
from agecli.training.batches import Batch, Stream, feature_batches
from agecli.training.loop import Learner, Step, fit
from agecli.training.optimisation import Part, backbone_parts, learning_rate, make_optimiser

CPU = torch.device("cpu")
torch.set_num_threads(1)  # matrices this small are slower with two
BASE = {
    "forest.units": 64,
    "training.iterations": 400,
    "training.lr": 0.02,
    "training.batch_size": 32,
    "training.warmup": 20,
}


def blobs(centres: list[float], spread: float, count: int = 600) -> tuple[Tensor, Tensor]:
    """Faces in clumps: each has its own place in feature space and its own age, with a spread."""
    generator = torch.Generator().manual_seed(0)
    which = torch.arange(count) % len(centres)
    features = nn.functional.one_hot(which, len(centres)) + 0.1 * torch.randn(count, len(centres), generator=generator)
    return features, torch.tensor(centres)[which] + spread * torch.randn(count, generator=generator)


def circle(count: int = 600) -> tuple[Tensor, Tensor]:
    """Two ages that no straight line separates: the young in the middle, the old around them."""
    generator = torch.Generator().manual_seed(1)
    old = torch.arange(count) % 2 == 1
    angle = 2 * torch.pi * torch.rand(count, generator=generator)
    radius = torch.where(old, 3.0, 0.6) + 0.2 * torch.randn(count, generator=generator)
    features = torch.stack((radius * angle.cos(), radius * angle.sin()), dim=1)
    return features, torch.where(old, 60.0, 20.0) + torch.randn(count, generator=generator)


def learner_for(config: Config, features: Tensor, y: Tensor) -> Learner:
    torch.manual_seed(0)
    network = nn.Linear(features.shape[1], config.forest.units)
    phi = draw_phi(config.forest.trees, config.forest.splits, config.forest.units, torch.Generator().manual_seed(0))
    forest = build_forest(config, phi, AgeGrid())
    start_leaves(forest, y, 0)
    return Learner(network, forest, make_optimiser([Part(list(network.parameters()))], config.training), config, CPU)


def run(learner: Learner, features: Tensor, y: Tensor, stop: int | None = None) -> Iterator[Step]:
    training = learner.config.training
    stream = Stream(len(y), training.batch_size, 0, learner.iteration, stop or training.iterations)
    return fit(learner, feature_batches(features, y, stream))


def mae(learner: Learner, features: Tensor, y: Tensor) -> float:
    with torch.no_grad():
        pmf = learner.forest.pmf(learner.forest.route(learner.network(features)))
    return float(abs(ages.read(pmf.numpy(), learner.forest.readout, learner.forest.grid) - y.numpy()).mean())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["drf", "dldlf", "dndf", "drf-nrf"])
@pytest.mark.parametrize("task", ["blobs", "circle"])
def test_forests_fit_toy_tasks(name: str, task: str) -> None:
    features, y = blobs([5.0, 25.0, 45.0, 70.0], 1.0) if task == "blobs" else circle()
    cooled = {"forest.update_every": 20, "training.iterations": 2000, "training.lr": 0.1}  # T ends at 0
    learner = learner_for(replace(Config(), {**BASE, **cooled, **implied({"model": name}), "model": name}), features, y)
    assert mae(learner, features, y) > 8
    for _ in run(learner, features, y):
        pass
    assert mae(learner, features, y) < 2


def test_regression_fits_a_line_and_knows_how_far_off_it_is() -> None:
    features, y = blobs([5.0, 25.0, 45.0, 70.0], 3.0)
    learner = learner_for(replace(Config(), {**BASE, "model": "regression"}), features, y)
    for _ in run(learner, features, y):
        pass
    best = torch.linalg.lstsq(features, y[:, None]).solution
    assert mae(learner, features, y) < 1.05 * float((features @ best - y[:, None]).abs().mean())
    assert isinstance(learner.forest, Regression)
    with torch.no_grad():
        said = learner.forest.route(learner.network(features))
    assert learner.forest.variance.item() == pytest.approx(float(((said - y) ** 2).mean()), rel=0.3)
    entropies = {step.progress.entropy for step in run(learner, features, y, 450) if step.progress}
    assert entropies == {0.0}


def test_regression_learns_under_the_preset_paper_and_diverges_without_its_own_settings() -> None:
    """On features as VGG-16 has them: thousands, positive, with a norm of about 45."""
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(400, 20, generator=generator)
    features = 1.5 * torch.relu(hidden @ torch.randn(20, 2000, generator=generator) / 20**0.5)
    y = (40 + 12 * hidden[:, 0]).clamp(0, 90)
    changes = {"model": "regression", "training.iterations": 200}
    features_of_f = nn.functional.layer_norm(features.T, (400,)).T  # standardised, as `forest.standardise` does
    own = replace(preset("paper"), {**implied(changes), **changes})
    learner = learner_for(replace(own, {"forest.units": 1, "forest.depth": 2, "forest.trees": 1}), features_of_f, y)
    for _ in run(learner, features_of_f, y):
        pass
    assert mae(learner, features_of_f, y) < 6
    plain = replace(preset("paper"), {**changes, "forest.units": 1, "forest.depth": 2, "forest.trees": 1})
    with pytest.raises(TrainingError):
        for _ in run(learner_for(plain, features, y), features, y):
            pass


def test_alternating_trees_learn_one_at_a_time_and_all_in_turn() -> None:
    features, y = blobs([10.0, 50.0], 1.0)
    learner = learner_for(replace(Config(), {**BASE, "forest.ensemble": "alternating"}), features, y)
    assert isinstance(learner.forest, Forest)
    trees = []
    for step in run(learner, features, y, 40):
        weight = learner.network.weight
        assert isinstance(weight, Tensor)
        assert weight.grad is not None
        moved = set(weight.grad.abs().sum(1).nonzero().flatten().tolist())
        learner.iteration = step.iteration - 1  # as it was when the step was made
        assert learner.tree is not None
        assert moved == set(learner.forest.phi[learner.tree].tolist())
        trees.append(learner.tree)
        learner.iteration = step.iteration
    assert set(trees) == set(range(5))


def test_a_step_is_yielded_for_each_iteration_and_progress_with_each_leaf_update() -> None:
    features, y = blobs([10.0, 50.0], 1.0)
    learner = learner_for(replace(Config(), {**BASE, "training.iterations": 160}), features, y)
    steps = list(run(learner, features, y))
    assert [step.iteration for step in steps] == list(range(1, 161))
    progress = {step.iteration: step.progress for step in steps if step.progress}
    assert list(progress) == [50, 100, 150]
    assert [p.T for p in progress.values()] == pytest.approx([1.0, 0.9, 0.81])
    assert [p.tau for p in progress.values()] == pytest.approx([0.5, 0.5 / 0.9, 0.5 / 0.81])
    assert all(p.loss == pytest.approx(p.nll - p.T * p.entropy, abs=1e-4) for p in progress.values())


@pytest.mark.parametrize("name", ["drf", "dldlf", "regression"])
@pytest.mark.parametrize("optimiser", ["adamw", "sgd"])
@pytest.mark.parametrize(
    ("stop", "more"),
    [
        (1, {}),
        (50, {}),
        (77, {}),
        (77, {"training.average": 0.9}),
        (77, {"forest.ensemble": "alternating"}),
        (77, {"data.blend": 0.5}),
        (77, {"forest.update_routing": "recomputed"}),
    ],
)
def test_a_stop_between_leaf_updates_changes_nothing(
    name: str, optimiser: str, stop: int, more: dict[str, float | str]
) -> None:
    features, y = blobs([10.0, 50.0], 3.0)
    kind = {"model": name, "training.iterations": 130, "training.optimiser": optimiser}
    config = replace(Config(), {**BASE, **kind, **more})
    straight = learner_for(config, features, y)
    for _ in run(straight, features, y):
        pass
    first = learner_for(config, features, y)
    for _ in run(first, features, y, stop):
        pass
    second = learner_for(config, features, y)
    second.restore(*first.state())
    assert second.T == first.T
    for _ in run(second, features, y):
        pass
    for name_, value in straight.state()[0].items():
        assert torch.equal(value, second.state()[0][name_]), name_


def test_leaves_are_fitted_to_the_routing_that_was_seen_or_to_that_of_the_current_weights() -> None:
    """The text of the paper fixes Theta during the leaf step; its authors' code uses the routing of each forward pass."""
    features, y = blobs([10.0, 50.0], 3.0)
    leaves = {}
    for kind in ("cached", "recomputed"):
        config = replace(Config(), {**BASE, "forest.update_every": 3, "forest.update_routing": kind})
        learner = learner_for(config, features, y)
        batches = [Batch(features[i : i + 32], y[i : i + 32]) for i in (0, 32, 64)]
        for batch in batches:
            learner.learn_splits(batch)
            learner.iteration += 1
        before, tau = learner.forest.state_dict(), learner.tau
        expected = learner_for(config, features, y).forest
        expected.load_state_dict({name: value.clone() for name, value in before.items()})
        seen = torch.cat([routing for routing, _ in learner.routing])
        with torch.no_grad():
            now = learner.forest.route(learner.network(features[:96]))
        learner.learn_leaves()
        expected.update(seen if kind == "cached" else now, y[:96], tau, config.forest.update_rounds)
        leaves[kind] = learner.forest.state_dict()["mean"]
        assert torch.allclose(leaves[kind], expected.state_dict()["mean"], atol=1e-3)
        assert learner.inputs == []
    assert (leaves["cached"] - leaves["recomputed"]).abs().max() > 1e-3


def test_a_loss_that_is_no_number_stops_at_its_iteration() -> None:
    features, y = blobs([10.0, 50.0], 1.0)
    learner = learner_for(replace(Config(), BASE), features, y)
    for _ in run(learner, features, y, 7):
        pass
    with pytest.raises(TrainingError, match="loss at iteration 8 is not a number"):
        list(fit(learner, [Batch(torch.full((4, 2), torch.nan), y[:4])]))


def test_the_papers_learning_rate_halves_every_10k() -> None:
    from agecli.core.config import PAPER

    rates = [learning_rate(i, PAPER.training) for i in (0, 9_999, 10_000, 20_000, 29_999)]
    assert rates == pytest.approx([0.05, 0.05, 0.025, 0.0125, 0.0125])


def test_warm_up_then_cosine() -> None:
    training = replace(Config(), BASE).training
    rates = [learning_rate(i, training) for i in range(400)]
    assert rates[0] == pytest.approx(0.02 / 20)
    assert max(rates) == rates[19]
    assert rates[-1] < 1e-5 * max(rates) * 10
    assert all(a >= b for a, b in pairwise(rates[19:]))


def test_a_short_run_warms_up_in_a_tenth_of_it() -> None:
    training = replace(Config(), {"training.iterations": 60}).training
    assert max(learning_rate(i, training) for i in range(60)) > 0.9 * training.lr


def test_weights_that_are_no_numbers_are_not_saved() -> None:
    features, y = blobs([10.0, 50.0], 1.0)
    learner = learner_for(replace(Config(), BASE), features, y)
    with torch.no_grad():
        next(learner.network.parameters()).fill_(torch.inf)
    with pytest.raises(TrainingError, match="weights after iteration 0"):
        learner.state()


def test_weight_decay_leaves_biases_alone() -> None:
    optimiser = make_optimiser([Part(list(nn.Linear(3, 2).parameters()), 0.5)], Config().training)
    assert [
        (group["weight_decay"], len(group["params"][0].shape), group["multiple"]) for group in optimiser.param_groups
    ] == [
        (0.05, 2, 0.5),
        (0.0, 1, 0.5),
    ]


def test_the_average_of_the_weights_is_shown_for_a_while_and_then_kept() -> None:
    linear = nn.Linear(3, 2)
    network, weight = nn.Sequential(linear, nn.BatchNorm1d(2)), linear.weight
    average = Average(network, 0.75)
    seen = [weight.detach().clone()]
    for iteration in range(40):
        with torch.no_grad():
            weight.normal_()
        average.update(iteration)
        seen.append(weight.detach().clone())
    expected = seen[0]
    for iteration, value in enumerate(seen[1:]):
        decay = min(0.75, (1 + iteration) / (10 + iteration))
        expected = decay * expected + (1 - decay) * value
    with average.shown():
        assert torch.allclose(weight, expected, atol=1e-6)
    assert torch.equal(weight, seen[-1])
    average.settle()
    assert torch.allclose(weight, expected, atol=1e-6)


def test_a_state_of_before_the_layers_had_their_own_rates_is_restored_by_name() -> None:
    """It numbers the weights in another order, without names: matrices first, then biases."""
    features, y = blobs([10.0, 50.0], 1.0)
    config = replace(Config(), BASE)

    def deep_learner(by_layer: bool) -> Learner:
        torch.manual_seed(0)
        layers = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 64))
        network = nn.Sequential(layers, nn.Linear(64, 64))
        parts = backbone_parts(layers, config.training) if by_layer else [Part(list(layers.parameters()))]
        phi = draw_phi(5, 31, 64, torch.Generator().manual_seed(0))
        forest = build_forest(config, phi, AgeGrid())
        start_leaves(forest, y, 0)
        optimiser = make_optimiser([*parts, Part(list(network[1].parameters()))], config.training)
        return Learner(network, forest, optimiser, config, CPU)

    before, after = deep_learner(by_layer=False), deep_learner(by_layer=True)
    for _ in run(before, features, y, 3):
        pass
    tensors, values = before.state()
    names = values.pop("weights")
    after.restore(tensors, values)
    restored, values = after.state()
    assert sorted(values["weights"]) == sorted(names) != values["weights"]
    for number, name in enumerate(names):
        slot = values["weights"].index(name)
        assert torch.equal(tensors[f"optimiser.{number}.exp_avg"], restored[f"optimiser.{slot}.exp_avg"]), name
    tensors["optimiser.0.exp_avg"] = torch.zeros(7)
    with pytest.raises(ValueError, match="does not fit"):
        after.restore(tensors, {"iteration": 3, "scaler": {}})
