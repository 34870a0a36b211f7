"""Whether learning starts with any backbone: 100 iterations on drawn faces, with the paper's annealing and without.

    python -m benchmarks.starting [--edgeface FILE] [--imagenet] [--plain]

For each backbone the MAE of the last training batches as a share of that of the median age (1: nothing was learned), and the
entropy of the routing as a share of log L (1: every face reaches every leaf). `--plain` switches the standardising of f's
inputs off, to compare.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import agecli
from agecli.core.config import Config
from agecli.core.files import read_csv
from agecli.datasets.toy import draw_faces

ITERATIONS, FACES = 100, 360
COMMON = {
    "data.val_share": 0.0,
    "training.select": "last",
    "forest.update_every": 10,  # ten leaf updates, so that annealing has somewhere to go
    "training.warmup": 10,
    "training.refresh_leaves": False,
    "training.save_every": 1e6,
}
COOL = {"forest.split_temperature": 0.0, "forest.leaf_temperature": 1.0}


def cases(edgeface: str | None, imagenet: bool) -> Iterator[tuple[str, str, int]]:
    """Backbone, weights, and the size of its input: small, as there are no details to see in these faces."""
    yield "timm:edgenext_small", "none", 96
    if edgeface:
        yield "edgeface_s", edgeface, 112
    for name in ("resnet18", "vgg16"):
        yield name, "none", 64
        if imagenet:
            yield name, "imagenet", 64


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edgeface", help="a file with EdgeFace's weights")
    parser.add_argument(
        "--imagenet", action="store_true", help="ImageNet weights, too: downloaded if they are not here"
    )
    parser.add_argument("--plain", action="store_true", help="without standardising the inputs of f")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        faces = Path(folder) / "faces"
        draw_faces(faces, FACES)
        age = np.array([float(row["age"]) for row in read_csv(faces / "labels.csv")])
        median = np.abs(age - np.median(age)).mean()
        print(f"{'backbone':22s} {'weights':9s} annealing  MAE / median's  entropy / log L")
        for number, (name, weights, size) in enumerate(cases(asked.edgeface, asked.imagenet)):
            for annealed in (True, False):
                settings = {
                    **COMMON,
                    **({} if annealed else COOL),
                    "data.size": size,
                    "forest.standardise": not asked.plain,
                    "training.lr": 3e-4,
                }
                out = Path(folder) / f"run-{number}-{annealed}"
                more: dict[str, Any] = {
                    "backbone": name,
                    "weights": weights,
                    "iterations": ITERATIONS,
                    "batch_size": 16,
                }
                agecli.train(faces, out=out, settings=settings, **more)
                last = read_csv(out / "fold-1/history.csv")[-1]
                entropy = float(last["entropy"]) / np.log(Config().forest.leaves)
                share = float(last["train_mae"]) / median
                kind = weights if weights in ("none", "imagenet") else "file"
                print(f"{name:22s} {kind:9s} {annealed!s:9s}  {share:14.2f}  {entropy:15.3f}", flush=True)


if __name__ == "__main__":
    main()
