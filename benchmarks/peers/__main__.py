"""Comparison of agecli with other offline age estimators: the same photos, one core, one run, one table.

    python -m benchmarks.peers --data fgnet utkface aaf
    python -m benchmarks.peers --data fgnet --list held-out.txt --out peers.csv

Every competitor gets the names of all photos and predicts the age of the largest face of each; photos are neither padded
nor cropped. A photo without a face counts as the median age of the measured photos of the folder. All run on one core
with one thread. The cold start is a new process for one photo, the minimum of three. Photos per second exclude it:
(N - 1) / (seconds for N photos - cold start), which is imprecise for a handful of photos. Ratios are a competitor's
number divided by agecli's. `cores` is CPU time divided by wall-clock time: well below 1, the core was shared.

The peers are installed into --work when first used: pip and npm need an index then, and nothing is downloaded later.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np

from agecli.core.ages import AgeGrid
from agecli.core.errors import AgecliError
from agecli.core.records import Sample
from agecli.datasets.manifest import read_manifest, read_names
from agecli.reports.tables import destination, with_ranges, write_rows
from agecli.scoring.bootstrap import percentile_interval, resampled_means, subject_ids
from benchmarks.peers.competitors import NAMES, Answers, Competitor, prepare, run

TURNS = 3
SHOWN = ("data", "name", "version", "photos", "no_face", "mae", "mae_range", "cs5", "photos_per_second", "cold_start_s")
RATIOS = {"mae_ratio": "mae", "speed_ratio": "photos_per_second", "cold_ratio": "cold_start_s"}
COLUMNS = (*SHOWN[:6], "mae_low", "mae_high", *SHOWN[7:], "cores", *RATIOS)
Row = dict[str, Any]
P = ParamSpec("P")
T = TypeVar("T")


def main() -> None:
    """Measure all competitors on all folders; exit code 1 if one could not be measured."""
    options = parse()
    chosen = [attempt(name, prepare, name, options.work, options.model) for name in options.only]
    competitors = [competitor for competitor in chosen if competitor]
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # one core, which all competitors inherit
    only = read_names(options.list) if options.list else None
    exclude = read_names(options.exclude) if options.exclude else ()
    rows: list[Row] = []
    for folder in options.data:
        samples = read_manifest(folder, AgeGrid(), only=only, exclude=exclude).samples
        if 0 < options.limit < len(samples):
            samples = tuple(samples[i * len(samples) // options.limit] for i in range(options.limit))
        rows += compare(folder.resolve(), samples, competitors)
        with destination(options.out, sys.stdout) as file:  # after each folder, so that an interrupted run has results
            write_rows(rows, COLUMNS, "csv", file)
    write_rows([with_ranges(row) for row in rows], (*SHOWN, "cores", *RATIOS), "table", sys.stdout)
    sys.exit(len(rows) < len(options.only) * len(options.data))  # 1 if one of them was left out


def parse() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, nargs="+", required=True, help="folders with a labels.csv or manifest.csv")
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--model", type=Path, help="agecli's model, if not the bundled one")
    parser.add_argument("--list", type=Path, help="measure on the photos named in this file")
    parser.add_argument("--exclude", type=Path, help="leave out the photos named in this file")
    parser.add_argument("--limit", type=int, default=0, help="so many photos of each folder, evenly spread")
    parser.add_argument("--out", type=Path, default=Path("peers.csv"))
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    parser.add_argument("--work", type=Path, default=cache / "agecli-peers", help="where the peers are installed")
    options = parser.parse_args()
    options.work = options.work.resolve()
    return options


def attempt(name: str, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
    """The result of `work`; if it fails, None, and the reason is printed: the others are still measured."""
    try:
        return work(*args, **kwargs)
    except AgecliError as error:
        print(f"{name} is left out: {error.message}\n  {error.hint}", file=sys.stderr)
        return None


def compare(folder: Path, samples: Sequence[Sample], competitors: Sequence[Competitor]) -> list[Row]:
    """A row for each competitor that could be measured on the samples of a folder."""
    photos = [str(folder / sample.path) for sample in samples]
    cold = {competitor: float("inf") for competitor in competitors}
    for _ in range(TURNS):  # alternating, so that other load affects all
        for competitor in list(cold):
            if answers := attempt(competitor.name, run, competitor, photos[:1]):
                cold[competitor] = min(cold[competitor], answers.seconds)
            else:
                del cold[competitor]
    rows: list[Row] = []
    for competitor, seconds in cold.items():
        print(f"{folder.name}: {competitor.name}, {len(photos)} photos", file=sys.stderr)
        if answers := attempt(competitor.name, run, competitor, photos):
            key = {"data": folder.name, "name": competitor.name, "version": competitor.version}
            rows.append(key | measure(samples, answers, seconds))
    ours = next((row for row in rows if row["name"] == "agecli"), {})
    for row in rows:
        for ratio, name in RATIOS.items():
            row[ratio] = round(row[name] / ours[name], 2) if row[name] and ours.get(name) else None
    return rows


def measure(samples: Sequence[Sample], answers: Answers, cold: float) -> Row:
    """MAE with its 95 % CI, CS@5, throughput and cold start (seconds)."""
    true = np.array([sample.age for sample in samples])
    middle = float(np.median(true))
    error = np.abs(np.array([middle if age is None else age for age in answers.ages]) - true)
    low, high = percentile_interval(resampled_means(error[:, None], np.ones((len(error), 1)), subject_ids(samples)))
    rest = answers.seconds - cold
    return {
        "photos": len(samples),
        "no_face": answers.ages.count(None),
        "mae": round(float(error.mean()), 3),
        "mae_low": round(float(low[0]), 3),
        "mae_high": round(float(high[0]), 3),
        "cs5": round(float((error <= 5 + 1e-9).mean()), 4),
        "photos_per_second": round((len(samples) - 1) / rest, 1) if len(samples) > 1 and rest > 0 else None,
        "cold_start_s": round(cold, 2),
        "cores": round(answers.cores, 2),
    }


if __name__ == "__main__":
    try:
        main()
    except AgecliError as error:
        sys.exit(f"{error.message}\n{error.hint}")
