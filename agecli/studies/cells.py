"""The cells of each study: the settings of every run, and the paper's result for it.

A study is a function that returns its cells; a new one is a new function in `ANY_SETUP`, and a figure in
`studies.figures.FIGURES`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from agecli.core.errors import InputError
from agecli.forest.starts import STARTS
from agecli.studies.paper import ABLATION, BENCHMARKS, OURS

FAMILIES = {"drf": "DRF", "dldlf": "DLDLF"}
FORESTS = 20  # random assignments of the study `phi`, unless it is told another number


@dataclass(frozen=True)
class Cell:
    """One run of a study."""

    name: str  # of its run folder, and of its row in study.csv
    label: str  # as in the paper
    settings: Mapping[str, Any]  # by their dotted names, over those of the study
    group: str = ""  # the line of the figure that it belongs to
    x: float | None = None  # the value that the study varies
    paper_mae: float | None = None  # years
    paper_cs5: float | None = None  # share


@dataclass(frozen=True)
class Study:
    """One of the paper's experiments."""

    name: str
    about: str  # one line
    cells: tuple[Cell, ...]
    reference: str  # name of the cell that the others are compared with, paired by face
    varies: str = ""  # label of x
    training: bool = False  # whether cells are measured on their training parts, too

    @property
    def settings(self) -> set[str]:
        """The dotted names of the settings that it varies, which options can't set."""
        return {name for cell in self.cells for name in cell.settings}


def annealing(T: float, tau: float, start: str) -> dict[str, Any]:
    """Settings: initial temperature of the splits, inverse temperature of the leaves, initialisation of the leaves."""
    return {"forest.split_temperature": T, "forest.leaf_temperature": tau, "forest.leaf_init": start}


def ablation() -> Study:
    """The rows of the paper's ablation table: without annealing, with k-means leaves, and the baselines."""
    runs: dict[str, dict[str, Any]] = {
        "dndf": {"model": "dndf", "forest.alpha": 0.0, "forest.ensemble": "alternating", **annealing(0, 1, "uniform")},
        "regression": {"model": "regression", **annealing(0, 1, "uniform")},
        "drf-nrf": {"model": "drf-nrf", **annealing(0, 1, "kmeans")},
        "dldlf-T0": {"model": "dldlf", **annealing(0, 1, "uniform")},
        "dldlf": {"model": "dldlf", **annealing(1, 1, "uniform")},
        "drf-T0-tau1-kmeans": {"model": "drf", **annealing(0, 1, "kmeans")},
        "drf-T0-tau1": {"model": "drf", **annealing(0, 1, "uniform")},
        "drf-tau1-kmeans": {"model": "drf", **annealing(1, 1, "kmeans")},
        "drf-T0": {"model": "drf", **annealing(0, 0.5, "uniform")},
        "drf": {"model": "drf", **annealing(1, 0.5, "uniform")},
    }
    cells = tuple(
        Cell(name, ABLATION[name].method, settings, "", None, ABLATION[name].mae, ABLATION[name].cs5)
        for name, settings in runs.items()
    )
    return Study("ablation", "effect of each part of the method (the paper: MORPH, Setup I)", cells, "drf")


def trees() -> Study:
    """1 to 20 trees, trained jointly or alternating, for DRF and DLDLF."""
    cells = tuple(
        Cell(
            f"{model}-{ensemble}-{K}",
            f"{title}, {ensemble}, {K} trees" if K > 1 else f"{title}, {ensemble}, 1 tree",
            {"model": model, "forest.ensemble": ensemble, "forest.trees": K},
            f"{title}, {ensemble}",
            K,
        )
        for model, title in FAMILIES.items()
        for ensemble in ("joint", "alternating")
        for K in (1, 2, 3, 5, 10, 15, 20)
    )
    return Study("trees", "number of trees, trained jointly or one at a time", cells, "drf-joint-5", "number of trees")


def depth() -> Study:
    """Trees of depth 2 to 10, for DRF and DLDLF. There are at least as many units of f as split nodes of a tree."""
    cells = tuple(
        Cell(
            f"{model}-{h}",
            f"{title}, depth {h}",
            {"model": model, "forest.depth": h, "forest.units": max(128, 2 ** (h - 1) - 1)},
            title,
            h,
        )
        for model, title in FAMILIES.items()
        for h in range(2, 11)
    )
    return Study("depth", "depth of the trees", cells, "drf-6", "tree depth")


