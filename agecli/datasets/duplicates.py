"""Duplicates: which photos are copies of one another, whatever their file, size, light or direction.

Files with the same bytes are identical. Other candidates come from perceptual hashes (`perceptual_hash`); each pair is
verified by registering one photo to the other and comparing details and shades.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from agecli.core.worker_process import Limits
from agecli.core.workers import Workers, open_workers, stream
from agecli.datasets.perceptual_hash import BITS, SIDE, Floats, candidates, fingerprint, small_grey
from agecli.images.opening import UnreadableError, open_regular

Pair = tuple[str, str, bool]  # two photos, and whether one is mirrored
Progress = Callable[[str, int, int], None]  # what is counted, number done, number in all

# Set on the 50 copies with near hashes among all pairs of photos in UTKFace, AAF and FG-NET (131 million).
MIN_DETAILS = (
    0.9  # correlation of details: 47 of the 50 have more; two photos of one sitting had 0.87, of two people 0.85
)
MIN_SHADES = 0.95  # correlation of equalised shades: 45 of the 47; drawn faces with equal outlines (`agecli toy`) 0.93
DETAIL = 3.0  # pixels; larger structure, such as light, background and the outline of a face, is not compared
MIN_OVERLAP = 0.6  # share of the photo; crops that share less are different pictures
BATCH = 1024  # pairs of photos that are compared at a time


@dataclass(frozen=True)
class Link:
    """Two photos that are copies of one another."""

    one: str
    two: str
    kind: str  # identical (files), near (-identical pictures) or mirrored


@dataclass(frozen=True)
class Duplicates:
    """The copies among the photos of a folder."""

    links: tuple[Link, ...]  # a spanning tree of each group of copies: one link less than it has photos
    unreadable: dict[str, str]  # reasons by path

    def groups(self) -> list[list[str]]:
        """The photos of each group of copies, sorted."""
        sets = DisjointSets()
        for link in self.links:
            sets.merge(link.one, link.two)
        found: dict[str, list[str]] = {}
        for path in sorted(sets.parent):
            found.setdefault(sets.root(path), []).append(path)
        return list(found.values())


class DisjointSets:
    """Union-find over names. (scipy has one, but the base install, which audits, does without scipy.)"""

    def __init__(self) -> None:
        self.parent: dict[str, str] = {}

    def root(self, item: str) -> str:
        """The name that stands for the set of an item: its smallest member."""
        while (parent := self.parent.get(item, item)) != item:
            item = parent
        return item

    def merge(self, one: str, two: str) -> bool:
        """Unite the sets of two items; False if they were one set already."""
        first, second = sorted((self.root(one), self.root(two)))
        self.parent[first] = self.parent[second] = first
        return first != second


def find_duplicates(
    folder: Path,
    paths: Iterable[str],
    *,
    workers: int = 1,
    limits: Limits | None = None,
    progress: Progress = lambda what, done, total: None,
) -> Duplicates:
    """The copies among photos of a folder. The result does not depend on the number of workers.

    paths: relative to the folder; photos that can't be read are reported in the result.
    progress: called with `photos` and then `pairs`, the number done, and the number in all.

        find_duplicates(Path("faces"), ["a.jpg", "b.jpg"]).groups()
    """
    names = sorted(set(paths))
    prints = np.zeros((len(names), BITS), dtype=np.float32)  # 128 MB for 500,000 photos
    first_with: dict[bytes, int] = {}  # digest of a file -> the first photo that has it
    links: list[Link] = []
    unreadable: dict[str, str] = {}
    with open_workers(workers, limits) as pool:
        for number, result in enumerate(stream(partial(_digest_and_print, folder), names, pool, _crashed)):
            if isinstance(result, str):
                unreadable[names[number]] = result
            elif (first := first_with.setdefault(result[0], number)) != number:
                links.append(Link(names[first], names[number], "identical"))  # its print stays 0, which matches none
            else:
                prints[number] = result[1]
            progress("photos", number + 1, len(names))
        pairs = [(names[one], names[two], mirrored) for one, two, mirrored in candidates(prints)]
        links += _verified(folder, pairs, pool, progress)
    return Duplicates(tuple(links), unreadable)


def _digest_and_print(folder: Path, name: str) -> tuple[bytes, Floats] | str:
    """A digest of a file's bytes and the photo's fingerprint; or the reason why it can't be read."""
    try:
        picture = small_grey(folder / name)
        with open_regular(folder / name) as file:
            digest = hashlib.blake2b(file.read(), digest_size=16).digest()
        return digest, fingerprint(picture)
    except UnreadableError as error:
        return str(error)


