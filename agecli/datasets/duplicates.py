"""Duplicates: which photos are the same picture, whatever their file, size, light or direction. No torch here.

Three sieves, each finer and dearer than the one before: 64-bit perceptual hashes that differ in a few bits are found
without comparing all pairs; the numbers behind the hashes must be alike; and the photos, laid over one another, must
agree in details and shades. Aligned faces all look alike to a hash, so nothing is said before the last one.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from agecli.core.parallel import Map
from agecli.core.parallel import workers as worker_processes
from agecli.images.reading import MOST_PIXELS, UnreadableError, read_picture

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Hashes = NDArray[np.uint64]
Pair = tuple[str, str, bool]  # two photos, and whether one is to be mirrored
Progress = Callable[[str, int, int], None]  # of what, done, in all

# Set on the 52 copies that comparing all pairs of photos in UTKFace, AAF and FG-NET (131 million) brought to light.
SIDE = 64  # of the small grey picture that everything here looks at
BITS = 64
BANDS = 5  # of two hashes with up to 9 different bits, some fifth has one at most
RADIUS = 2 * BANDS - 1  # 50 of the 52 are this near; the others are cropped by more
ALIKE = 0.85  # correlation of two prints: the 50 have 0.87 or more, and 15 of 16 other pairs with near hashes less
SAME = 0.9  # correlation of details: 47 of the 50 have more; two photos of one sitting had 0.87, of two people 0.85
SHADES = 0.95  # correlation of equalised shades: 45 of the 47; drawn faces with equal outlines (`agecli toy`) 0.93
DETAIL = 3.0  # pixels; what is larger, such as light, background and the face that all have, is not compared
OVERLAP = 0.6  # of the picture; crops that share less are different pictures
FLAT = 2.0  # grey levels; a picture that varies less, such as a blank page, has nothing to compare
BATCH = 1024  # pairs of pictures that are compared at a time
BLOCK = 1 << 17  # pairs of hashes that are compared at a time: 1 MB, which a core has at hand


def _lowest_frequencies() -> tuple[Ints, Ints]:
    """Rows and columns of the 64 lowest in a DCT, without the mean: scaling and compression leave them alone.

    Neighbours depend on each other, so they are dealt to the bands like cards: no band is the same in most photos.
    """
    rows, columns = np.indices((16, 16))
    lowest = np.argsort(np.hypot(rows, columns) + 1e-6 * rows, axis=None)[1 : BITS + 1]
    dealt = np.concatenate([lowest[band::BANDS] for band in range(BANDS)])
    return rows.ravel()[dealt], columns.ravel()[dealt]


ROWS, COLUMNS = _lowest_frequencies()
WEIGHTS = np.hypot(ROWS, COLUMNS).astype(np.float32)  # photos have less of a wave the shorter it is; each is to count
# A mirrored cosine with an odd number of half waves changes its sign: a mirror image need not be looked at.
MIRROR = np.where(COLUMNS % 2, -1, 1).astype(np.float32)


@dataclass(frozen=True)
class Link:
    """Two photos that are one picture."""

    one: str
    two: str
    kind: str  # identical (files), near (-identical pictures) or mirrored


@dataclass(frozen=True)
class Duplicates:
    links: tuple[Link, ...]  # the strongest that hold each group of copies together: one less than it has photos
    unreadable: dict[str, str]  # why, by path

    def groups(self) -> list[list[str]]:
        """The photos of each picture that is there more than once."""
        groups = Groups()
        for link in self.links:
            groups.join(link.one, link.two)
        found: dict[str, list[str]] = {}
        for path in sorted(groups.parent):
            found.setdefault(groups.of(path), []).append(path)
        return list(found.values())


class Groups:
    """Groups that grow together; each goes by its first member."""

    def __init__(self) -> None:
        self.parent: dict[str, str] = {}

    def of(self, item: str) -> str:
        while (parent := self.parent.get(item, item)) != item:
            self.parent[item] = self.parent[parent]  # half as far the next time
            item = parent
        return item

    def join(self, one: str, two: str) -> bool:
        """False if they were together already."""
        first, second = sorted((self.of(one), self.of(two)))
        self.parent[first] = self.parent[second] = first
        return first != second


def find_duplicates(
    folder: Path, paths: Iterable[str], *, workers: int = 1, progress: Progress = lambda what, done, total: None
) -> Duplicates:
    """Which of the photos in a folder are copies of one another. The same whatever the number of workers."""
    names = sorted(set(paths))
    prints = np.zeros((len(names), BITS), dtype=np.float32)  # 128 MB for 500,000 photos
    first: dict[bytes, int] = {}  # the photo with these bytes
    links: list[Link] = []
    unreadable: dict[str, str] = {}
    with worker_processes(workers, chunk=16, advice="Use fewer --workers") as run:
        for number, seen in enumerate(run(partial(_look, folder), names)):
            if isinstance(seen, str):
                unreadable[names[number]] = seen
            elif (one := first.setdefault(seen[0], number)) != number:
                links.append(Link(names[one], names[number], "identical"))  # its print stays 0, which is like none
            else:
                prints[number] = seen[1]
            progress("photos", number + 1, len(names))
        pairs = [(names[one], names[two], mirrored) for one, two, mirrored in candidates(prints)]
        links += _verified(folder, pairs, run, progress)
    return Duplicates(tuple(links), unreadable)


def _verified(folder: Path, pairs: list[Pair], run: Map, progress: Progress) -> Iterator[Link]:
    """The pairs that are the same picture, without those that others join already: a film of 1000 frames has 500,000."""
    groups = Groups()
    for start in range(0, len(pairs), BATCH):
        batch = [pair for pair in pairs[start : start + BATCH] if groups.of(pair[0]) != groups.of(pair[1])]
        for (one, two, mirrored), same in zip(batch, run(partial(_same, folder), batch), strict=True):
            if same and groups.join(one, two):
                yield Link(one, two, "mirrored" if mirrored else "near")
        progress("pairs", min(start + BATCH, len(pairs)), len(pairs))


def _look(folder: Path, name: str) -> tuple[bytes, Floats] | str:
    """A digest of a photo's bytes, and its print; or why it can't be read."""
    try:
        picture = small_grey(folder / name)
        return hashlib.blake2b((folder / name).read_bytes(), digest_size=16).digest(), fingerprint(picture)
    except UnreadableError as error:
        return str(error)


def small_grey(path: Path) -> Floats:
    """(64, 64)"""
    grey = np.asarray(_shrunk_jpeg(path) or read_picture(path).convert("L"))
    way = cv2.INTER_AREA if min(grey.shape) >= SIDE else cv2.INTER_LINEAR
    return cv2.resize(grey, (SIDE, SIDE), interpolation=way).astype(np.float32)


def _shrunk_jpeg(path: Path) -> Image.Image | None:
    """A JPEG in grey and at down to an eighth of its size: 2 times as fast to decode for a chip, 11 times for a large photo.

    None for all that `read_picture` has to judge.
    """
    if not path.is_file():
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(path, formats=["JPEG"]) as image:
                if image.mode not in ("L", "RGB") or image.width * image.height > MOST_PIXELS:
                    return None
                image.draft("L", (SIDE, SIDE))
                return ImageOps.exif_transpose(image).convert("L")
    except Exception:  # whatever it is, read_picture says it better
        return None


def fingerprint(picture: Floats) -> Floats:
    """The lowest frequencies of a picture as a unit vector; 0 if it has none.   (64, 64) -> (64,)

    The product of two prints is the correlation of what is coarse in the pictures, whatever their light and contrast.
    """
    if picture.std() < FLAT:
        return np.zeros(BITS, dtype=np.float32)
    values = cv2.dct(picture)[ROWS, COLUMNS] * WEIGHTS
    return np.asarray(values / max(float(np.linalg.norm(values)), 1e-6), dtype=np.float32)


def hashes_of(prints: Floats) -> Hashes:
    """The perceptual hash: which frequencies are positive.   (n, 64) -> (n,)"""
    return np.packbits(prints > 0, axis=1, bitorder="little").view("<u8").ravel().astype(np.uint64)


def candidates(prints: Floats) -> list[tuple[int, int, bool]]:
    """Pairs of photos that may be the same picture, and whether one is mirrored; the most alike come first."""
    known = np.flatnonzero(prints.any(axis=1))
    prints = prints[known]
    found: set[tuple[float, int, int, bool]] = set()
    for mirrored, turned in ((False, prints), (True, prints * MIRROR)):
        for one, two in near_pairs(hashes_of(prints), hashes_of(turned)):
            alike = np.einsum("ij,ij->i", prints[one], turned[two])
            few = alike >= ALIKE
            pairs = zip((-alike[few]).tolist(), known[one[few]].tolist(), known[two[few]].tolist(), strict=True)
            found.update((*pair, mirrored) for pair in pairs)
    return [pair[1:] for pair in sorted(found)]


def near_pairs(hashes: Hashes, others: Hashes) -> Iterator[tuple[Ints, Ints]]:
    """All i < j with at most RADIUS bits between hashes[i] and others[j]; some come several times.

    Pigeons in holes: hashes that near agree in one band at least, up to a bit, so only those are compared whose band
    does. 500,000 aligned faces and their mirror images take four minutes and 1 GB.
    """
    low = 0
    for width in (len(range(band, BITS, BANDS)) for band in range(BANDS)):
        mine, theirs = (_buckets(part >> np.uint64(low) & np.uint64((1 << width) - 1)) for part in (hashes, others))
        low += width
        found = [np.zeros((2, 0), dtype=np.int64)]
        for value, rows in mine.items():
            near = [theirs[v] for v in (value, *(value ^ 1 << bit for bit in range(width))) if v in theirs]
            columns = np.concatenate(near) if near else rows[:0]
            step = max(1, BLOCK // max(1, len(columns)))
            for some in (rows[start : start + step] for start in range(0, len(rows), step)):
                one, two = np.nonzero(differing_bits(hashes[some, None], others[columns]) <= RADIUS)
                found.append(np.stack((some[one], columns[two])))
        pairs = np.concatenate(found, axis=1)
        pairs = pairs[:, pairs[0] < pairs[1]]
        for start in range(0, pairs.shape[1], BLOCK):
            yield pairs[0, start : start + BLOCK], pairs[1, start : start + BLOCK]


def _buckets(values: Hashes) -> dict[int, Ints]:
    """Where each value stands."""
    order = np.argsort(values, kind="stable")
    found, starts = np.unique(values[order], return_index=True)
    return dict(zip(found.tolist(), np.split(order, starts[1:]), strict=False))  # of nothing, split makes one part


ONES = np.array([bin(number).count("1") for number in range(1 << 16)], dtype=np.uint8)


def differing_bits(one: Hashes, two: Hashes) -> NDArray[np.uint8]:
    different = np.bitwise_xor(one, two)
    if hasattr(np, "bitwise_count"):
        return np.asarray(np.bitwise_count(different), dtype=np.uint8)
    return np.asarray(ONES[different[..., None].view(np.uint16)].sum(axis=-1), dtype=np.uint8)  # numpy 1


def _same(folder: Path, pair: Pair) -> bool:
    one, two, mirrored = pair
    picture = _cached(folder / two)
    details, shades = likeness(_cached(folder / one), np.ascontiguousarray(picture[:, ::-1]) if mirrored else picture)
    return details >= SAME and shades >= SHADES


_cached = lru_cache(maxsize=1024)(small_grey)  # a photo that is like many comes again and again


def likeness(one: Floats, two: Floats) -> tuple[float, float]:
    """How well details and shades of two pictures agree once the second is laid over the first.   Two (64, 64) -> -1 to 1

    Copies were cropped, turned and scaled by whoever aligned the face: a little, but by more than details are large.
    ECC finds the affine map between them whatever their light and contrast (Evangelidis and Psarakis, 2008).
    """
    still = np.eye(2, 3, dtype=np.float32)
    steps = (cv2.TERM_CRITERIA_EPS | cv2.TERM_CRITERIA_COUNT, 15, 1e-3)  # all copies above are there after 10
    try:
        warp: Any = cv2.findTransformECC(one, two, still.copy(), cv2.MOTION_AFFINE, steps)[1]
    except cv2.error:  # it found none
        warp = still
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    laid, cover = (cv2.warpAffine(part, warp, (SIDE, SIDE), flags=flags) for part in (two, np.ones_like(two)))
    shared = cv2.erode(cover, np.ones((5, 5)), borderValue=0) > 0.999  # without the rim, which has half a picture
    if shared.mean() < OVERLAP:
        return 0.0, 0.0
    a, b = ((part - cv2.GaussianBlur(part, (0, 0), DETAIL))[shared] for part in (one, laid))
    return _correlation(a, b), _correlation(_equalised(one[shared]), _equalised(laid[shared]))


def _correlation(one: NDArray[Any], two: NDArray[Any]) -> float:
    one, two = one - one.mean(), two - two.mean()
    return float(one @ two / max(float(np.linalg.norm(one) * np.linalg.norm(two)), 1e-6))


def _equalised(shades: NDArray[Any]) -> NDArray[Any]:
    """How many pixels are darker: what is flat counts as much as what is bold, and each tone curve is the same."""
    levels = shades.round().clip(0, 255).astype(np.uint8)
    count = np.bincount(levels, minlength=256)
    return (np.cumsum(count) - count / 2)[levels]
