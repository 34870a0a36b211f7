"""Rebuild docs/results.md: run every study, and replace its tables and figures.

    python docs/rebuild_results.py WORK --fgnet FGNET --utkface UTKFACE --edgeface EDGEFACE [--only ablation-fgnet …]

FGNET and UTKFACE are the data sets as they were downloaded, EDGEFACE the weights of EdgeFace-S (models/README.md). Each step is an ordinary agecli command, printed before it
runs; finished steps in WORK are not repeated. Only the parts of results.md between two marks are replaced.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean

import numpy as np

from agecli.core import ages
from agecli.core.files import read_csv, write_text
from agecli.training.run_folder import open_run, read_results

DOCS = Path(__file__).parent
FIGURES = DOCS / "figures"
MARKS = re.compile(r"(<!-- (\S+) -->\n).*?(<!-- /\2 -->)", re.S)

# The features are those of the default model's backbone, which was not trained on FG-NET; all cells use the same features.
# 600 mini-batches are 12 leaf updates, and a factor of 0.6 cools T to 0.002 in that time; the paper's 0.9 would need 60
# (it has 600). Without a validation part all training faces are used for training, and the last model is tested.
FROZEN = (
    *("--weights", "default", "--freeze", "--set", "backbone.mirror=true", "--set", "forest.cooling=0.6"),
    *("--iterations", "600", "--set", "data.val_share=0", "--select", "last", "--jobs", "2"),
)
# The whole network, from the weights of a face-recognition network: 20 leaf updates, after which T is 0.0008.
WHOLE = (
    *("--backbone", "edgeface_s", "--weights", "edgeface.safetensors", "--iterations", "200", "--batch-size", "16"),
    *("--lr", "3e-4", "--set", "training.warmup=20", "--set", "forest.update_every=10", "--set", "forest.cooling=0.7"),
    *("--set", "data.val_share=0", "--select", "last", "--jobs", "2"),
)
# Chips that the default model was not trained on: its test and selection parts. UTKFace has no subjects.
CHIPS = ("--setup", "II", "--list", "held-out.txt", *FROZEN)
STUDIES: dict[str, tuple[str, str, tuple[str, ...]]] = {  # name in results.md -> study, data, options
    "benchmark-fgnet": ("benchmark", "fgnet", ("--setup", "lopo", *FROZEN)),
    "ablation-fgnet": ("ablation", "fgnet", ("--setup", "subject", *FROZEN)),
    "ablation-utkface": ("ablation", "utkface", CHIPS),
    "initialisation-fgnet": (
        "initialisation",
        "fgnet",
        ("--setup", "subject", "--folds", "1", "--seed", "0,1,2", *FROZEN),
    ),
    "initialisation-utkface": ("initialisation", "utkface", ("--folds", "1", "--seed", "0,1,2", *CHIPS)),
    "initialisation-network": (
        "initialisation",
        "fgnet",
        ("--setup", "subject", "--folds", "1", "--seed", "0,1,2", *WHOLE),
    ),
    "trees": ("trees", "fgnet", ("--setup", "subject", *FROZEN)),
    "depth": ("depth", "fgnet", ("--setup", "subject", *FROZEN)),
    "alpha": ("alpha", "fgnet", ("--setup", "subject", *FROZEN)),
    "phi": ("phi", "fgnet", ("--setup", "subject", *FROZEN)),
    "entropy": ("entropy", "fgnet", ("--setup", "subject", *FROZEN)),
}


def agecli(work: Path, *arguments: object) -> None:
    """Run a command of agecli in the work folder; exits if it fails."""
    words = [str(argument) for argument in arguments]
    print("+ agecli", *words, flush=True)
    done = subprocess.run([sys.executable, "-m", "agecli", *words], cwd=work, stdout=subprocess.DEVNULL)
    if done.returncode > (words[0] == "preprocess"):  # 1: finished, but some photos gave no face
        sys.exit(done.returncode)


def run(work: Path, name: str) -> None:
    """Run a study, or resume it, and copy its figure."""
    study, data, options = STUDIES[name]
    out = f"studies/{name}"
    begun = bool(abouts(work / out))
    agecli(work, "study", study, "--data", data, *options, "--out", out, *(("--resume",) if begun else ()))
    FIGURES.mkdir(exist_ok=True)
    shutil.copyfile(work / out / f"{study}.svg", FIGURES / f"{name}.svg")


def plot(work: Path, kind: str, name: str, *runs: str) -> None:
    """Draw a figure of some runs, if they are done."""
    if all((work / run / "report.csv").is_file() for run in runs):
        (work / name).unlink(missing_ok=True)
        agecli(work, "plot", kind, *runs, "-o", name)
        shutil.copyfile(work / name, FIGURES / name)


def abouts(folder: Path) -> list[Path]:
    """The study.json of a study, or those of its seeds."""
    return sorted([*folder.glob("study.json"), *folder.glob("seed-*/study.json")])


def table_of(folder: Path) -> Path:
    """The table of a study, or that of the means over its seeds."""
    return folder / ("seeds.csv" if (folder / "seeds.csv").is_file() else "study.csv")


def command(name: str) -> str:
    """The command line of a study."""
    study, data, options = STUDIES[name]
    return " ".join(("agecli study", study, "--data", data, *options, "--out", f"studies/{name}"))


def table(work: Path, name: str) -> Iterator[str]:
    """The Markdown of a study: its table, its figure, its command and its time."""
    folder = work / "studies" / name
    rows = read_csv(table_of(folder))
    study = STUDIES[name][0]
    if study in ("trees", "depth", "alpha"):
        yield from pivot(rows, {"trees": "trees", "depth": "depth", "alpha": "α"}[study])
    elif study == "entropy":
        yield from entropies(rows)
    elif study == "initialisation":
        yield from initialisations(rows)
    else:
        yield from lines(rows)
    known = [json.loads(file.read_text()) for file in abouts(folder)]
    about, seconds = known[0], sum(time for one in known for time in one["seconds"].values())
    yield f"\n![{study}](figures/{name}.svg)\n"
    yield (
        f"`{command(name)}`: {seconds / 60:.0f} minutes, summed over all cells, two at a time on "
        f"{about['cpus']} CPU cores ({about['platform'].split('-')[0]}, {machine()}, no GPU)."
    )


def machine() -> str:
    """The name of the CPU, if the system provides it."""
    info = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*: (.+)", info.read_text()) if info.is_file() else None
    return found[1] if found else platform.machine()


def medians(work: Path) -> Iterator[str]:
    """MAE and CS@5 of the benchmark's cached distributions with the paper's readout and with the median."""
    yield "| | MAE, the paper's readout | CS@5 | MAE, median | CS@5 |"
    yield "|---|---|---|---|---|"
    for model, name in (("dldlf", "DLDLF (mode)"), ("drf", "DRF (mean)")):
        results = read_results(open_run(work / "studies/benchmark-fgnet/runs" / model))
        true = np.array([sample.age for sample in results.samples])
        errors = [abs(age - true) for age in (results.predicted, ages.read(results.pmf, "median", results.grid))]
        yield f"| {name} | {' | '.join(f'{e.mean():.3f} | {(e <= 5 + 1e-9).mean():.1%}' for e in errors)} |"


def starts(work: Path) -> Iterator[str]:
    """The mean training NLL up to some iterations, averaged over the folds, for each DRF of the ablation."""
    shown = ("50", "100", "150", "200", "300", "600")
    yield f"| NLL up to iteration | {' | '.join(shown)} |"
    yield "|---" * (1 + len(shown)) + "|"
    for row in read_csv(work / "studies/ablation-fgnet/study.csv"):
        if row["cell"].startswith("drf"):
            run = work / "studies/ablation-fgnet/runs" / row["cell"]
            folds = [{line["iteration"]: line["nll"] for line in read_csv(f)} for f in run.glob("fold-*/history.csv")]
            means = [fmean(float(fold[at]) for fold in folds) for at in shown]
            yield f"| {row['label']} | {' | '.join(f'{nll:.2f}' for nll in means)} |"


DERIVED = {
    "medians": ("benchmark-fgnet", medians),
    "starts": ("ablation-fgnet", starts),
}  # tables that are computed from a study


def lines(rows: Sequence[dict[str, str]]) -> Iterator[str]:
    """A table with a row for each cell: MAE with its 95 % CI, CS@5, and the paper's numbers."""
    yield "| | MAE | 95 % CI | CS@5 | difference to the reference, 95 % CI | the paper's MAE | its CS@5 |"
    yield "|---|---|---|---|---|---|---|"
    for row in rows:
        interval = f"{float(row['mae_low']):.2f} to {float(row['mae_high']):.2f}" if row["mae_low"] else ""
        difference = (
            f"{float(row['difference']):+.2f} ({float(row['difference_low']):+.2f} to {float(row['difference_high']):+.2f})"
            if row["difference"]
            else ""
        )
        digits = 3 if row["cell"] == "std" else 2
        mae = f"{float(row['mae']):.{digits}f}" if row["mae"] else ""
        printed = [
            f"{float(row['paper_mae']):.2f}" if row["paper_mae"] else "",
            f"{float(row['paper_cs5']):.1%}" if row["paper_cs5"] else "",
        ]
        share = f"{float(row['cs5']):.1%}" if row["cs5"] else ""
        yield f"| {' | '.join([row['label'], mae, interval, share, difference, *printed])} |"


