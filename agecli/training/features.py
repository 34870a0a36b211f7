"""Features of a frozen backbone: computed once for each face, cached on disk, and shared by all runs.

The cache key is a hash of all that a feature depends on: the backbone's name and weights, the crop and the bytes of the
picture file. So no entry can be stale.
"""

from __future__ import annotations

import dataclasses
import hashlib
import logging
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from agecli.core.errors import InputError
from agecli.core.reading import MOST_TABLE
from agecli.core.records import Sample
from agecli.images.opening import UnreadableError, read_content
from agecli.model.checkpoint import fingerprint
from agecli.model.devices import to_device
from agecli.model.network import AgeModel
from agecli.model.pooling import StagePooling
from agecli.training.batches import Faces, every_face

log = logging.getLogger("agecli")
VERSION = 1  # raised when pictures are decoded or cut in another way
BATCH = 16  # pictures; larger ones were not faster on a CPU (benchmarks/memory.py)


def cache_folder() -> Path:
    """The folder of the cache: $AGECLI_CACHE, or `agecli` in the user's cache folder."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("AGECLI_CACHE") or Path(base) / "agecli")


class FeatureStore:
    """An SQLite file of features by key. A batch is one transaction, so that a kill leaves no half of it.

    All methods raise InputError if the file can't be used.
    """

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
                base.execute("PRAGMA trusted_schema = OFF")
                others = base.execute("SELECT name FROM sqlite_master WHERE type IN ('view', 'trigger')").fetchone()
                if others:  # they could run for ever
                    raise sqlite3.DatabaseError("it has views or triggers, and is no cache of agecli")
                yield base
        except sqlite3.Error as error:
            hint = "remove it, or set AGECLI_CACHE to another folder"
            raise InputError(f"the feature cache {self.path} can't be used: {error}", hint) from error

    def get(self, keys: Sequence[bytes], size: int) -> dict[bytes, Tensor]:
        """The features (D,) that are there, by key; entries that are not D finite numbers are left out.   size: D"""
        found = {}
        with self._open() as base:
            for key in set(keys):
                row = base.execute("SELECT value FROM features WHERE key = ?", (key,)).fetchone()
                if row and isinstance(row[0], bytes) and len(row[0]) == 4 * size:
                    feature = torch.from_numpy(np.frombuffer(row[0], np.float32).copy())
                    if torch.isfinite(feature).all():
                        found[key] = feature
        return found

    def put(self, rows: Sequence[tuple[bytes, Tensor]]) -> None:
        """Store features (D,) by key."""
        with self._open() as base:
            pairs = [(key, value.numpy().tobytes()) for key, value in rows]
            base.executemany("INSERT OR REPLACE INTO features VALUES (?, ?)", pairs)


@dataclasses.dataclass(frozen=True)
class Features:
    """The features of n samples."""

    values: Tensor  # (n, D), float32; rows of unreadable pictures are NaN
    broken: dict[str, str]  # unreadable pictures: path -> reason


def compute_features(
    model: AgeModel,
    name: str,
    folder: Path,
    samples: Sequence[Sample],
    device: torch.device,
    workers: int = 0,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Features:
    """The backbone's features of every sample, from the cache or else from the network, which fills the cache.

    model: its extractor is used; name: the backbone's, a part of the cache key; folder: of the samples' paths.
    workers: processes that read pictures; progress: called with the faces that are done, and all.
    Raises InputError if the cache can't be used.
    """
    store = FeatureStore(cache_folder() / "features.sqlite")
    variant = (("mirrored",) if model.mirror else ()) + (("stages", model.f.in_features) if _is_pooled(model) else ())
    identity = (VERSION, name, fingerprint(model), model.picture, *variant)
    prefix = hashlib.sha256(repr(identity).encode()).digest()
    keys = [hashlib.sha256(prefix + content).digest() for content in _contents(folder, samples)]
    known = store.get(keys, model.f.in_features)
    waiting = [index for index, key in enumerate(keys) if key not in known]
    broken: dict[str, str] = {}
    log.debug("features of %d faces: %d cached, %d to compute", len(keys), len(keys) - len(waiting), len(waiting))
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
    """Whether the features are pooled feature maps of the backbone's last stages."""
    return isinstance(model.backbone, StagePooling)


def _filled(pixels: Tensor) -> Tensor:
    """Pad pixels (n, 3, H, W) to a whole batch: in smaller ones the last digits of a feature differ, and a killed and
    resumed run would differ from one without a stop."""
    return torch.cat((pixels, pixels.new_zeros(BATCH - len(pixels), *pixels.shape[1:])))


def _contents(folder: Path, samples: Sequence[Sample]) -> Iterator[bytes]:
    """The SHA-256 of each picture file; that of its name if it can't be read, which the loader will report."""
    for sample in samples:
        try:
            yield hashlib.sha256(read_content(folder / sample.path, MOST_TABLE)).digest()
        except (OSError, UnreadableError):
            yield hashlib.sha256(os.fsencode(sample.path)).digest()
