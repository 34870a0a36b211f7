"""Preprocessing in shards: the plan of a run, and the work of one process on it. Each shard may be a tar (`--pack`).

What a process needs is in the folder of the run and in a `CropJob`, so that it can be any process on any machine that sees
the folder and the photos. Labels are in the plan: no other process reads the tables of a data set.
"""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from agecli.core.ages import parse_age
from agecli.core.errors import InputError
from agecli.core.files import write_whole
from agecli.core.worker_process import Limits
from agecli.core.workers import Workers, stream
from agecli.datasets.crop_tables import MANIFEST_COLUMNS, manifest_row
from agecli.datasets.cropping import (
    CropOptions,
    CropResult,
    PhotoToCrop,
    crashed_in_memory,
    crashed_photo,
    crop_in_memory,
    crop_photo,
)
from agecli.datasets.photo_list import list_photos, photo_to_crop
from agecli.datasets.preprocessing import JOURNAL, alignment_of, foreign_file
from agecli.datasets.sources.labels import Label
from agecli.images.alignment import Alignment
from agecli.images.detection import check_detector
from agecli.images.face_finder import FaceFinder
from agecli.images.pack_writing import PackWriter
from agecli.images.packs import tar_path
from agecli.scaling.parts import Footer, Tally, do_shard
from agecli.scaling.plan import Plan, Request, damaged_list, damaged_plan, make_plan, read_plan
from agecli.scaling.run_files import NAME
from agecli.scaling.stored_values import is_count, is_number, is_text

COMMAND = "preprocess"
MOST_SIZE = 4096  # pixels of the side of a crop
PACK_SIZE = 1000  # photos for each tar, if it is not given


@dataclass(frozen=True)
class CropJob:
    """How one process does shards of a run. Plain data, so that it can be sent to another machine.

    folder: of the run, absolute.   workers: processes that read photos and find faces, or `sessions.PER_THREAD`.
    """

    folder: str
    workers: int
    limits: Limits
    plan: str = ""  # the key of the plan

    def session(self, tasks: int = 1) -> CropSession:
        """The worker processes of this job."""
        return CropSession(self, tasks)


def plan_preprocessing(
    src: Path,
    out: Path,
    *,
    dataset: str = "auto",
    detector: str = "auto",
    target: str | None = None,
    given: Mapping[str, Any],
    no_detect: bool = False,
    all_faces: bool = False,
    pack: bool = False,
    shards: int | None = None,
    size: int | None = None,
    check_inputs: bool = True,
    recognised: Callable[[str, int], None] = lambda name, photos: None,
    check: Callable[[int], object] = lambda shards: None,
) -> Plan:
    """The plan of `preprocess` in the folder `out`, new or checked; see `plan.make_plan`.

    given: the fields of the alignment that replace those of `target`.   pack: each shard is a tar.
    check_inputs: list the photos and read their labels again for an existing plan, too.
    recognised: called with the data set and its size, if they are listed.   check: of the number of shards.
    Raises MissingError if there are no photos; InputError for wrong options, or an output folder of another origin.
    """
    alignment = alignment_of(target, given)
    check_detector(detector)
    known = (out / NAME).exists()
    if not known and (foreign := _foreign(out)) and not (out / NAME).exists():  # again: crops come after the plan
        raise InputError(f"{foreign} is not of a run in shards", hint="name another folder with --out")
    photos = None
    if check_inputs or not (out / NAME).exists():
        photos = list_photos(src, out, dataset)
        recognised(photos.source.name, len(photos))
    elif dataset == "auto":
        dataset = str(read_plan(out).options.get("dataset"))
    options = {
        "dataset": photos.source.name if photos else dataset,
        "detector": detector,
        "no_detect": no_detect,
        "all_faces": all_faces,
        **asdict(alignment),
        "pack": pack,
    }
    if pack and shards is None and size is None and not (out / NAME).exists():
        size = PACK_SIZE
    request = Request(COMMAND, options, [str(src)], os.getcwd(), shards, size)

    def entries() -> Iterator[dict[str, str]]:
        found = photos or list_photos(src, out, dataset)
        for file in found.files:
            label = found.source.labels.get(file, Label())._asdict()
            yield {"source": file, **{name: value for name, value in label.items() if value}}

    return make_plan(out, request, entries, check_inputs, check)


def _foreign(out: Path) -> Path | None:
    """A file that a run in shards could replace, or a file of a run without shards; None if there is none."""
    own = next((out / name for name in (JOURNAL, "manifest.csv", "alignment.toml") if (out / name).exists()), None)
    return own or foreign_file(out)


def is_entry(entry: object) -> bool:
    """Whether a JSON value is an entry of the plan: the name of a photo, and its label as text."""
    names = {"source", *Label._fields}
    return (
        isinstance(entry, dict)
        and "source" in entry
        and names.issuperset(entry)
        and all(isinstance(value, str) for value in entry.values())
    )


