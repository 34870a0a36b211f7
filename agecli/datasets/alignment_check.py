"""Alignment check: whether the pictures of a data folder are aligned faces, or photos that were never cropped.

A model measured on photos as they come has errors of decades. A sample of the pictures is given to the face detector: the
eyes of aligned faces are where the alignment puts them. Folders whose alignment.toml fits are not looked at.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from agecli.core.ages import Floats
from agecli.core.errors import InputError
from agecli.datasets.preprocessing import preprocess
from agecli.images.alignment import Alignment
from agecli.images.face_finder import FaceFinder, NoFaceError
from agecli.images.reading import UnreadableError, read_picture

log = logging.getLogger("agecli")
SAMPLE = 30  # pictures that are looked at
LEAST_FOUND = 5  # faces: from fewer nothing is concluded
FAR = 0.15  # eye distances: faces of `preprocess` have a median of 0.01, photos of five sets 0.19 to 0.8
SPREAD = 0.2  # the same, from the median place in the sample, if it is not known where the eyes should be


@dataclass(frozen=True)
class EyeCheck:
    """What the detector found in a sample of pictures."""

    looked: int  # pictures
    found: int  # faces
    offset: float  # median distance of the eyes from their places, in eye distances; 0 if nothing was found
    limit: float  # of the offset

    @property
    def aligned(self) -> bool:
        """Whether the pictures can be aligned faces: too few faces were found, or their eyes are in their places."""
        return self.found < LEAST_FOUND or self.offset <= self.limit


def look_at_eyes(folder: Path, paths: Sequence[str], alignment: Alignment | None) -> EyeCheck:
    """Find the eyes in SAMPLE of these pictures, evenly chosen.

    alignment: where they should be; None compares them with one another.
    """
    chosen = sorted({round(place) for place in np.linspace(0, len(paths) - 1, SAMPLE)}) if paths else []
    found = [eyes for index in chosen if (eyes := _eyes(folder / paths[index])) is not None]
    if not found:
        return EyeCheck(len(chosen), 0, 0.0, FAR)
    places = np.median(found, axis=0) if alignment is None else _places(alignment)
    distance = float(np.linalg.norm(places[1] - places[0]))
    offsets = np.linalg.norm(np.array(found) - places, axis=2).max(1) / distance
    return EyeCheck(len(chosen), len(found), float(np.median(offsets)), SPREAD if alignment is None else FAR)


def _places(alignment: Alignment) -> Floats:
    """The left and the right eye as shares of the side of a crop.   (2, 2)"""
    return (np.array(alignment.eyes) + 0.5) / alignment.size


def _eyes(path: Path) -> Floats | None:
    """The eyes of the main face as shares of the side of the picture's central square, which a network gets.   (2, 2)"""
    try:
        photo = np.asarray(read_picture(path))
        face = FaceFinder(main_only=True).find(photo)[0]
    except (UnreadableError, NoFaceError):
        return None
    height, width = photo.shape[:2]
    side = min(height, width)
    corner = ((width - side) / 2, (height - side) / 2)
    return np.asarray((np.array([face.left_eye, face.right_eye]) + 0.5 - corner) / side)


def check_aligned(folder: Path, paths: Sequence[str], alignment: Alignment | None, model: str, command: str) -> None:
    """Raise InputError if the pictures of a data folder are not aligned as a model needs them.

    paths: relative to `folder`;   alignment: of the faces that the model was trained on, None if it is not known
    model: a file or backbone for `preprocess --for`;   command: with which the user goes on, for the hint
    """
    here = Alignment.read(folder)
    if here is not None and (alignment is None or same_frame(here, alignment)):
        return
    check = look_at_eyes(folder, paths, alignment)
    if not check.aligned:
        raise InputError(
            f"{folder} holds photos, not faces aligned for {model}: the eyes of {check.found} faces in a sample of"
            f" {check.looked} are {check.offset:.1f} eye distances from their places",
            hint=f"`agecli preprocess {folder} --out aligned --for {model}`, then {command} --data aligned;"
            " or add --align",
        )


def same_frame(one: Alignment, two: Alignment) -> bool:
    """Whether two alignments put the eyes in the same places, whatever the size."""
    return (one.eye_distance, one.eye_height) == (two.eye_distance, two.eye_height)


def aligned_place(folder: Path, alignment: Alignment) -> Path:
    """Where `align_folder` puts the faces of a folder of photos."""
    what = f"{folder.resolve()}\n{alignment.to_toml()}".encode("utf-8", "surrogateescape")
    return Path("runs") / "aligned" / f"{folder.resolve().name}-{hashlib.sha256(what).hexdigest()[:8]}"


def align_folder(folder: Path, alignment: Alignment | None) -> Path:
    """The faces of a folder of labelled photos, aligned as a model needs them; made once, in runs/aligned.

    alignment: of the model; None is the default one.   Returns the folder with their manifest. Raises as `preprocess`.
    """
    alignment = alignment or Alignment()
    out = aligned_place(folder, alignment)
    made = preprocess(folder, out=out, resume=out.exists(), **vars(alignment))
    failed = sum(made.failures.values())
    log.info("aligned %d faces of %d photos into %s; %d photos gave none", made.faces, made.photos, out, failed)
    return out
