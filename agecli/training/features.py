"""Features of a frozen backbone: computed once for each face, kept on disk, used by every run that asks for the same.

The key of a feature is a hash of all it depends on: the backbone's name and weights, the crop and the bytes of the
picture file. Nothing in the store can be stale; at worst it is not there.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from agecli.core.errors import InputError
from agecli.core.records import Sample
from agecli.model.checkpoint import fingerprint
from agecli.model.devices import to_device
from agecli.model.network import AgeModel
from agecli.model.pooling import StagePooling
from agecli.training.batches import Faces, every_face

VERSION = 1  # raised when pictures are decoded or cut in another way
BATCH = 16  # pictures; larger ones were not faster on a CPU (benchmarks/memory.py)


def cache_folder() -> Path:
    """Where features are kept: $AGECLI_CACHE, or the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("AGECLI_CACHE") or Path(base) / "agecli")


class FeatureStore:
    """An SQLite file of features by key. A batch is stored whole or not at all, also when the process is killed."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        with self._open() as base:
            base.execute(
                "CREATE TABLE IF NOT EXISTS features (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID"
            )

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """A connection for one transaction."""
        try:
            with closing(sqlite3.connect(self.path, timeout=60)) as base, base:
                yield base
        except sqlite3.Error as error:
            hint = "remove it, or set AGECLI_CACHE to another folder"
            raise InputError(f"the feature cache {self.path} can't be used: {error}", hint) from error

    def get(self, keys: Sequence[bytes]) -> dict[bytes, Tensor]:
        found = {}
        with self._open() as base:
            for key in set(keys):
                row = base.execute("SELECT value FROM features WHERE key = ?", (key,)).fetchone()
                if row:
                    found[key] = torch.from_numpy(np.frombuffer(row[0], np.float32).copy())
        return found

    def put(self, rows: Sequence[tuple[bytes, Tensor]]) -> None:
        with self._open() as base:
            pairs = [(key, value.numpy().tobytes()) for key, value in rows]
            base.executemany("INSERT OR REPLACE INTO features VALUES (?, ?)", pairs)


@dataclasses.dataclass(frozen=True)
class Features:
    """(n, D), a row for each sample; rows of unreadable pictures are NaN and named in `broken`."""

    values: Tensor
    broken: dict[str, str]  # path -> reason


def compute_features(
    model: AgeModel,
    name: str,
    folder: Path,
    samples: Sequence[Sample],
    device: torch.device,
    workers: int = 0,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Features:
    """The backbone's features of every sample, from the store or the network."""
    store = FeatureStore(cache_folder() / "features.sqlite")
    variant = (("mirrored",) if model.mirror else ()) + (("stages", model.f.in_features) if _is_pooled(model) else ())
    seen = (VERSION, name, fingerprint(model), model.picture, *variant)
    what = hashlib.sha256(repr(seen).encode()).digest()
    keys = [hashlib.sha256(what + content).digest() for content in _contents(folder, samples)]
    known = store.get(keys)
    waiting = [index for index, key in enumerate(keys) if key not in known]
    broken: dict[str, str] = {}
    progress(len(keys) - len(waiting), len(keys))
    faces = Faces(folder, [samples[index] for index in waiting], model.picture)
    extractor = model.extractor.to(device, memory_format=torch.channels_last).eval()  # type: ignore[call-overload]
    done = len(keys) - len(waiting)
    for batch in every_face(faces, BATCH, workers, pin=device.type == "cuda"):
        broken.update(batch.broken)
        if batch.indices:
            with torch.inference_mode():
                values = extractor(to_device(_filled(batch.inputs), device))[: len(batch.indices)].float().cpu()
            rows = [(keys[waiting[index]], value) for index, value in zip(batch.indices, values, strict=True)]
            store.put(rows)
            known.update(rows)
        done += len(batch.indices) + len(batch.broken)
        progress(done, len(keys))
    blank = torch.full((model.f.in_features,), torch.nan)
    return Features(torch.stack([known.get(key, blank) for key in keys]), broken)


def _is_pooled(model: AgeModel) -> bool:
    return isinstance(model.backbone, StagePooling)


def _filled(pixels: Tensor) -> Tensor:
    """A whole batch: in a smaller one the last digits of a feature differ, and with them a run that was killed here."""
    return torch.cat((pixels, pixels.new_zeros(BATCH - len(pixels), *pixels.shape[1:])))


def _contents(folder: Path, samples: Sequence[Sample]) -> Iterator[bytes]:
    """A hash of each picture file; of its name where it can't be read, which the loader will report."""
    for sample in samples:
        try:
            yield hashlib.sha256((folder / sample.path).read_bytes()).digest()
        except OSError:
            yield hashlib.sha256(os.fsencode(sample.path)).digest()
