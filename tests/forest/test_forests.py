"""A forest is the mean of its trees, in its loss, its gradient and its prediction."""

from __future__ import annotations

import pytest
import torch

from agecli import ages
from agecli.ages import AgeGrid
from agecli.forest import categorical, gaussian
from agecli.forest.forests import CategoricalForest, Forest, GaussianForest
from agecli.forest.gaussian import Gaussians
from agecli.forest.routing import draw_phi

GRID = AgeGrid(0, 80)


def forests() -> list[Forest]:
    generator = torch.Generator().manual_seed(0)
    phi = draw_phi(3, 7, 9, generator)
    start = gaussian.random_start(torch.arange(81.0), 3, 8, 0.5, generator)
    drf = GaussianForest(phi, Gaussians(start.mean.double(), start.variance.double() / 20), GRID, 0.5)
    pi = torch.rand(3, 8, len(GRID), generator=generator, dtype=torch.double).softmax(-1)
    return [drf, CategoricalForest(phi, pi, GRID, 2.0, 0.01)]


def one_tree(forest: Forest, k: int) -> Forest:
    phi = forest.phi[k : k + 1]
    if isinstance(forest, GaussianForest):
        return GaussianForest(phi, Gaussians(forest.mean[k : k + 1], forest.variance[k : k + 1]), GRID, 0.5)
    assert isinstance(forest, CategoricalForest)
    return CategoricalForest(phi, forest.log_pi[k : k + 1].exp(), GRID, 2.0, 0.01)


UNITS = torch.randn(5, 9, generator=torch.Generator().manual_seed(1), dtype=torch.double)
Y = torch.tensor([3.0, 20.0, 41.0, 60.0, 79.0], dtype=torch.double)


def test_the_loss_of_a_forest_is_the_mean_of_its_trees_losses() -> None:
    for forest in forests():
        E, _, _ = forest.energy(forest.route(UNITS), Y, T=0.7)
        trees = [one_tree(forest, k) for k in range(3)]
        losses = [tree.energy(tree.route(UNITS), Y, T=0.7)[0] for tree in trees]
        assert torch.allclose(E, torch.stack(losses).mean())


def test_a_unit_that_several_trees_share_gets_the_sum_of_their_gradients() -> None:
    for forest in forests():
        shared = UNITS.clone().requires_grad_()
        forest.energy(forest.route(shared), Y, T=0.7)[0].backward()
        total = torch.zeros_like(UNITS)
        for k in range(3):
            alone = UNITS.clone().requires_grad_()
            tree = one_tree(forest, k)
            tree.energy(tree.route(alone), Y, T=0.7)[0].backward()
            assert alone.grad is not None
            total += alone.grad / 3
        assert shared.grad is not None
        assert torch.allclose(shared.grad, total)


def test_the_mean_age_of_a_drf_is_the_papers_sum_of_p_times_mu() -> None:
    forest = forests()[0]
    assert isinstance(forest, GaussianForest)
    log_p = forest.route(UNITS)
    paper = (log_p.exp() * forest.mean).sum(-1).mean(-1)
    assert ages.mean(forest.pmf(log_p).numpy(), GRID) == pytest.approx(paper.numpy(), abs=1e-3)


def test_the_output_of_a_dldlf_is_the_mean_of_its_trees_outputs() -> None:
    forest = forests()[1]
    assert isinstance(forest, CategoricalForest)
    log_p = forest.route(UNITS)
    trees = categorical.log_output(log_p, forest.log_pi.exp()).exp()
    assert torch.allclose(forest.pmf(log_p), trees.mean(1))
    read = ages.read(forest.pmf(log_p).numpy(), forest.readout, GRID)
    assert read.tolist() == trees.mean(1).argmax(-1).tolist()
