"""The fingerprint of a model: hashes of the faces it was trained and selected on, so that an evaluation can find them.

A face's hash is one bit for each of the 128 lowest frequencies of its frame (`images.face_frames`): whether it is above
the median of the training faces. The similarity of a new face to a hash is the share of the magnitude of the new face's
frequencies, in units of their spread, whose sign agrees: 1 if all do, 0 for unrelated faces. Hashes can't be turned into
pictures: they have 16 bytes.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agecli.core.errors import InputError
from agecli.core.futures import results
from agecli.core.parallel import cores
from agecli.images.alignment import Alignment
from agecli.images.face_frames import BITS, Floats, face_frame, frequencies, moved_frequencies
from agecli.images.reading import UnreadableError, read_picture
from agecli.model.metadata import read_metadata, write_metadata

KEY = "fingerprint"  # in the metadata of model files
SAME = (
    0.88  # similarity: reached by 1 of 4,618 held-out faces of UTKFace, AAF, APPA-REAL and WIKI, and by 98 % of copies
)
CANDIDATES = 10  # hashes of each face that are compared again after small motions
MOST = 2.0  # spreads: larger frequencies count as much as this
BLOCK = 256  # faces compared at a time: with 40,000 hashes, 40 MB
NEW, SELECTED, TRAINED = 0, 1, 2  # what a model knows of a face: nothing, selected or calibrated on it, trained on it
Codes = NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class Fingerprint:
    """The faces that a model was trained on, and those it was selected and calibrated on, as hashes."""

    median: Floats  # (BITS,), of the frequencies of the training faces
    spread: Floats  # (BITS,), their mean absolute deviation from it
    trained: Codes  # (n, BITS / 8)
    selected: Codes  # (m, BITS / 8)
    subjects: NDArray[np.uint32]  # hashes of the names of the subjects of both, sorted
    complete: bool = True  # False if the model started from one without a fingerprint

    def to_json(self) -> str:
        """The fingerprint as text for the metadata of a model file, 22 bytes for each face."""
        arrays = {name: base64.b64encode(getattr(self, name).tobytes()).decode() for name in DTYPES}
        return json.dumps({**arrays, "complete": self.complete})

    @classmethod
    def from_json(cls, text: str) -> Fingerprint:
        """The inverse of `to_json`. Raises ValueError if it is damaged."""
        fields: Mapping[str, Any] = json.loads(text)
        try:
            raw = {
                name: np.frombuffer(base64.b64decode(fields[name], validate=True), kind)
                for name, kind in DTYPES.items()
            }
            complete = bool(fields["complete"])
        except (KeyError, TypeError) as error:
            raise ValueError(f"its fingerprint has no {error}") from error
        median, spread = raw["median"], raw["spread"]
        if len(median) != BITS or len(spread) != BITS or not np.isfinite([median, spread]).all() or spread.min() <= 0:
            raise ValueError(f"its fingerprint is not of {BITS} frequencies")
        trained, selected = (raw[name].reshape(-1, BITS // 8) for name in ("trained", "selected"))
        return cls(median, spread, trained, selected, raw["subjects"], complete)

    def seen(self, frames: Sequence[Floats | None]) -> NDArray[np.int8]:
        """What the model knows of each face: NEW, SELECTED or TRAINED.   frames: of `read_frames` -> (n,)"""
        signs = np.concatenate([_signs(self.trained), _signs(self.selected)])
        known = np.zeros(len(frames), dtype=np.int8)
        there = [index for index, frame in enumerate(frames) if frame is not None]
        for start in range(0, len(there) if len(signs) else 0, BLOCK):
            some = there[start : start + BLOCK]
            block = [frame for index in some if (frame := frames[index]) is not None]
            match = self._match(block, signs)
            known[some] = np.where(match < 0, NEW, np.where(match < len(self.trained), TRAINED, SELECTED))
        return known

    def _match(self, frames: Sequence[Floats], signs: Floats) -> NDArray[np.int64]:
        """The most similar hash of each face, -1 if it is not similar enough.   signs: (n, BITS), 1 or -1"""
        rough = self._similarity(np.stack([frequencies(frame) for frame in frames]), signs)
        best, value = rough.argmax(1), rough.max(1)
        for row in np.flatnonzero(value < SAME).tolist():
            some = np.argsort(-rough[row])[:CANDIDATES]
            moved = self._similarity(moved_frequencies(frames[row]), signs[some]).max(0)
            best[row], value[row] = some[moved.argmax()], moved.max()
        return np.where(value >= SAME, best, -1)

    def _similarity(self, values: Floats, signs: Floats) -> Floats:
        """The similarity of faces to hashes.   frequencies (b, BITS), signs (n, BITS) -> (b, n), -1 to 1"""
        z = np.clip((values - self.median) / self.spread, -MOST, MOST)
        total = np.maximum(np.abs(z).sum(1, keepdims=True), 1e-6)
        return np.asarray(z @ signs.T / total, dtype=np.float32)

    def knows(self, subject: str) -> bool:
        """Whether a subject of this name was trained or selected on."""
        return bool(subject) and bool(np.isin(_subject_hash(subject), self.subjects))


DTYPES: dict[str, Any] = {
    "median": np.float32,
    "spread": np.float32,
    "trained": np.uint8,
    "selected": np.uint8,
    "subjects": np.uint32,
}


def fingerprint_of(
    trained: Floats,
    selected: Floats,
    subjects: Iterable[str],
    parent: Fingerprint | None = None,
    complete: bool = True,
) -> Fingerprint:
    """The fingerprint of a model.

    trained, selected: frequencies of the faces, (n, BITS) and (m, BITS); rows of NaN are left out
    subjects: their subjects, where known
    parent: the fingerprint of the model it started from, whose faces are added
    complete: False if it started from a model whose faces are not known
    """
    trained, selected = (values[np.isfinite(values).all(1)] for values in (trained, selected))
    if parent:
        median, spread = parent.median, parent.spread
    else:
        median = np.median(trained, axis=0).astype(np.float32)
        spread = np.maximum(np.abs(trained - median).mean(0), 1e-3).astype(np.float32)
    names = np.array([_subject_hash(name) for name in set(subjects) if name], dtype=np.uint32)
    mine = Fingerprint(median, spread, _codes(trained, median), _codes(selected, median), np.unique(names), complete)
    if not parent:
        return mine
    codes = {
        name: np.unique(np.concatenate([getattr(parent, name), getattr(mine, name)]), axis=0)
        for name in ("trained", "selected")
    }
    both = np.union1d(parent.subjects, mine.subjects).astype(np.uint32)
    return Fingerprint(median, spread, **codes, subjects=both, complete=complete and parent.complete)


def read_fingerprint(model: Path) -> Fingerprint | None:
    """The fingerprint in a model file, ONNX or safetensors; None if it has none. Raises InputError, MissingError."""
    text = read_metadata(model).get(KEY)
    try:
        return Fingerprint.from_json(text) if text else None
    except ValueError as error:
        raise InputError(f"{model}: {error}", hint="fetch the file again, or train it again") from error


def write_fingerprint(model: Path, fingerprint: Fingerprint, out: Path | None = None) -> None:
    """Write a fingerprint into a model file, or into a copy of it.   Raises InputError, MissingError."""
    write_metadata(model, out or model, {KEY: fingerprint.to_json()})


def read_frames(folder: Path, paths: Sequence[str], alignment: Alignment | None) -> list[Floats | None]:
    """The frames of aligned faces, (64, 64) each; None for pictures that can't be read.

    paths: relative to `folder`; alignment: of the faces, None if it is not known
    """

    def read(path: str) -> Floats | None:
        try:
            return face_frame(read_picture(folder / path), alignment)
        except UnreadableError:
            return None

    with ThreadPoolExecutor(cores()) as pool:  # decoding and resizing release the GIL
        return results(pool, read, paths)


def read_frequencies(folder: Path, paths: Sequence[str], alignment: Alignment | None) -> Floats:
    """The frequencies of aligned faces, NaN for pictures that can't be read.   (n, BITS)"""
    empty = np.full(BITS, np.nan, dtype=np.float32)
    values = [empty if frame is None else frequencies(frame) for frame in read_frames(folder, paths, alignment)]
    return np.stack(values) if values else np.zeros((0, BITS), dtype=np.float32)


def _codes(values: Floats, median: Floats) -> Codes:
    """The hashes of faces.   frequencies (n, BITS) -> (n, BITS / 8)"""
    return np.packbits(values > median, axis=1)


def _signs(codes: Codes) -> Floats:
    """The bits of hashes as 1 and -1.   (n, BITS / 8) -> (n, BITS)"""
    return np.unpackbits(codes, axis=1).astype(np.float32) * 2 - 1


def _subject_hash(subject: str) -> np.uint32:
    return np.uint32(int.from_bytes(hashlib.sha256(subject.encode("utf-8", "surrogateescape")).digest()[:4], "big"))
