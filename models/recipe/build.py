"""The default model, rebuilt from its data sets: preprocess, clean, train in eight stages, average, export.

    python models/recipe/build.py WORK --weights EDGEFACE --train UTKFACE AAF APPA WIKI --apart FGNET

Each step is an ordinary agecli command, or a script beside this one, and is skipped if its result is there, so a killed
build goes on where it was. A tenth of each training set is never trained on, nor selected on: `measure.py` measures on it,
and on the sets that are kept apart.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import shutil
import subprocess
import sys
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

BACKBONE = "edgeface_s"  # faces are cut as it needs them: one frame for all sets
TEST, VAL = 0.10, 0.09  # shares of each training set
STAGES = ("frozen", "first", "second", "third")  # each goes on from the best checkpoint of the one before
FROZEN = ("frozen", "forest")  # stages on cached features
SECOND = 0.35  # share of the second stage in the average with the third: 4.770 years, its parts 4.85 and 4.785
FOREST = 0.5  # share of the stage `forest` in the average with the fourth: 4.732 years, its parts 4.736 and 4.82
FIFTH = 0.417  # share of the fifth stage in the average with the sixth: 4.718 years, its parts 4.760 and 4.732
FORMER = 0.4  # share of the average before both in the one with them: 4.693 years, its parts 4.694 and 4.718
PRIOR = {"ages.prior": 2.5, "ages.prior_until": 25.0}  # lowers the bias on FG-NET from +2.5 to +1.5; costs 0.17 years
NO_PRIOR = {"ages.prior": 0.0, "ages.prior_until": 0.0}
RANKS = 2  # processes with one thread each: twice as fast as one with two threads on a busy machine


def command(*words: object) -> None:
    """Run Python with these arguments; exits if it fails."""
    print("+", *map(str, words), flush=True)
    done = subprocess.run([sys.executable, *map(str, words)])
    if done.returncode > 1:  # 1: finished, but some photos gave no face
        sys.exit(done.returncode)


def agecli(*arguments: object) -> None:
    command("-m", "agecli", *arguments)


def set_name(source: Path) -> str:
    """What a data set is called: which of its photos are held out goes by it."""
    return source.name.lower()


def align(source: Path, work: Path) -> Path:
    out = work / set_name(source)
    if not (out / "manifest.csv").exists():
        agecli("preprocess", source, "--out", out, "--for", BACKBONE, "--workers", 2, "--resume")
    return out


def part_of(name: str) -> str:
    """A function of the photo's name (`utkface/images/…`) alone, so that a later build never trains on what an earlier one was tested on."""
    share = int(hashlib.sha256(name.encode()).hexdigest()[:8], 16) / 2**32
    return "test" if share < TEST else "val" if share < TEST + VAL else "train"


