"""Evaluate the default model on held-out photos through `agecli predict`, detection and alignment included.

    python models/recipe/measure.py --train UTKFACE AAF APPA WIKI --test FGNET

Of the sets it was trained on, only the held-out tenth is used. A photo without a face counts as the median of all training
ages, with no interval. Writes measured.csv beside the model, and the tables of its card.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from build import part_of, set_name

import agecli
from agecli.core.ages import AgeGrid
from agecli.core.files import write_csv, write_text
from agecli.core.records import Sample
from agecli.datasets.manifest import read_manifest
from agecli.scoring.groups import GROUP_COLUMNS, breakdown
from agecli.scoring.metrics import Predictions

SHOWN = ("all", "decade", "sex", "race")
MARKS = "<!-- measured -->", "<!-- /measured -->"


def photos(folder: Path, trained_on: bool, wanted: Sequence[str]) -> tuple[list[Sample], list[float]]:
    """The samples of the wanted parts of a data set, and the ages of its training part."""
    everyone = read_manifest(folder, AgeGrid()).samples
    parts = [part_of(f"{set_name(folder)}/{sample.path}") if trained_on else "test" for sample in everyone]
    others = [sample.age for sample, part in zip(everyone, parts, strict=True) if part == "train"]
    return [sample for sample, part in zip(everyone, parts, strict=True) if part in wanted], others


def predict(folder: Path, samples: Sequence[Sample], median: float, model: Path, readout: str | None) -> Predictions:
    """Predictions for the largest face of each photo; `median` where no face is found."""
    names = [folder / sample.path for sample in samples]
    records = list(agecli.predict(names, model=model, largest=True, distribution=True, readout=readout))
    missed = [record.source for record in records if record.age is None]
    print(f"{folder.name}: {len(samples)} photos, {len(missed)} without a face", flush=True)
    grid = AgeGrid()
    pmf = np.zeros((len(samples), len(grid)), np.float32)
    for row, record in zip(pmf, records, strict=True):
        row[:] = record.distribution if record.distribution else np.arange(len(grid)) == round(median)
    columns = {
        name: np.array([median if getattr(record, name) is None else getattr(record, name) for record in records])
        for name in ("age", "std", "low", "high")
    }
    age, std, low, high = columns.values()
    return Predictions(tuple(samples), pmf, grid, age, std, low, high, calibrated=True)


def table(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """The rows for all faces and for single groups, as Markdown."""
    yield "| | photos | MAE | 95 % CI | CS@5 | bias | in the 90 % interval | its width |"
    yield "|---|---|---|---|---|---|---|---|"
    for row in rows:
        if row["by"] in SHOWN and row["images"]:
            interval = "" if row["mae_low"] in ("", None) else f"{row['mae_low']:.2f} to {row['mae_high']:.2f}"
            name = "**all**" if row["by"] == "all" else row["group"] + (" (few)" if row["small"] else "")
            yield (
                f"| {name} | {row['images']} | {row['mae']:.2f} | {interval} | {row['cs5']:.1%} | {row['bias']:+.2f} "
                f"| {row['coverage']:.1%} | {row['width']:.1f} |"
            )


def main() -> None:
    """Measure, print, and write measured.csv and the tables of the model card."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", type=Path, nargs="+", default=[])
    parser.add_argument("--test", type=Path, nargs="*", default=[])
    parser.add_argument("--models", type=Path, default=Path("models"))
    parser.add_argument("--readout")
    parser.add_argument("--list", type=Path, help="only write the names of the photos that were held out to this file")
    parser.add_argument(
        "--parts", nargs="+", default=["test"], help="test, and val: not trained on, but used for selection"
    )
    options = parser.parse_args()
    chosen = {
        folder: photos(folder, folder in options.train, options.parts) for folder in (*options.train, *options.test)
    }
    if options.list:
        write_text(options.list, "".join(f"{sample.path}\n" for samples, _ in chosen.values() for sample in samples))
        return
    median = float(np.median([age for _, others in chosen.values() for age in others]))
    rows: list[dict[str, Any]] = []
    text: list[str] = []
    for folder, (samples, others) in chosen.items():
        predictions = predict(folder, samples, median, options.models / "default.onnx", options.readout)
        here = breakdown(predictions)
        balanced = np.mean([row["mae"] for row in here if row["by"] == "decade" and row["images"]])
        print(
            f"  MAE {here[0]['mae']}, balanced over decades {balanced:.2f}, CS@5 {here[0]['cs5']}, bias {here[0]['bias']},"
            f" coverage {here[0]['coverage']}, width {here[0]['width']}",
            flush=True,
        )
        rows += [{"data": folder.name, **row} for row in here]
        text += ["", f"**{folder.name}**" + (" (the tenth that was held out)" if others else ""), "", *table(here)]
    write_csv(options.models / "measured.csv", rows, ("data", *GROUP_COLUMNS))
    card = (options.models / "README.md").read_text(encoding="utf-8")
    inside = re.compile(f"(?<={MARKS[0]}\n).*(?={MARKS[1]})", re.S)
    write_text(options.models / "README.md", inside.sub(lambda _: "\n".join(text).strip() + "\n", card))


if __name__ == "__main__":
    main()
