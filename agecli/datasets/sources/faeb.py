"""Labels from the JSON files of FAE-B, the Facial Age Estimation Benchmark (Paplhám and Franc, CVPR 2024).

Each published file, such as MORPH.json, lists the photos of one data set with age, person and `folder`, a number by which
the benchmark's five subject-exclusive splits are made (`--setup fae-b`). Put the file into the folder of the photos.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from agecli.core.reading import MOST_TABLE, check_size
from agecli.datasets.sources import labels
from agecli.datasets.sources.finding import find_files
from agecli.datasets.sources.labels import Label

FIELDS = {"img_path", "age", "folder"}  # of an entry; `id_num` and `gender` are optional


def faeb_json(folder: Path, files: Sequence[str]) -> dict[str, Label] | None:
    """The labels of the photos that a FAE-B file in `folder` lists; the split is the number of its folder, as text.

    files: the photos in the folder. A photo is found by its path in the file, or by the end of it, since copies of data sets
    differ in their upper folders.   Returns None if there is no such file, or none of the photos is in it.
    """
    jsons = find_files(folder, lambda name: name.endswith(".json"))
    tables = [path for path in jsons if any(True for _ in _entries(path))]
    if not tables:
        return None  # before the names of all photos are kept in memory
    by_path = {file.lower(): file for file in files}
    by_end: dict[str, list[str]] = {}
    for file in files:
        by_end.setdefault(PurePosixPath(file).name.lower(), []).append(file)
    for path in tables:
        found: dict[str, Label] = {}
        for entry in _entries(path):
            file = _find(str(entry["img_path"]), by_path, by_end)
            if file:
                person, sex = entry.get("id_num"), entry.get("gender")
                found[file] = Label(
                    age=str(entry["age"]),
                    subject="" if person is None else str(person),
                    sex="" if sex is None else labels.sex(str(sex)),
                    split=str(entry["folder"]),
                )
        if found:
            return found
    return None


def _entries(path: Path) -> Iterator[Mapping[str, Any]]:
    """The entries of a FAE-B file; none if it is something else."""
    if not path.is_file():
        return
    check_size(path, MOST_TABLE)
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig", errors="surrogateescape"))
    except (ValueError, RecursionError):
        return
    if isinstance(content, list):
        yield from (entry for entry in content if isinstance(entry, dict) and entry.keys() >= FIELDS)


def _find(name: str, by_path: Mapping[str, str], by_end: Mapping[str, Sequence[str]]) -> str:
    """The photo that an entry means: without as few of its upper folders as possible; "" if there is none, or several."""
    parts = PurePosixPath(name.replace("\\", "/").lower()).parts
    for start in range(len(parts)):
        if file := by_path.get("/".join(parts[start:])):
            return file
    same = by_end.get(parts[-1], ()) if parts else ()
    return same[0] if len(same) == 1 else ""
