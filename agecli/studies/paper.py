"""The results in the paper's tables, to compare with. MAE in years, CS@5 as a share.

`BENCHMARKS` are its tables of methods, by setup; `ABLATION` is its ablation table, by the name of our cell.
"""

from __future__ import annotations

from typing import NamedTuple


class Printed(NamedTuple):
    """A row of one of the tables."""

    method: str
    mae: float
    cs5: float | None = None  # None if the table has none
    read: bool = False  # a * in the table: CS@5 was read from a curve in the reference


OURS = {"DRF": "drf", "DLDLF": "dldlf"}  # the paper's own methods, and their names in agecli

BENCHMARKS: dict[str, tuple[str, tuple[Printed, ...]]] = {  # by setup
    "I": (
        "MORPH, Setup I",
        (
            Printed("Human workers", 6.30, 0.510, read=True),
            Printed("AGES", 8.83, 0.468, read=True),
            Printed("MTWGP", 6.28, 0.521, read=True),
            Printed("CA-SVR", 5.88, 0.579),
            Printed("SVR", 5.77, 0.571),
            Printed("DLA", 4.77, 0.634, read=True),
            Printed("Rank", 6.49, 0.495),
            Printed("Rothe", 3.45),
            Printed("DEX", 3.25),
            Printed("ARN", 3.00),
            Printed("DLDLF", 2.94, 0.847),
            Printed("DRF", 2.80, 0.856),
        ),
    ),
    "II": (
        "MORPH, Setup II",
        (
            Printed("IIS-LDL", 5.67, 0.712, read=True),
            Printed("CPNN", 4.87),
            Printed("Huerta", 4.25, 0.712),
            Printed("BFGS-LDL", 3.94),
            Printed("OHRank", 6.07, 0.563),
            Printed("OR-SVM", 4.21, 0.681, read=True),
            Printed("CCA", 4.73, 0.605, read=True),
            Printed("LSVR", 4.31, 0.662, read=True),
            Printed("OR-CNN", 3.27, 0.815),
            Printed("SMMR", 3.24),
            Printed("Ranking-CNN", 2.96, 0.852),
            Printed("DLDL", 2.42),
            Printed("Mean-Variance Loss", 2.41, 0.912),
            Printed("DLDLF", 2.19, 0.930),
            Printed("DRF", 2.14, 0.913),
        ),
    ),
    "III": (
        "MORPH, Setup III",
        (
            Printed("KPLS", 4.18),
            Printed("Guo and Mu", 3.92),
            Printed("CPLF", 3.63),
            Printed("DLDLF", 2.99, 0.856),
            Printed("DRF", 2.90, 0.827),
        ),
    ),
    "lopo": (
        "FG-NET",
        (
            Printed("Human workers", 4.70, 0.695, read=True),
            Printed("Rank", 5.79, 0.665, read=True),
            Printed("DIF", 4.80, 0.743, read=True),
            Printed("AGES", 6.77, 0.641, read=True),
            Printed("IIS-LDL", 5.77),
            Printed("CPNN", 4.76),
            Printed("MTWGP", 4.83, 0.723, read=True),
            Printed("CA-SVR", 4.67, 0.745),
            Printed("LARR", 5.07, 0.689, read=True),
            Printed("OHRank", 4.48, 0.744),
            Printed("DLA", 4.26),
            Printed("CAM", 4.12, 0.735, read=True),
            Printed("Rothe", 5.01),
            Printed("DEX", 4.63),
            Printed("Mean-Variance Loss", 4.10, 0.785, read=True),
            Printed("DLDLF", 3.71, 0.848),
            Printed("DRF", 3.47, 0.873),
        ),
    ),
    "cacd-train": ("CACD (train)", (Printed("DEX", 4.785), Printed("DLDLF", 4.679), Printed("DRF", 4.610))),
    "cacd-val": ("CACD (val)", (Printed("DEX", 6.521), Printed("DLDLF", 6.162), Printed("DRF", 5.630))),
}

ABLATION = {  # on MORPH, Setup I, in the order of its rows
    "dndf": Printed("DNDF", 3.32, 0.807),
    "regression": Printed("Deep Regression", 3.21, 0.811),
    "drf-nrf": Printed("DRF-NRF (k-means)", 3.51, 0.754),
    "dldlf-T0": Printed("DLDLF (T=0)", 3.02, 0.813),
    "dldlf": Printed("DLDLF (full model)", 2.94, 0.847),
    "drf-T0-tau1-kmeans": Printed("DRF (T=0, τ=1, k-means)", 2.91, 0.829),
    "drf-T0-tau1": Printed("DRF (T=0, τ=1)", 6.91, 0.478),
    "drf-tau1-kmeans": Printed("DRF (τ=1, k-means)", 2.85, 0.839),
    "drf-T0": Printed("DRF (T=0)", 2.85, 0.841),
    "drf": Printed("DRF (full model)", 2.80, 0.856),
}

PHI_STD = 0.01  # of the MAE over 50 random assignments, MORPH, Setup I