def label_of(entry: Mapping[str, str]) -> Label:
    """The label in an entry of the plan."""
    return Label(**{name: value for name, value in entry.items() if name != "source"})


class CropSession:
    """Worker processes that stay open for many shards. Use it as a context manager.

    tasks: shards that are done at a time, in threads.
    """

    def __init__(self, job: CropJob, tasks: int = 1) -> None:
        self.folder = Path(job.folder)
        self.plan = read_plan(self.folder)
        if job.plan and self.plan.key != job.plan:
            raise InputError(f"{self.folder / NAME} is another one here", hint="name a folder that all machines share")
        self.options = crop_options(self.folder, self.plan)
        self.packed = bool(self.plan.options["pack"])
        self.pool = Workers(job.workers or tasks, job.limits)

    def __enter__(self) -> CropSession:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the worker processes."""
        self.pool.close()

    def do(self, number: int) -> Footer | None:
        """Make the part of a shard; None if another process is making it."""
        return do_shard(self.folder, self.plan, number, self.work)

    def work(self, number: int, entries: Iterator[Any], tally: Tally) -> Iterator[bytes]:
        """The lines of a shard: the result of each photo, whose crops are then written, to files or to the shard's tar."""
        began = time.monotonic()
        labels: deque[Label] = deque()  # of the photos that are being cropped
        photos = (_photo(self._checked(entry), labels) for entry in entries)
        with self._pack(number) as pack:
            for result, crops in self._cropped(photos):
                label = labels.popleft()
                tally.failed += "status" in result
                if pack is not None:
                    for face, content in zip(result.get("faces", ()), crops, strict=True):
                        face["offset"] = pack.add(content, _about(label, result, face))
                yield json.dumps(result).encode("ascii") + b"\n"
        tally.seconds = time.monotonic() - began

    def _checked(self, entry: Any) -> Mapping[str, str]:
        """An entry of the list. Raises InputError for anything else."""
        if not is_entry(entry):
            raise damaged_list(self.folder)
        return entry  # type: ignore[no-any-return]

    def _cropped(self, photos: Iterator[PhotoToCrop]) -> Iterator[tuple[CropResult, list[bytes]]]:
        """The results of photos, and their crops if these are packed; otherwise they have been written."""
        if self.packed:
            return stream(partial(crop_in_memory, self.options), photos, self.pool, crashed_in_memory)
        written = stream(partial(crop_photo, self.options), photos, self.pool, crashed_photo)
        return ((result, []) for result in written)

    @contextmanager
    def _open_pack(self, number: int) -> Iterator[PackWriter]:
        """The tar of a shard, written whole or not at all."""
        with (
            write_whole(tar_path(self.folder, number)) as temporary,
            temporary.open("wb") as file,
            PackWriter(file, number) as pack,
        ):
            yield pack

    def _pack(self, number: int) -> Any:
        """The tar of a shard, or a context of None."""
        return self._open_pack(number) if self.packed else nullcontext()


def _check_options(folder: Path, plan: Plan) -> None:
    """Raise InputError if a plan lacks an option of `preprocess`, or one has an impossible value."""
    checks: dict[str, Callable[[Any], bool]] = {
        **dict.fromkeys(("dataset", "detector"), is_text),
        **dict.fromkeys(("no_detect", "all_faces", "pack"), lambda value: isinstance(value, bool)),
        **dict.fromkeys(("eye_distance", "eye_height"), is_number),
        "size": lambda value: is_count(value) and 1 <= value <= MOST_SIZE,
    }
    for name, check in checks.items():
        if not check(plan.options.get(name)):
            raise damaged_plan(folder, f"{name} is {plan.options.get(name)!r}")
    if len(plan.arguments) != 1:
        raise damaged_plan(folder, "it has no data set")


def crop_options(folder: Path, plan: Plan) -> CropOptions:
    """How the photos of a plan are cropped.   folder: of the run"""
    stored = plan.options
    _check_options(folder, plan)
    alignment = Alignment(stored["size"], stored["eye_distance"], stored["eye_height"])
    finder = FaceFinder(stored["detector"], main_only=not stored["all_faces"])
    source = Path(plan.base, plan.arguments[0])
    return CropOptions(source, folder, alignment, finder, not stored["no_detect"], stored["dataset"] != "folder")


def _photo(entry: Mapping[str, str], labels: deque[Label]) -> PhotoToCrop:
    """The work for an entry of the plan, whose label is kept until its result is there."""
    labels.append(label_of(entry))
    return photo_to_crop(entry["source"], labels[-1])


def _about(label: Label, result: CropResult, face: Mapping[str, Any]) -> dict[str, Any]:
    """What the tar says of a face: its row of the manifest without unknown values, and the age as a number."""
    row = manifest_row(label, result, face)
    about = {name: row[name] for name in MANIFEST_COLUMNS if row.get(name, "") != ""}
    return {**about, "age": parse_age(label.age)} if label.age else about
