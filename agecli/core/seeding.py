"""Random numbers that depend on a seed and a purpose only, never on what was drawn before.

So a resumed run, a run with another number of workers and a run on another platform draw the same numbers.
"""

from __future__ import annotations

import hashlib

import numpy as np


def derive(seed: int, *purpose: str | int) -> int:
    """A seed for one purpose, from 0 to 2^56 - 1: `derive(7, "augment", 12)`."""
    text = "/".join(str(part) for part in (seed, *purpose))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")


def generator(seed: int, *purpose: str | int) -> np.random.Generator:
    """A NumPy generator (PCG64) for one purpose: `generator(0, "split", "II", 1).permutation(10)`."""
    return np.random.Generator(np.random.PCG64(derive(seed, *purpose)))
