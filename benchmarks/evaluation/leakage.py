"""Does `evaluate` find the photos that the bundled model has seen, and only those?

    python -m benchmarks.evaluation.leakage WORK --photos DATA [--faces 300] [--copies 1000] [--model MODEL]

1. `agecli evaluate --data` on FACES training faces (must exit with 1) and on FACES held-out faces of each set (0).
2. Copies: COPIES training photos of DATA/<set>/, saved again as JPEG of quality 75, resized to 75 %, or both; their faces are
   found and aligned again. At least 95 % must be found.
3. False alarms: all held-out faces, and all faces of the foreign set. Fewer than 0.1 % may be called seen.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

from agecli.images.alignment import Alignment, align
from agecli.images.face_finder import FaceFinder, NoFaceError
from agecli.images.face_frames import Floats, face_frame
from agecli.images.reading import read_picture
from agecli.model.bundled import bundled
from agecli.model.fingerprint import Fingerprint, read_fingerprint, read_frames
from benchmarks.evaluation.parts import FOREIGN, TRAINED, rows_of
from benchmarks.stability import Change, as_jpeg, resized

CHANGES: dict[str, Change] = {
    "JPEG 75": lambda photo: as_jpeg(photo, 75),
    "75 % size": lambda photo: resized(photo, 0.75),
    "both": lambda photo: as_jpeg(resized(photo, 0.75), 75),
}


def some(rows: pd.DataFrame, count: int) -> pd.DataFrame:
    """At most `count` rows, evenly chosen."""
    return rows.iloc[np.unique(np.linspace(0, len(rows) - 1, min(count, len(rows))).astype(int))]


def seen_in_training(work: Path, name: str) -> pd.DataFrame:
    """The rows of a set that the recipe trained on: those that its cleaning kept, if WORK/faces has the list."""
    rows = rows_of(work, name, "train")
    table = work / "faces" / "manifest.csv"
    if not table.is_file():
        return rows
    kept = pd.read_csv(table, dtype=str, keep_default_na=False)
    return rows[
        rows["source"].map(lambda source: f"{name}/{source}").isin(kept.loc[kept["split"] == "train", "source"])
    ]


def run_evaluate(work: Path, name: str, rows: pd.DataFrame, model: Path) -> tuple[int, str]:
    """The exit code of `agecli evaluate` on some faces of a set, and the last line on stderr."""
    with tempfile.TemporaryDirectory() as place:
        data = Path(place) / name
        data.mkdir()
        shutil.copy(work / name / "alignment.toml", data)
        (data / "faces").symlink_to((work / name / "faces").resolve())
        rows.to_csv(data / "manifest.csv", index=False)
        command = [sys.executable, "-m", "agecli", "evaluate", str(model), "--data", str(data)]
        done = subprocess.run(
            [*command, "--out", f"{place}/out", "--format", "csv"], capture_output=True, text=True, check=False
        )
    return done.returncode, (done.stderr.strip().splitlines() or [""])[-1]


def found_copies(photos: Path, rows: pd.DataFrame, fingerprint: Fingerprint, alignment: Alignment) -> dict[str, str]:
    """For each change, how many copies of photos were found to be seen."""
    results = {}
    for change, make in CHANGES.items():
        frames: list[Floats | None] = []
        for source in rows["source"]:
            photo = np.asarray(make(read_picture(photos / source).convert("RGB")))
            try:
                face = FaceFinder(main_only=True).find(photo)[0]
            except NoFaceError:
                frames.append(None)
                continue
            crop = align(photo, face.left_eye, face.right_eye, alignment)
            frames.append(face_frame(Image.fromarray(crop), alignment))
        known = fingerprint.seen(frames)
        results[change] = f"{(known > 0).sum()} of {len(frames)} ({(known > 0).mean():.1%})"
    return results


def main() -> None:
    """Run the three parts, and print a line for each number."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--photos", type=Path, required=True)
    parser.add_argument("--faces", type=int, default=300)
    parser.add_argument("--copies", type=int, default=1000)
    parser.add_argument("--only", choices=("evaluate", "alarms", "copies"), help="one of the three parts")
    parser.add_argument("--model", type=Path, default=bundled(".safetensors"))
    asked = parser.parse_args()
    fingerprint = read_fingerprint(asked.model)
    if fingerprint is None:
        raise SystemExit(f"{asked.model} has no fingerprint")
    if asked.only in (None, "evaluate"):
        exit_codes(asked.work, asked.faces, asked.model)
    if asked.only in (None, "alarms"):
        false_alarms(asked.work, fingerprint)
    if asked.only in (None, "copies"):
        copies(asked.work, asked.photos, asked.copies, fingerprint)


def exit_codes(work: Path, faces: int, model: Path) -> None:
    """Part 1: a line for each run of `evaluate`."""
    for name in TRAINED:
        for part, rows in (("train", seen_in_training(work, name)), ("test", rows_of(work, name, "test"))):
            code, last = run_evaluate(work, name, some(rows, faces), model)
            print(f"evaluate on {name}, {part}: exit {code}: {last}", flush=True)


def false_alarms(work: Path, fingerprint: Fingerprint) -> None:
    """Part 3: a line for each set, and one for all."""
    wrong = total = 0
    for name in (*TRAINED, *FOREIGN):
        rows = rows_of(work, name, "foreign" if name in FOREIGN else "test")
        folder = work / name
        known = fingerprint.seen(read_frames(folder, list(rows["path"]), Alignment.read(folder)))
        print(f"false alarms in {name}: {(known > 0).sum()} of {len(known)}", [*rows["path"][known > 0]], flush=True)
        wrong, total = wrong + int((known > 0).sum()), total + len(known)
    print(f"false alarms: {wrong} of {total} ({wrong / total:.2%})", flush=True)


def copies(work: Path, photos: Path, count: int, fingerprint: Fingerprint) -> None:
    """Part 2: a line for each set."""
    for name in TRAINED:
        alignment = Alignment.read(work / name)
        rows = some(seen_in_training(work, name), count // len(TRAINED))
        if alignment:
            print(f"copies of {name}:", found_copies(photos / name, rows, fingerprint, alignment), flush=True)


if __name__ == "__main__":
    main()
