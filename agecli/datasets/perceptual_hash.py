"""Perceptual hashes: photos that may be copies of one another, found without comparing all pairs.

A photo's fingerprint is the lowest frequencies of a small grey version of it; its hash is their signs, 64 bits. Copies have
hashes that differ in a few bits and fingerprints that correlate. Aligned faces have that too, more or less, so candidates
must be verified by `duplicates`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from agecli.images.face_frames import lowest_frequencies
from agecli.images.opening import open_picture
from agecli.images.reading import MOST_PIXELS, read_reduced

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]
Hashes = NDArray[np.uint64]

# Set on the 52 copies that comparing all pairs of photos in UTKFace, AAF and FG-NET (131 million) brought to light.
SIDE = 64  # pixels, of the small grey version
BITS = 64
BANDS = 5  # of two hashes with up to 9 different bits, at least one fifth has at most one of them
RADIUS = 2 * BANDS - 1  # bits; 50 of the 52 copies are this near, the others are cropped by more
MIN_CORRELATION = 0.85  # of two fingerprints: the 50 have 0.87 or more, and 15 of 16 other pairs with near hashes less
FLAT = 2.0  # grey levels; a photo with a smaller standard deviation, such as a blank page, has nothing to compare
BLOCK = 1 << 17  # pairs of hashes compared at a time: 1 MB, which fits into a core's cache


def _dealt_frequencies() -> tuple[Ints, Ints]:
    """Rows and columns of the 64 lowest frequencies of a DCT, without the mean: scaling and compression keep them.

    Neighbouring frequencies are correlated, so they are dealt to the bands in turn: no band is equal in most photos.
    """
    dealt = np.concatenate([np.arange(band, BITS, BANDS) for band in range(BANDS)])
    rows, columns = lowest_frequencies(BITS)
    return rows[dealt], columns[dealt]


ROWS, COLUMNS = _dealt_frequencies()
WEIGHTS = np.hypot(ROWS, COLUMNS).astype(np.float32)  # natural images have amplitudes of about 1 / frequency
# A cosine with an odd number of half waves changes its sign when mirrored, so mirrored photos need not be read.
MIRROR = np.where(COLUMNS % 2, -1, 1).astype(np.float32)


def small_grey(path: Path) -> Floats:
    """A photo in grey, (64, 64), 0 to 255. Raises UnreadableError."""
    grey = np.asarray(_shrunk_jpeg(path) or read_reduced(path)[0].convert("L"))
    interpolation = cv2.INTER_AREA if min(grey.shape) >= SIDE else cv2.INTER_LINEAR
    return cv2.resize(grey, (SIDE, SIDE), interpolation=interpolation).astype(np.float32)


def _shrunk_jpeg(path: Path) -> Image.Image | None:
    """A JPEG in grey, decoded at down to an eighth of its size: 2 times as fast for a chip, 11 times for a large photo.

    None for anything else, and for files that `read_reduced` should report.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with open_picture(path, ["JPEG"]) as image:
                if image.mode not in ("L", "RGB") or image.width * image.height > MOST_PIXELS:
                    return None
                image.draft("L", (SIDE, SIDE))
                return ImageOps.exif_transpose(image).convert("L")
    except Exception:  # read_reduced has the better message
        return None


def fingerprint(picture: Floats) -> Floats:
    """The lowest frequencies of a grey photo as a unit vector; 0 for a flat photo.   (64, 64) -> (64,)

    The dot product of two fingerprints is the correlation of the coarse structure, whatever the light and contrast.
    """
    if picture.std() < FLAT:
        return np.zeros(BITS, dtype=np.float32)
    values = cv2.dct(picture)[ROWS, COLUMNS] * WEIGHTS
    return np.asarray(values / max(float(np.linalg.norm(values)), 1e-6), dtype=np.float32)


def hashes_of(prints: Floats) -> Hashes:
    """The perceptual hashes of fingerprints: the signs of their frequencies.   (n, 64) -> (n,)"""
    return np.packbits(prints > 0, axis=1, bitorder="little").view("<u8").ravel().astype(np.uint64)


def candidates(prints: Floats) -> list[tuple[int, int, bool]]:
    """Pairs of photos that may be copies, and whether one is mirrored; the highest correlation first.

    prints: (n, 64); rows of 0, which are flat photos, are in no pair. Returns indices i < j of rows.
    """
    known = np.flatnonzero(prints.any(axis=1))
    prints = prints[known]
    found: set[tuple[float, int, int, bool]] = set()
    for mirrored, others in ((False, prints), (True, prints * MIRROR)):
        for one, two in near_pairs(hashes_of(prints), hashes_of(others)):
            correlation = np.einsum("ij,ij->i", prints[one], others[two])
            high = correlation >= MIN_CORRELATION
            pairs = zip(
                (-correlation[high]).tolist(), known[one[high]].tolist(), known[two[high]].tolist(), strict=True
            )
            found.update((*pair, mirrored) for pair in pairs)
    return [pair[1:] for pair in sorted(found)]


def near_pairs(hashes: Hashes, others: Hashes) -> Iterator[tuple[Ints, Ints]]:
    """All i < j with at most RADIUS different bits between hashes[i] and others[j]; a pair may come several times.

    By the pigeonhole principle, two hashes that near differ by at most one bit in at least one band, so only those with
    such a band are compared. 500,000 aligned faces and their mirror images take four minutes and 1 GB.
    """
    low = 0
    for width in (len(range(band, BITS, BANDS)) for band in range(BANDS)):
        pairs = _near_in_band(hashes, others, low, width)
        low += width
        for start in range(0, pairs.shape[1], BLOCK):
            yield pairs[0, start : start + BLOCK], pairs[1, start : start + BLOCK]


def _near_in_band(hashes: Hashes, others: Hashes, low: int, width: int) -> Ints:
    """The near pairs whose bits from `low` on, `width` of them, differ by at most one.   (2, pairs)"""
    mine, theirs = (_buckets(part >> np.uint64(low) & np.uint64((1 << width) - 1)) for part in (hashes, others))
    found = [np.zeros((2, 0), dtype=np.int64)]
    for value, rows in mine.items():
        near = [theirs[v] for v in (value, *(value ^ 1 << bit for bit in range(width))) if v in theirs]
        columns = np.concatenate(near) if near else rows[:0]
        step = max(1, BLOCK // max(1, len(columns)))
        for some in (rows[start : start + step] for start in range(0, len(rows), step)):
            one, two = np.nonzero(differing_bits(hashes[some, None], others[columns]) <= RADIUS)
            found.append(np.stack((some[one], columns[two])))
    pairs = np.concatenate(found, axis=1)
    return pairs[:, pairs[0] < pairs[1]]


def _buckets(values: Hashes) -> dict[int, Ints]:
    """The positions of each value."""
    order = np.argsort(values, kind="stable")
    found, starts = np.unique(values[order], return_index=True)
    return dict(zip(found.tolist(), np.split(order, starts[1:]), strict=False))  # np.split of nothing has one part


def differing_bits(one: Hashes, two: Hashes) -> NDArray[np.uint8]:
    """The Hamming distance of hashes, broadcast over their shapes."""
    return np.asarray(np.bitwise_count(np.bitwise_xor(one, two)), dtype=np.uint8)
