"""Write what `agecli train` writes by itself into a model that was trained without it: fingerprint and shift reference.

    python models/recipe/stamp.py MODEL... WORK/faces

Each MODEL (.safetensors or .onnx) is replaced by a file with the same weights. The fingerprint is of the faces of the
manifest whose split is train (trained on) or val (selected and calibrated on); the shift reference of those of val.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from agecli.core.ages import AgeGrid
from agecli.datasets.manifest import Manifest, read_manifest
from agecli.images.alignment import Alignment
from agecli.model.fingerprint import Fingerprint, fingerprint_of, read_frequencies
from agecli.model.predictors import load_predictor
from agecli.model.stamping import stamp
from agecli.scoring.shift import ShiftReference, read_statistics, shift_reference


def paths_of(faces: Manifest, split: str) -> list[str]:
    """The pictures of one part."""
    return [sample.path for sample in faces.samples if sample.split == split]


def fingerprint(faces: Manifest) -> Fingerprint:
    """The fingerprint of the parts train and val."""
    alignment = Alignment.read(faces.folder)
    trained, selected = (
        read_frequencies(faces.folder, paths_of(faces, split), alignment) for split in ("train", "val")
    )
    return fingerprint_of(trained, selected, (s.subject for s in faces.samples if s.split in ("train", "val")))


def reference(faces: Manifest, model: Path) -> ShiftReference | None:
    """What the part val looks like to a model."""
    picture = load_predictor(model, "cpu").card.picture
    return shift_reference(read_statistics(faces.folder, paths_of(faces, "val"), picture))


def main() -> None:
    """Read the faces, and write the models."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, nargs="+")
    parser.add_argument("faces", type=Path)
    asked = parser.parse_args()
    faces = read_manifest(asked.faces, AgeGrid())
    known = fingerprint(faces)
    for model in asked.model:
        stamp(model, model, fingerprint=known, shift=reference(faces, model))
        print(f"{model}: {len(known.trained)} + {len(known.selected)} faces, {len(known.to_json())} bytes")


if __name__ == "__main__":
    main()