def pivot(rows: Sequence[dict[str, str]], varied: str) -> Iterator[str]:
    """A table with a row for each value of the varied setting, and a column for each group."""
    groups = list(dict.fromkeys(row["group"] for row in rows))
    yield f"| {varied} | {' | '.join(groups)} |"
    yield "|---" * (1 + len(groups)) + "|"
    for x in dict.fromkeys(row["x"] for row in rows):
        cells = {row["group"]: f"{float(row['mae']):.2f}" for row in rows if row["x"] == x}
        yield f"| {float(x):g} | {' | '.join(cells.get(group, '') for group in groups)} |"


def entropies(rows: Sequence[dict[str, str]]) -> Iterator[str]:
    """A table of the routing entropy at some iterations, with a row for each cell."""
    names = list(dict.fromkeys(row["label"] for row in rows))
    shown = ("50", "100", "150", "200", "300", "450", "600")
    yield f"| H at iteration | {' | '.join(shown)} |"
    yield "|---" * (1 + len(shown)) + "|"
    for name in names:
        H = {row["iteration"]: f"{float(row['entropy']):.2f}" for row in rows if row["label"] == name}
        yield f"| {name} | {' | '.join(H.get(at, '') for at in shown)} |"


def initialisations(rows: Sequence[dict[str, str]]) -> Iterator[str]:
    """A row for each start and kind of annealing: NLL on both parts and MAE, the mean over seeds ± std; CIs of ranges."""
    yield "| | training NLL | test NLL | MAE |"
    yield "|---|---|---|---|"
    for row in rows:
        cells = []
        for key in ("train_nll", "test_nll", "mae"):
            cell = f"{float(row[key]):.3f}"
            if row.get(f"{key}_std"):
                cell += f" ± {float(row[f'{key}_std']):.3f}"
                if row["cell"].startswith("range"):
                    cell += f" ({float(row[f'{key}_low']):.2f} to {float(row[f'{key}_high']):.2f})"
            cells.append(cell)
        yield f"| {row['label']} | {' | '.join(cells)} |"


