"""How to pool the frames of a person: five rules, on photos that stand for four frames each, turned, shrunk and blurred.

    python -m benchmarks.frames FOLDER --list held-out.txt [--limit 200]

FOLDER has a labels.csv. Prints the MAE, the coverage and the mean width of the 90 % interval for each rule, as a Markdown table.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter

import agecli
from agecli.core.files import read_csv
from agecli.model.bundled import named
from agecli.model.predictors import load_predictor
from agecli.prediction.estimation import records_of
from agecli.prediction.options import Options
from agecli.prediction.persons import FULL_SIDE

FRAMES = 4
Floats = NDArray[np.float64]


def frames(photo: Image.Image, draw: np.random.Generator) -> list[Image.Image]:
    """The photo, turned by up to 15 degrees, shrunk to 18 to 100 % and, one time in three, blurred."""
    made = []
    for _ in range(FRAMES):
        share = draw.uniform(0.18, 1)
        frame = photo.rotate(draw.uniform(-15, 15), Image.Resampling.BILINEAR)
        frame = frame.resize((max(1, round(photo.width * share)), max(1, round(photo.height * share))))
        made.append(frame.filter(ImageFilter.GaussianBlur(1.5)) if draw.random() < 1 / 3 else frame)
    return made


def pools(p: Floats, area: Floats) -> dict[str, Floats]:
    """The distribution of a person by each rule.   p: (n, A), of its frames;   area: (n,), of its face, in pixels^2"""
    logs = np.log(p.clip(1e-9))
    rules = {
        "first frame alone": p[0],
        "average": p.mean(0),
        "**average, weighted by area**": (p * area[:, None]).sum(0),
        "mean of logarithms": np.exp(logs.mean(0)),
        "product": np.exp(logs.sum(0) - logs.sum(0).max()),
    }
    return {name: pmf / pmf.sum() for name, pmf in rules.items()}


def main() -> None:
    """Predict all frames, pool them, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--list", type=Path, help="only these photos: one name per line")
    parser.add_argument("--limit", type=int, default=200)
    options = parser.parse_args()
    wanted = set(options.list.read_text(encoding="utf-8").split("\n")) if options.list else None
    rows = [row for row in read_csv(options.folder / "labels.csv") if wanted is None or row["path"] in wanted]
    estimator, card = agecli.load(), load_predictor(named(None, ".onnx"), "cpu").card
    draw = np.random.default_rng(0)
    pooled: dict[str, list[Floats]] = {}
    true = []
    for row in rows[:: max(1, len(rows) // options.limit)][: options.limit]:
        photo = Image.open(options.folder / row["path"]).convert("RGB")
        records = list(estimator.predict(frames(photo, draw), largest=True, distribution=True))
        found = [record for record in records if record.distribution and record.box]
        if len(found) < FRAMES:  # a face that is lost in some frames would be compared on others
            continue
        p = np.array([record.distribution for record in found])
        area = np.array([min(FULL_SIDE, *record.box[2:]) ** 2.0 for record in found if record.box])
        for name, pmf in pools(p, area).items():
            pooled.setdefault(name, []).append(pmf)
        true.append(float(row["age"]))
    age = np.array(true)
    print(f"{len(age)} people\n\n| | MAE | coverage of the 90 % interval | width, years |\n|---|---|---|---|")
    for name, pmfs in pooled.items():
        made = records_of(np.stack(pmfs)[:, card.grid.low :], card, Options())
        values = np.array([(record.age, record.low, record.high) for record in made], dtype=float)
        inside = (values[:, 1] <= age) & (age <= values[:, 2])
        mae, width = np.abs(values[:, 0] - age).mean(), (values[:, 2] - values[:, 1]).mean()
        print(f"| {name} | {mae:.2f} | {inside.mean():.0%} | {width:.1f} |")


if __name__ == "__main__":
    main()
