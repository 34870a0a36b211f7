"""Random numbers that are a function of a seed and of what they are for, never of what was drawn before.

So a resumed run, a run with other workers and a run on another platform draw the same ones.
"""

from __future__ import annotations

import hashlib

import numpy as np


def derive(seed: int, *purpose: str | int) -> int:
    """A seed of its own for one purpose: `derive(7, "augment", 12)`."""
    text = "/".join(str(part) for part in (seed, *purpose))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")


def generator(seed: int, *purpose: str | int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(derive(seed, *purpose)))
