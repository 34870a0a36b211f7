"""Draw the figures of docs/algorithm.md: small forests that are really trained, by the code of the package, on one made-up feature.

python docs/algorithm_figures.py
"""

from __future__ import annotations

from pathlib import Path

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn

from agecli.core.ages import AgeGrid
from agecli.core.config import Config, replace
from agecli.forest import gaussian, starts
from agecli.forest.forests import Forest, GaussianForest
from agecli.forest.routing import draw_phi
from agecli.forest.schedules import leaf_temperature, split_temperature
from agecli.model.network import build_forest, start_leaves
from agecli.reports.figures.style import COLOURS, GREY, TEXT_WIDTH, drawn
from agecli.training.batches import Stream, feature_batches
from agecli.training.loop import Learner, Progress, fit
from agecli.training.optimisation import Part, make_optimiser

FOLDER = Path(__file__).parent / "figures"
CPU = torch.device("cpu")
SETTINGS = {
    "forest.trees": 1,
    "forest.depth": 4,  # 8 leaves: few enough to draw
    "forest.units": 7,
    "forest.units_std": 0.5,
    "forest.update_every": 20,
    "training.iterations": 900,
    "training.batch_size": 64,
    "training.lr": 0.03,
    "training.weight_decay": 0.0,
}


def faces(count: int = 1500) -> tuple[Tensor, Tensor]:
    """A made-up task: one feature, "wrinkles" in [0, 1], and ages that grow with it, less surely for the old.

    Returns (n, 1) and (n,), in years.
    """
    source = torch.Generator().manual_seed(0)
    wrinkles = torch.rand(count, generator=source)
    ages = 5 + 75 * wrinkles**1.3 + (1 + 7 * wrinkles) * torch.randn(count, generator=source)
    return wrinkles[:, None], ages.clamp(0, 100)


def basis(wrinkles: Tensor) -> Tensor:
    """What stands for the backbone: the feature, centred and scaled.   (n, 1) -> (n, 1)"""
    return (wrinkles - 0.5) * 6


def trained(seed: int = 0, **changes: object) -> tuple[Learner, list[Progress]]:
    """A forest of SETTINGS and some changes (double underscores for dots) after its training, and its history."""
    config = replace(Config(), {**SETTINGS, **{name.replace("__", "."): value for name, value in changes.items()}})
    wrinkles, y = faces()
    torch.manual_seed(seed)
    network = nn.Linear(1, config.forest.units)
    forest = build_forest(config, draw_phi(1, config.forest.splits, config.forest.units, generator(0)), AgeGrid())
    start_leaves(forest, y, seed)
    learner = Learner(network, forest, make_optimiser([Part(list(network.parameters()))], config.training), config, CPU)
    stream = Stream(len(y), config.training.batch_size, seed, 0, config.training.iterations)
    steps = list(fit(learner, feature_batches(basis(wrinkles), y, stream)))
    return learner, [step.progress for step in steps if step.progress]


def generator(seed: int) -> torch.Generator:
    """A source of random numbers."""
    return torch.Generator().manual_seed(seed)


@torch.no_grad()
def routing(learner: Learner, wrinkles: Tensor) -> Tensor:
    """log P(l | x).   (n, 1) -> (n, 1, L)"""
    return learner.forest.route(learner.network(basis(wrinkles)))


@drawn
def routing_figure(learner: Learner, soft: Learner) -> Figure:
    """The tree for one face, and P(l | x) for all faces, in the middle of the annealing and at the end."""
    figure = Figure(figsize=(TEXT_WIDTH, 5.2), layout="constrained")
    grid = figure.add_gridspec(2, 2, height_ratios=[1.25, 1])
    _tree(figure.add_subplot(grid[0, :]), learner, 0.45)
    for column, (model, title) in enumerate(((soft, "early: soft"), (learner, "at the end: sharper"))):
        axes = figure.add_subplot(grid[1, column])
        wrinkles = torch.linspace(0, 1, 200)[:, None]
        for leaf, curve in enumerate(routing(model, wrinkles)[:, 0].exp().T):
            axes.plot(wrinkles[:, 0], curve, color=_colour(leaf))
        axes.set(title=title, xlabel="x (wrinkles)", ylabel="P(l | x)", ylim=(0, 1.03))
    return figure


