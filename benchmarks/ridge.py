"""Ridge regression on the features that a frozen run was trained on, tested on the same faces.

    agecli train --data DIR --freeze --out runs/NAME
    python -m benchmarks.ridge runs/NAME

The penalty is chosen on the validation part; the final regression is fitted on the training and validation parts.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import Tensor

from agecli.core.files import read_csv
from agecli.model.checkpoint import load_checkpoint
from agecli.training.features import compute_features
from agecli.training.run_folder import open_run, read_faces

PENALTIES = [10.0 ** (exponent / 4) for exponent in range(-8, 25)]


def ridge(x: Tensor, y: Tensor, penalty: float) -> tuple[Tensor, Tensor]:
    """Weights (D,) and intercept of ridge regression on features x (n, D) and ages y (n,)."""
    centre = y.mean()
    weights = torch.linalg.solve(x.T @ x + penalty * torch.eye(x.shape[1], dtype=x.dtype), x.T @ (y - centre))
    return weights, centre


def main(folder: Path) -> None:
    """Print the test MAE of the run and of ridge regression, for each fold."""
    run = open_run(folder)
    manifest, folds = read_faces(run)
    ages = torch.tensor([sample.age for sample in manifest.samples], dtype=torch.double)
    features: Tensor | None = None
    for fold in folds:
        model = load_checkpoint(run.checkpoint(fold.number)).model
        if features is None:
            device = torch.device("cpu")
            features = compute_features(
                model, run.config.backbone.name, manifest.folder, manifest.samples, device
            ).values
        inputs = {"standardised": model.scale(features).double(), "raw": features.double()}
        train, val, test = (torch.tensor(part) for part in (fold.train, fold.val, fold.test))

        def error(x: Tensor, penalty: float, train: Tensor, test: Tensor) -> float:
            weights, centre = ridge(x[train], ages[train], penalty)
            return (x[test] @ weights + centre - ages[test]).abs().mean().item()

        ours = read_csv(run.fold(fold.number) / "metrics.csv")[0]["mae"]
        for kind, x in inputs.items():
            _, best = min((error(x, penalty, train, val), penalty) for penalty in PENALTIES)
            both = error(x, best, torch.cat((train, val)), test)
            print(
                f"fold {fold.number}: {run.config.model} {ours}, ridge {both:.4f} ({kind} features, penalty {best:.3g})"
            )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
