"""The tables of `preprocess`: manifest.csv, failures.csv, and the numbers that the command prints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agecli.core.files import write_csv
from agecli.datasets.cropping import EYES, CropResult
from agecli.datasets.sources.labels import Label

MANIFEST_COLUMNS = (
    "path",
    "age",
    "subject",
    "sex",
    "race",
    "source",
    *EYES,
    "detector",
    "score",
    "split",
    "rank",
    "birth",
    "taken",
)
FAILURE_COLUMNS = ("source", "status", "reason")


@dataclass(frozen=True)
class Summary:
    """What `preprocess` did: numbers of photos and faces."""

    source: str  # name of the recognised data set
    photos: int
    faces: int
    found: int  # photos with a face
    failures: dict[str, int]  # photos by status
    detectors: dict[str, int]  # faces by the detector that found them

    def rows(self) -> list[dict[str, Any]]:
        """The same as rows of a table with the columns `what` and `count`."""
        lines = [("photos", self.photos), ("with a face", self.found), ("faces", self.faces)]
        lines += [(status.replace("_", " "), count) for status, count in self.failures.items()]
        lines += [(f"by {name}", count) for name, count in self.detectors.items()]
        return [{"what": what, "count": count} for what, count in lines]


def write_tables(out: Path, results: Iterable[tuple[Label, CropResult]]) -> None:
    """failures.csv and manifest.csv; the latter last, so that its presence means that the run is complete.

    results: of each photo, with its label; read twice.
    """
    write_csv(out / "failures.csv", (result for _, result in results if "status" in result), FAILURE_COLUMNS)
    rows = (manifest_row(label, result, face) for label, result in results for face in result.get("faces", ()))
    write_csv(out / "manifest.csv", rows, MANIFEST_COLUMNS)


def manifest_row(label: Label, result: CropResult, face: Mapping[str, Any]) -> dict[str, Any]:
    """The row of a face of a photo, under MANIFEST_COLUMNS and perhaps others."""
    return {**label._asdict(), "source": result["source"], **face}


def summarise(source: str, results: Iterable[CropResult]) -> Summary:
    """Count the results: photos, faces, failures by status, and faces by detector.   source: the data set's name"""
    photos = faces = found = 0
    failures, detectors = Counter[str](), Counter[str]()
    for result in results:
        photos, found = photos + 1, found + ("faces" in result)
        faces += len(result.get("faces", ()))
        failures.update([result["status"]] if "status" in result else ())
        detectors.update(face["detector"] for face in result.get("faces", ()) if face["detector"])
    return Summary(source, photos, faces, found, dict(failures), dict(detectors))