def _colour(leaf: int) -> str:
    return (*COLOURS, GREY, "#000000")[leaf]


def _tree(axes: Axes, learner: Learner, wrinkles: float) -> None:
    """Nodes with their probability of going left, edges as thick as the probability of passing them, and the leaves."""
    x = torch.tensor([[wrinkles]])
    forest = learner.forest
    assert isinstance(forest, GaussianForest)
    with torch.no_grad():
        left = learner.network(basis(x))[0, forest.phi[0]].sigmoid()  # s_n, breadth first
    leaves = routing(learner, x)[0, 0].exp()
    reach, places = [1.0], [(0.5, 3.0)]
    for node in range(7):
        px, py = places[node]
        for side, share in ((-1, float(left[node])), (1, 1 - float(left[node]))):
            step = 0.25 / 2 ** (3 - py)
            child = (px + side * step, py - 1)
            passed = reach[node] * share
            axes.plot(
                (px, child[0]),
                (py, child[1]),
                color="#0072B2",
                lw=0.4 + 9 * passed,
                alpha=0.35 + 0.6 * passed,
                zorder=1,
            )
            reach.append(passed)
            places.append(child)
        axes.plot(px, py, "o", ms=27, color="white", mec=GREY, zorder=2)
        axes.text(px, py, f"{left[node]:.2f}", ha="center", va="center", fontsize=8, zorder=3)
    for leaf, (px, py) in enumerate(places[7:]):
        axes.plot(px, py, "s", ms=15, color="white", mec=_colour(leaf), mew=2, zorder=2)
        axes.text(px, py - 0.38, f"P = {leaves[leaf]:.2f}", ha="center", va="center", fontsize=8)
        mean, std = forest.mean[0, leaf], forest.variance[0, leaf].sqrt()
        axes.text(px, py - 0.66, f"{mean:.0f} ± {std:.0f} y", ha="center", va="center", fontsize=8, color=GREY)
    assert torch.allclose(torch.tensor(reach[7:]), leaves, atol=1e-5)
    axes.set(xlim=(0, 1), ylim=(-0.85, 3.35))
    axes.set_axis_off()


@drawn
def leaves_figure(drf: Learner, dldlf: Learner) -> Figure:
    """The distribution of one face as the mixture of its leaves, for both families."""
    figure = Figure(figsize=(TEXT_WIDTH, 2.7), layout="constrained")
    for axes, learner, title in zip(
        figure.subplots(1, 2, sharey=True),
        (drf, dldlf),
        ("DRF: Gaussian leaves", "DLDLF: categorical leaves"),
        strict=True,
    ):
        forest = learner.forest
        assert isinstance(forest, Forest)
        log_p = routing(learner, torch.tensor([[0.45]]))
        years = torch.arange(121)
        shares = log_p[0, 0].exp()
        for leaf, pmf in enumerate(forest.leaf_pmf()[0]):
            axes.fill_between(years, shares[leaf] * pmf, color=_colour(leaf), alpha=0.35, lw=0)
        axes.plot(years, forest.pmf(log_p)[0], color="black")
        axes.set(title=title, xlabel="age in years", xlim=(0, 90))
    figure.axes[0].set_ylabel("probability of a year")
    return figure