def rows_of(folder: Path) -> list[dict[str, str]]:
    with (folder / "manifest.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row["path"] = f"{folder.name}/{row['path']}"
        row["source"] = f"{folder.name}/{row['source']}"
        row["split"] = part_of(row["source"])
    return rows


def write(folder: Path, rows: list[dict[str, str]], like: Path) -> None:
    """A data folder with one table of several sets: links to their folders beside it, and the alignment of `like`."""
    folder.mkdir(exist_ok=True)
    for name in {row["path"].split("/")[0] for row in rows}:
        if not (folder / name).exists():
            (folder / name).symlink_to(Path("..") / name, target_is_directory=True)
    with (folder / "manifest.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    shutil.copyfile(like / "alignment.toml", folder / "alignment.toml")


def train(run: Path, faces: Path, *options: object, ranks: int = 1) -> None:
    """Train on a data folder with these options, unless the run has its report; goes on with a run that was begun.

    ranks: processes, of one thread each if there are several
    """
    if (run / "report.csv").exists():
        return
    begun = ("--resume",) if (run / "config.toml").exists() else options
    launch = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", ranks) if ranks > 1 else ()
    arguments = ("train", "--data", faces, "--setup", "column", "--out", run, *begun)
    command(*launch, "-m", "agecli", *arguments)


def train_stage(stage: Path, faces: Path, *options: object) -> None:
    """One stage, with the settings of the file that is called as it is."""
    settings = Path(__file__).with_name(f"{stage.name}.toml")
    ranks = 1 if stage.name in FROZEN else RANKS  # on cached features, one process is enough
    train(stage, faces, "--config", settings, *options, ranks=ranks)


def average(
    older: Path, newer: Path, share: float, faces: Path, out: Path, prior: Mapping[str, float] = NO_PRIOR
) -> None:
    """The weights and leaves of two stages averaged, with intervals calibrated on the validation part.

    share: of the older one; prior: settings of the prior over ages.
    """
    import numpy as np

    from agecli import predict
    from agecli.core.ages import AgeGrid
    from agecli.core.config import replace
    from agecli.datasets.manifest import read_manifest
    from agecli.model.checkpoint import load_checkpoint, save_checkpoint
    from agecli.scoring.calibration import calibrate

    first, loaded = load_checkpoint(older), load_checkpoint(newer)
    old, new = first.model.state_dict(), loaded.model.state_dict()
    mixed = {
        name: share * old[name] + (1 - share) * new[name] if new[name].is_floating_point() else new[name]
        for name in new
    }
    loaded.model.load_state_dict(mixed)
    config = replace(loaded.config, {**prior, "init": Path(loaded.config.init).name})
    save_checkpoint(out, loaded.model, config, loaded.notes, None, shift=loaded.shift)
    val = [sample for sample in read_manifest(faces, AgeGrid()).samples if sample.split == "val"]
    records = list(predict([faces / sample.path for sample in val], model=out, no_detect=True, distribution=True))
    pmf = np.array([record.distribution for record in records], np.float32)
    calibration = calibrate(pmf, np.array([sample.age for sample in val]), loaded.model.forest.grid)
    save_checkpoint(out, loaded.model, config, loaded.notes, calibration, shift=loaded.shift)


def ship(checkpoint: Path, faces: Path, out: Path, *options: object) -> None:
    """Write default.safetensors, default.onnx and SHA256SUMS of a checkpoint; the options are those of the ONNX export.

    Both files get the fingerprint of the training faces, and the reference of the shift alarm (`stamp.py`).

    ONNX is made of the checkpoint that ships, whose kernels have 16 bits: so both say the same, but for the rounding of
    the folded weights to 16 bits (0.005 years on average).
    """
    agecli("export", checkpoint, "--out", out / "default.safetensors")
    agecli("export", out / "default.safetensors", "--out", out / "default.onnx", *options)
    files = [out / f"default.{kind}" for kind in ("onnx", "safetensors")]
    command(Path(__file__).with_name("stamp.py"), *files, faces)
    sums = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
    (out / "SHA256SUMS").write_text("".join(sums))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--weights", type=Path, required=True, help="EdgeFace-S for timm's edgenext_small")
    parser.add_argument("--train", type=Path, nargs="+", required=True)
    parser.add_argument("--apart", type=Path, nargs="*", default=[], help="sets that nothing may be learned of")
    parser.add_argument("--out", type=Path, default=Path("models"))
    asked = parser.parse_args()
    work: Path = asked.work
    work.mkdir(parents=True, exist_ok=True)
    for source in (*asked.train, *asked.apart):
        align(source, work)
    names = [[set_name(source) for source in sources] for sources in (asked.train, asked.apart)]
    here = Path(__file__).parent
    if not (work / "faces/manifest.csv").exists():
        command(here / "clean.py", work, "--weights", asked.weights, "--train", *names[0], "--apart", *names[1])
    train_stage(work / STAGES[0], work / "faces", "--backbone", BACKBONE, "--weights", asked.weights, "--freeze")
    for before, stage in pairwise(STAGES):
        train_stage(work / stage, work / "faces", "--init", work / before / "fold-1/best.safetensors")
    second, third = (work / stage / "fold-1/best.safetensors" for stage in STAGES[-2:])
    average(second, third, SECOND, work / "faces", work / "average.safetensors")
    train_stage(work / "forest", work / "faces", "--weights", work / "average.safetensors", "--freeze")
    command(here / "weigh.py", work, "--name", "weighted")
    train_stage(work / "fourth", work / "weighted", "--init", work / "forest/fold-1/best.safetensors")
    forest, fourth = (work / stage / "fold-1" for stage in ("forest", "fourth"))
    average(
        forest / "best.safetensors",
        fourth / "last.safetensors",  # the last one: it was not trained for the ages of the selection part
        FOREST,
        work / "faces",
        work / "fourth.safetensors",
    )
    command(here / "weigh.py", work, "--name", "mild", "--power", 0.5, "--favour", "utkface")
    former, both = work / "fourth.safetensors", work / "both.safetensors"
    for stage in ("fifth", "sixth"):
        train_stage(work / stage, work / "mild", "--init", former)
    fifth, sixth = (work / stage / "fold-1/last.safetensors" for stage in ("fifth", "sixth"))
    average(fifth, sixth, FIFTH, work / "faces", both)
    average(former, both, FORMER, work / "faces", work / "last.safetensors", PRIOR)
    ship(work / "last.safetensors", work / "faces", asked.out)


if __name__ == "__main__":
    main()
