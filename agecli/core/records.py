"""Records: a labelled face, as it goes in."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sample:
    """One face. Unknown values are empty."""

    path: str  # relative to the manifest
    age: float
    subject: str = ""
    sex: str = ""
    race: str = ""
    split: str = ""
    rank: str = ""
    source: str = ""  # the photo it was cut from, relative to the original set