def alpha() -> Study:
    """The std of the label distributions of DLDLF, 0 to 10 years."""
    cells = tuple(
        Cell(f"dldlf-{a:g}", f"DLDLF, α = {a:g}", {"model": "dldlf", "forest.alpha": a}, "DLDLF", a)
        for a in (0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0)
    )
    return Study("alpha", "std of the label distributions (DLDLF)", cells, "dldlf-2", "α, years")


def phi(forests: int = FORESTS) -> Study:
    """Random assignments of units of f to split nodes; the paper has 50."""
    cells = tuple(
        Cell(f"phi-{n}", f"DRF, assignment {n}", {"model": "drf", "forest.assignment": n}, "DRF", n)
        for n in range(1, forests + 1)
    )
    return Study("phi", "random assignment of units to split nodes", cells, "phi-1", "assignment")


def entropy() -> Study:
    """The entropy of the routing during training, with and without annealing of the split temperature."""
    cells = tuple(
        Cell(
            f"{model}-{name}",
            f"{title} ({variant})",
            {"model": model, "forest.split_temperature": T, "training.full_entropy": True},
            title,
        )
        for model, title in FAMILIES.items()
        for name, variant, T in (("annealed", "full model", 1.0), ("T0", "T=0", 0.0))
    )
    return Study("entropy", "entropy of the routing during training, with and without annealing", cells, "drf-annealed")


ANNEALED = {  # T_0 and tau_0 of each kind of annealing
    "no annealing": (0.0, 1.0),
    "τ only": (0.0, 0.5),
    "T only": (1.0, 1.0),
    "T and τ": (1.0, 0.5),
}


def initialisation() -> Study:
    """Starts of the leaves of a DRF, each without annealing, with either, and with both; run it with several seeds."""
    cells = tuple(
        Cell(
            f"{start}-T{T:g}-tau{tau:g}",
            f"{start}, {kind}",
            {"model": "drf", **annealing(T, tau, start)},
            start,
            place,
        )
        for place, (kind, (T, tau)) in enumerate(ANNEALED.items())
        for start in STARTS
    )
    about = "whether a DRF depends on how its leaves start, with and without annealing"
    return Study("initialisation", about, cells, "quantiles-T1-tau0.5", "annealing", training=True)


def cacd() -> Study:
    """DRF and DLDLF trained on the training and on the validation celebrities of CACD, tested on the same ones."""
    cells = tuple(
        Cell(
            f"{model}-{part}",
            f"{FAMILIES[model]}, {BENCHMARKS[f'cacd-{part}'][0]}",
            {"model": model, "data.setup": f"cacd-{part}"},
            FAMILIES[model],
            place,
            next(row.mae for row in BENCHMARKS[f"cacd-{part}"][1] if row.method == FAMILIES[model]),
        )
        for place, part in enumerate(("train", "val"))
        for model in ("dldlf", "drf")
    )
    return Study("cacd", "DRF and DLDLF on CACD, as the paper's table of both training sets", cells, "drf-train")


def benchmark(setup: str) -> Study:
    """DRF and DLDLF under a setup, with the results of the paper's table for it, if it has one."""
    printed = {OURS[row.method]: row for row in BENCHMARKS.get(setup, ("", ()))[1] if row.method in OURS}
    cells = tuple(
        Cell(
            model,
            FAMILIES[model],
            {"model": model},
            "",
            None,
            printed[model].mae if model in printed else None,
            printed[model].cs5 if model in printed else None,
        )
        for model in ("dldlf", "drf")
    )
    return Study("benchmark", "DRF and DLDLF under a setup, compared with the paper's table", cells, "drf")


ANY_SETUP: dict[str, Callable[[], Study]] = {
    function.__name__: function for function in (ablation, initialisation, trees, depth, alpha, phi, entropy, cacd)
}
STUDIES = (*ANY_SETUP, "benchmark")


def find_study(name: str, setup: str, forests: int | None = None) -> Study:
    """The study with this name; `benchmark` depends on the setup. Raises InputError if there is none.

    forests: random assignments of `phi`, at least 2
    """
    if name not in STUDIES:
        raise InputError(f"there is no study `{name}`", hint=f"there are: {', '.join(STUDIES)}")
    if forests is not None:
        if name != "phi" or forests < 2:
            raise InputError(f"--forests {forests} can't be used", hint="it is for the study `phi`, and at least 2")
        return phi(forests)
    return benchmark(setup) if name == "benchmark" else ANY_SETUP[name]()