@drawn
def bounding_figure(learner: Learner) -> Figure:
    """R over the rounds of one leaf update, from five random starts, and how far these end from each other for each tau."""
    wrinkles, y = faces(400)
    log_p = routing(learner, wrinkles)
    figure = Figure(figsize=(TEXT_WIDTH, 2.7), layout="constrained")
    risk, means = figure.subplots(1, 2)
    for start in range(5):
        risks = [float(gaussian.risk(log_p, y, leaves)) for leaves in _rounds(log_p, y, start, 1.0, 20)]
        risk.plot(risks, color=COLOURS[start])
    risk.set(xlabel="rounds of variational bounding", ylabel="R (NLL in nats)", xticks=(0, 5, 10, 15, 20))
    blind = torch.full_like(log_p, -torch.tensor(8.0).log().item())  # routing that has learned nothing
    for place, tau in enumerate((1.0, 0.95, 0.9, 0.5)):
        for start in range(5):
            leaves = _rounds(blind, y, start, tau, 200)[-1]
            means.plot([place + (start - 2) * 0.12] * 8, leaves.mean[0], "o", ms=3.5, color=COLOURS[start])
    means.set(xticks=range(4), xticklabels=("1", "0.95", "0.9", "0.5"), xlabel="τ", ylabel="means of the leaves, years")
    return figure


def _rounds(log_p: Tensor, y: Tensor, start: int, tau: float, rounds: int) -> list[gaussian.Gaussians]:
    """The leaves of a random start, and after each round of a leaf update."""
    leaves = [starts.uniform(y, 1, 8, generator(start))]
    for _ in range(rounds):
        sums = gaussian.accumulate(gaussian.responsibility(log_p, y, leaves[-1], tau), y, 40.0)
        leaves.append(gaussian.solve(sums, leaves[-1], 0.5, 40.0))
    return leaves


@drawn
def annealing_figure(annealed: list[list[Progress]], plain: list[list[Progress]]) -> Figure:
    """The schedules, and the entropy of the routing and R in trainings from uninformed starts, with and without annealing."""
    figure = Figure(figsize=(TEXT_WIDTH, 2.7), layout="constrained")
    schedules, entropies, risks = figure.subplots(1, 3)
    updates = range(len(annealed[0]))
    schedules.plot(updates, [split_temperature(n, 1.0, 0.9) for n in updates], color=COLOURS[0], label="T")
    schedules.plot(updates, [leaf_temperature(n, 0.5, 0.9) for n in updates], "--", color=COLOURS[1], label="τ")
    schedules.set(title="schedules", xlabel="leaf updates")
    schedules.legend()
    for histories, colour, line, label in ((annealed, COLOURS[0], "-", "T and τ"), (plain, COLOURS[1], "--", "none")):
        for number, history in enumerate(histories):
            name = label if number == 0 else None
            entropies.plot([progress.entropy for progress in history], line, color=colour, lw=1, label=name)
            risks.plot([progress.nll for progress in history], line, color=colour, lw=1)
    entropies.set(title="H, entropy of the routing", xlabel="leaf updates", ylabel="nats", ylim=(0, None))
    risks.set(title="R", xlabel="leaf updates", ylabel="nats")
    entropies.legend(title="annealing")
    return figure


def figures() -> dict[str, bytes]:
    """The SVG files of the page, by name."""
    learner, _ = trained()
    soft, _ = trained(training__iterations=240)
    dldlf, _ = trained(model="dldlf")
    uninformed = {"forest__leaf_init": "uniform"}
    off = {"forest__split_temperature": 0.0, "forest__leaf_temperature": 1.0}
    return {
        "algorithm-routing.svg": routing_figure(learner, soft),
        "algorithm-leaves.svg": leaves_figure(learner, dldlf),
        "algorithm-bounding.svg": bounding_figure(learner),
        "algorithm-annealing.svg": annealing_figure(
            [trained(seed, **uninformed)[1] for seed in range(4)],
            [trained(seed, **uninformed, **off)[1] for seed in range(4)],
        ),
    }


def main() -> None:
    """Write the figures."""
    torch.set_num_threads(1)  # small tensors: more threads only wait for each other
    for name, content in figures().items():
        (FOLDER / name).write_bytes(content)


if __name__ == "__main__":
    main()
