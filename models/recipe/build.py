"""The default model, rebuilt from its data sets: preprocess, audit, join, train, export, measure.

    python models/recipe/build.py WORK --train UTKFACE AAF [options of `agecli train`]

Each step is an ordinary agecli command and is skipped if its result is there, so a killed build goes on where it was.
A tenth of each training set is never trained on, nor selected on: `measure.py` measures on it, and on other sets.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

# 146 pixels, of which the network sees the 128 in the middle: no second resize. Its view is that of UTKFace's chips, so
# that no set shows borders where others show a background.
FRAME = ("--size", "146", "--eye-distance", "0.342", "--eye-height", "0.312")
TEST, VAL = 0.10, 0.09  # shares of each training set


def agecli(*arguments: object) -> None:
    command = [sys.executable, "-m", "agecli", *map(str, arguments)]
    print("+ agecli", *map(str, arguments), flush=True)
    done = subprocess.run(command)
    if done.returncode > 1:  # 1: finished, but some photos gave no face, or some labels are suspicious
        sys.exit(done.returncode)


def set_name(source: Path) -> str:
    """What a data set is called: which of its photos are held out goes by it."""
    return source.name.lower()


def align(source: Path, work: Path) -> Path:
    out = work / set_name(source)
    if not (out / "manifest.csv").exists():
        agecli("preprocess", source, "--out", out, *FRAME, "--workers", 2, "--resume")
    return out


def part_of(name: str) -> str:
    """A function of the photo's name (`utkface/images/…`) alone, so that a later build never trains on what an earlier one was tested on."""
    share = int(hashlib.sha256(name.encode()).hexdigest()[:8], 16) / 2**32
    return "test" if share < TEST else "val" if share < TEST + VAL else "train"


def rows_of(folder: Path) -> list[dict[str, str]]:
    with (folder / "manifest.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        row["path"] = f"../{folder.name}/{row['path']}"
        row["source"] = f"{folder.name}/{row['source']}"
        row["split"] = part_of(row["source"])
    return rows


def write(folder: Path, rows: list[dict[str, str]], like: Path) -> None:
    folder.mkdir(exist_ok=True)
    with (folder / "manifest.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    shutil.copyfile(like / "alignment.toml", folder / "alignment.toml")


def suspicious(source: Path, work: Path) -> set[str]:
    """Photos whose labels can't be true: they are measured with the others, but not trained on."""
    out = work / f"{set_name(source)}-suspicious.csv"
    if not out.exists():
        agecli("audit", source, "--out", out, "--workers", 2, "--quiet")
    with out.open(newline="") as file:
        return {f"{set_name(source)}/{row['path']}" for row in csv.DictReader(file)}


def train(run: Path, faces: Path, *options: object) -> None:
    """One stage, with the settings of the file that is called as it is; goes on with what is there."""
    begun = (run / "config.toml").exists()
    settings = Path(__file__).with_name(f"{run.name}.toml")
    chosen = ("--resume",) if begun else ("--config", settings, "--workers", 1, *options)
    agecli("train", "--data", faces, "--setup", "column", "--out", run, *chosen)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--train", type=Path, nargs="+", required=True)
    parser.add_argument("--out", type=Path, default=Path("models"))
    asked, more = parser.parse_known_args()
    work: Path = asked.work
    work.mkdir(parents=True, exist_ok=True)
    everyone: list[dict[str, str]] = []
    for source in asked.train:
        aligned = align(source, work)
        bad = suspicious(source, work)
        everyone += [row for row in rows_of(aligned) if row["split"] == "test" or row["source"] not in bad]
    write(work / "faces", everyone, work / set_name(asked.train[0]))
    print(Counter(row["split"] for row in everyone), flush=True)
    first, second = (work / name for name in ("first", "second"))
    train(first, work / "faces", *more)
    train(second, work / "faces", "--init", first / "fold-1/best.safetensors", *more)
    # ONNX is made of the checkpoint that ships, whose kernels have 16 bits: so both say the same.
    agecli("export", second / "fold-1/best.safetensors", "--out", asked.out / "default.safetensors")
    agecli("export", asked.out / "default.safetensors", "--out", asked.out / "default.onnx")
    files = [asked.out / f"default.{kind}" for kind in ("onnx", "safetensors")]
    sums = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
    (asked.out / "SHA256SUMS").write_text("".join(sums))


if __name__ == "__main__":
    main()