def main() -> None:
    """Prepare the data, run the studies, draw the figures and rewrite results.md."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--fgnet", type=Path, required=True)
    parser.add_argument("--utkface", type=Path, required=True)
    parser.add_argument("--edgeface", type=Path, required=True, help="EdgeFace-S for timm's edgenext_small")
    parser.add_argument("--only", nargs="+", choices=STUDIES, default=list(STUDIES))
    options = parser.parse_args()
    work: Path = options.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    (work / "sources").mkdir(exist_ok=True)
    for name, source in (("fgnet", options.fgnet.resolve()), ("utkface", options.utkface.resolve())):
        link = work / "sources" / name  # the held-out part is a hash of the names of the folder and of the photo
        if not link.exists():
            link.symlink_to(source)
        if not (work / name / "manifest.csv").is_file():
            agecli(work, "preprocess", link, "--out", name, "--for", "default", "--workers", 2, "--resume", "--quiet")
    if not (work / "edgeface.safetensors").exists():
        (work / "edgeface.safetensors").symlink_to(options.edgeface.resolve())
    recipe = DOCS.parent / "models/recipe/measure.py"
    listed = ("--train", work / "sources/utkface", "--list", work / "held-out.txt", "--parts", "test", "val")
    subprocess.run([sys.executable, str(recipe), *map(str, listed)], check=True)
    for name in options.only:
        run(work, name)
    runs = [f"studies/benchmark-fgnet/runs/{model}" for model in ("dldlf", "drf")]
    plot(work, "leaves", "leaves.png", *runs)
    plot(work, "cs", "cs.svg", *runs)
    plot(work, "history", "history.svg", "studies/ablation-fgnet/runs/drf")
    page = DOCS / "results.md"

    def replace(found: re.Match[str]) -> str:
        study, write = DERIVED.get(found[2], (found[2], lambda work: table(work, found[2])))
        there = study in STUDIES and table_of(work / "studies" / study).is_file()
        return found[1] + "\n".join(write(work)) + "\n" + found[3] if there else found[0]

    write_text(page, MARKS.sub(replace, page.read_text(encoding="utf-8")))


if __name__ == "__main__":
    main()