def _crashed(name: str, reason: str) -> str:
    """The result of a photo whose worker process crashed or exceeded a limit."""
    return reason


def _verified(folder: Path, pairs: list[Pair], pool: Workers | None, progress: Progress) -> Iterator[Link]:
    """The pairs that are copies. Pairs within one group are skipped: 1000 frames of a video have 500,000 of them."""
    sets = DisjointSets()
    for start in range(0, len(pairs), BATCH):
        batch = [pair for pair in pairs[start : start + BATCH] if sets.root(pair[0]) != sets.root(pair[1])]
        results = stream(partial(_are_copies, folder), batch, pool, lambda pair, reason: False)
        for (one, two, mirrored), same in zip(batch, results, strict=True):
            if same and sets.merge(one, two):
                yield Link(one, two, "mirrored" if mirrored else "near")
        progress("pairs", min(start + BATCH, len(pairs)), len(pairs))


def _are_copies(folder: Path, pair: Pair) -> bool:
    """Whether both correlations of a pair exceed their thresholds."""
    one, two, mirrored = pair
    picture = _cached_small_grey(folder / two)
    other = np.ascontiguousarray(picture[:, ::-1]) if mirrored else picture
    details, shades = similarity(_cached_small_grey(folder / one), other)
    return details >= MIN_DETAILS and shades >= MIN_SHADES


_cached_small_grey = lru_cache(maxsize=1024)(small_grey)  # a photo can be in many pairs


def similarity(one: Floats, two: Floats) -> tuple[float, float]:
    """The correlations of details and of shades, -1 to 1, after the second photo was registered to the first.

    one, two: grey photos, (64, 64). Copies were cropped, rotated and scaled when a face was aligned: a little, but by more
    than details are large. ECC finds the affine map between them, whatever the light and contrast (Evangelidis and
    Psarakis, 2008). (0, 0) if they share too little.
    """
    identity = np.eye(2, 3, dtype=np.float32)
    criteria = (cv2.TERM_CRITERIA_EPS | cv2.TERM_CRITERIA_COUNT, 15, 1e-3)  # all known copies converge in 10 steps
    try:
        warp: Any = cv2.findTransformECC(one, two, identity.copy(), cv2.MOTION_AFFINE, criteria)[1]
    except cv2.error:  # it did not converge
        warp = identity
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    registered, cover = (cv2.warpAffine(part, warp, (SIDE, SIDE), flags=flags) for part in (two, np.ones_like(two)))
    shared = cv2.erode(cover, np.ones((5, 5)), borderValue=(0,)) > 0.999  # without the rim, where pixels are mixed
    if shared.mean() < MIN_OVERLAP:
        return 0.0, 0.0
    a, b = ((part - cv2.GaussianBlur(part, (0, 0), DETAIL))[shared] for part in (one, registered))
    return _correlation(a, b), _correlation(_equalised(one[shared]), _equalised(registered[shared]))


def _correlation(one: NDArray[Any], two: NDArray[Any]) -> float:
    """Pearson's correlation of two vectors; 0 if one is constant."""
    one, two = one - one.mean(), two - two.mean()
    return float(one @ two / max(float(np.linalg.norm(one) * np.linalg.norm(two)), 1e-6))


def _equalised(shades: NDArray[Any]) -> NDArray[Any]:
    """Histogram equalisation: the rank of each pixel, which does not depend on the tone curve."""
    levels = shades.round().clip(0, 255).astype(np.uint8)
    count = np.bincount(levels, minlength=256)
    return (np.cumsum(count) - count / 2)[levels]
