"""A forest is the mean of its trees, in its loss, its gradient and its prediction."""

from __future__ import annotations

import pytest
import torch

from agecli.core import ages
from agecli.core.ages import AgeGrid
from agecli.forest import categorical
from agecli.forest.forests import CategoricalForest, Forest, GaussianForest
from agecli.forest.gaussian import Gaussians
from agecli.forest.grids import youth_prior
from agecli.forest.regression import Regression
from agecli.forest.routing import draw_phi
from agecli.forest.starts import start_gaussians

GRID = AgeGrid(0, 80)


def forests() -> list[Forest]:
    generator = torch.Generator().manual_seed(0)
    phi = draw_phi(3, 7, 9, generator)
    start = start_gaussians("quantiles", torch.arange(81.0), 3, 8, 0.5, generator)
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


def test_an_update_of_no_rounds_leaves_the_leaves_as_they_are() -> None:
    drf = forests()[0]
    assert isinstance(drf, GaussianForest)
    nrf = GaussianForest(drf.phi, drf.leaves, GRID, 0.5, posterior=False)
    for forest in (*forests(), nrf):
        before = {name: value.clone() for name, value in forest.state_dict().items()}
        forest.update(forest.route(UNITS), Y, 1.0, 0)
        assert all(torch.equal(value, before[name]) for name, value in forest.state_dict().items())


def test_a_prior_multiplies_the_distributions_and_lowers_ages() -> None:
    for forest in forests():
        before = forest.pmf(forest.route(UNITS))
        forest.prior = youth_prior(GRID, 1.0).double()
        after = forest.pmf(forest.route(UNITS))
        assert torch.allclose(after.sum(-1), torch.ones(5, dtype=torch.double))
        odds = (after[:, 40] / after[:, 17]) / (before[:, 40] / before[:, 17])
        assert torch.allclose(odds, torch.full_like(odds, 20 / 43))
        assert torch.allclose(forest.finished()(UNITS.float()).double(), after, atol=1e-6)
        assert (after @ torch.arange(81.0).double() < before @ torch.arange(81.0).double()).all()


def test_a_prior_is_flat_from_an_age_on() -> None:
    prior, falling = youth_prior(GRID, 2.0, until=30), youth_prior(GRID, 2.0)
    assert torch.equal(prior[:31], falling[:31])
    assert (prior[30:] == prior[30]).all()
    assert (falling.diff() < 0).all()


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


def test_one_tree_of_a_forest_can_learn_alone() -> None:
    for forest in forests():
        for k in range(3):
            E, R, H = forest.energy(forest.route(UNITS), Y, 0.7, k)
            tree = one_tree(forest, k)
            alone = tree.energy(tree.route(UNITS), Y, 0.7)
            assert all(torch.allclose(one, two) for one, two in zip((E, R, H), alone, strict=True))


def test_a_finished_forest_says_what_the_forest_says() -> None:
    for forest in forests():
        table = forest.finished()
        assert torch.allclose(table(UNITS.float()), forest.pmf(forest.route(UNITS.float())).float(), atol=1e-6)


def test_without_the_posterior_a_leaf_is_the_plain_weighted_mean_of_ages() -> None:
    drf = forests()[0]
    assert isinstance(drf, GaussianForest)
    nrf = GaussianForest(drf.phi, Gaussians(drf.mean.clone(), drf.variance.clone()), GRID, 0.5, posterior=False)
    log_p = nrf.route(UNITS)
    nrf.update(log_p, Y, 1.0, 20)
    weight = log_p.exp()
    mean = (weight * Y[:, None, None]).sum(0) / weight.sum(0)
    assert torch.allclose(nrf.mean, mean)
    assert torch.allclose(
        nrf.variance, ((weight * (Y[:, None, None] - mean) ** 2).sum(0) / weight.sum(0)).clamp_min(0.5)
    )
    drf.update(log_p, Y, 1.0, 20)
    assert not torch.allclose(drf.mean, mean)


def test_with_one_class_for_each_age_the_leaf_update_is_that_of_dndf() -> None:
    """[eqn:update_leaf_cls], written out face by face."""
    forest = forests()[1]
    assert isinstance(forest, CategoricalForest)
    forest.alpha, forest.pseudo_count = 0.0, 0.0
    log_p, pi = forest.route(UNITS), forest.log_pi.exp()
    rho = log_p.exp() * pi[:, :, Y.long()].permute(2, 0, 1)  # (B, K, L)
    rho = rho / rho.sum(-1, keepdim=True)
    expected = torch.zeros_like(pi)
    for i, y in enumerate(Y.long().tolist()):
        expected[:, :, y] += rho[i]
    forest.update(log_p, Y, 1.0, 1)
    assert torch.allclose(forest.log_pi.exp(), expected / expected.sum(-1, keepdim=True))


def test_regression_is_the_squared_error_and_its_mean_is_what_it_says() -> None:
    top = Regression(GRID, 0.5)
    top.start(torch.arange(81.0), torch.Generator())
    units = torch.tensor([[-1.2], [0.1], [1.0]]).requires_grad_()
    y = torch.tensor([10.0, 42.0, 60.0])
    said = top.route(units)
    E, R, H = top.energy(said, y, T=0.7)
    E.backward()
    assert units.grad is not None
    assert torch.allclose(units.grad[:, 0], 2 * (said - y).detach() / top.spread / 3)
    assert R == E
    assert H == 0
    top.update(said.detach(), y, 1.0, 20)
    assert top.variance.item() == pytest.approx(R.item() * top.spread.item() ** 2, rel=1e-5)
    pmf = top.pmf(said.detach())
    assert torch.allclose(pmf.sum(-1), torch.ones(3))
    assert ages.mean(pmf.numpy(), GRID) == pytest.approx(said.detach().numpy(), abs=1e-3)
    assert torch.allclose(top.finished()(units.detach()), pmf)
