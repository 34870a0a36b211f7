"""Preprocessing: photos -> aligned faces, manifest.csv and failures.csv. The same bytes for any number of workers.

Each photo's result is a line in a journal, written after its crops. A run that is killed resumes after the last whole
line; the tables are written from the journal at the end. Names and results are kept in files, not in memory.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePath
from typing import Any

from agecli.core.ages import AgeGrid, parse_age
from agecli.core.errors import InputError, MissingError
from agecli.core.files import remove_parts, write_csv, write_text
from agecli.core.journal import JournalFile
from agecli.core.locks import locked
from agecli.core.outputs import check_output
from agecli.core.parallel import check_workers
from agecli.core.reading import shown
from agecli.core.worker_process import Limits
from agecli.core.workers import Workers, open_workers, stream
from agecli.datasets.contact_sheet import draw_contact_sheet
from agecli.datasets.cropping import (
    EYES,
    CropOptions,
    CropResult,
    PhotoToCrop,
    crashed_photo,
    crop_photo,
    find_in_photo,
    is_result,
    is_whole,
)
from agecli.datasets.sources import Source, recognise
from agecli.datasets.sources.labels import Label
from agecli.datasets.spooled import ResultIndex, SpooledNames
from agecli.images.alignment import Alignment
from agecli.images.crops import FaceFinder
from agecli.images.detection import check_detector
from agecli.images.encoding import kind_of_name
from agecli.images.folders import photos_in
from agecli.images.reading import SUFFIXES
from agecli.model.framing import alignment_for

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
JOURNAL = ".preprocess.jsonl"
LONGEST_NAME = 200  # bytes of a photo's name; file systems take 255, of which temporary files need some
OPTION_NAMES = {"detect": "--no-detect", "labelled": "--dataset (whether photos have ages)"}


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


def preprocess(
    src: str | Path,
    *,
    out: str | Path,
    dataset: str = "auto",
    detector: str = "auto",
    target: str | None = None,
    size: int | None = None,
    eye_distance: float | None = None,
    eye_height: float | None = None,
    no_detect: bool = False,
    all_faces: bool = False,
    workers: int = 1,
    max_memory: float | None = None,
    timeout: float | None = None,
    resume: bool = False,
    dry_run: bool = False,
    contact_sheet: str | Path | None = None,
    force: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
    recognised: Callable[[str, int], None] = lambda name, photos: None,
) -> Summary:
    """Detect, align and crop the faces of a data set or of any folder of photos, and write a manifest of them.

    src: the folder of photos.   out: the folder for crops, manifest.csv and failures.csv.
    dataset: its name (`sources.NAMES`), or `auto` to recognise it.
    target: the backbone or the model that will see the faces, whose alignment is used; None is the default alignment.
    size: side of a crop in pixels, 16 to 4096.   eye_distance, eye_height: of the eyes in a crop, as shares of the side.
        Each replaces that of `target` if it is given.
    no_detect: the photos are aligned faces already, and only resized.
    all_faces: crop every face of a photo, not only the main one (`crops.main_face`).
    workers: number of processes.   max_memory, timeout: most GB for a process and seconds for a photo, as in `predict`.
    resume: continue an interrupted run.   dry_run: detect, but write nothing.
    contact_sheet: an image file to draw a sample of the crops into.   force: replace a file that is no contact sheet.
    progress: called with the numbers of photos done and in all.   recognised: called once with the data set and its size.

    Photos that fail are counted and listed in failures.csv. Raises MissingError if there are no photos; InputError for
    wrong options, or an output folder that is not empty (without `resume`) or was begun with other options.

        agecli.preprocess("FG-NET", out="aligned").faces
    """
    folder, place = Path(src), Path(out)
    given = {"size": size, "eye_distance": eye_distance, "eye_height": eye_height}
    alignment = _alignment(target, {name: value for name, value in given.items() if value is not None})
    check_detector(detector)
    check_workers(workers)
    limits = Limits.of(max_memory, timeout)
    if contact_sheet:
        kind_of_name(Path(contact_sheet))
        check_output(Path(contact_sheet), ["picture"], force=force)
    photos = _list_photos(folder, place, dataset)
    source = photos.source
    recognised(source.name, len(photos))
    finder = FaceFinder(detector, main_only=not all_faces)
    options = CropOptions(folder, place, alignment, finder, not no_detect, source.name != "folder")
    with open_workers(workers, limits) as pool:
        if dry_run:
            return _summary(source, stream(partial(find_in_photo, options), photos, pool, crashed_photo))
        with locked(place, folder=True):
            results = _crop_all(options, photos, pool, resume, progress)
            _write_tables(place, source, results)
            if contact_sheet:
                crops = [place / face["path"] for result in results for face in result.get("faces", ())]
                draw_contact_sheet(crops, alignment, Path(contact_sheet))
            return _summary(source, results)


def _alignment(target: str | None, given: Mapping[str, Any]) -> Alignment:
    """The alignment of a backbone or model, or the default one, with the numbers that the user gave."""
    alignment = replace(alignment_for(target) if target else Alignment(), **given)
    if not 16 <= alignment.size <= 4096:
        raise InputError(f"--size {alignment.size} is out of range", hint="use --size 16 to 4096; 256 is the default")
    for name, share in (("--eye-distance", alignment.eye_distance), ("--eye-height", alignment.eye_height)):
        if not 0.05 <= share <= 0.95:
            raise InputError(f"{name} {share} is out of range", hint="it is a share of the crop's side: 0.05 to 0.95")
    return alignment


@dataclass(frozen=True)
class Photos:
    """The recognised data set and the work for each of its photos, made when it is asked for."""

    source: Source
    files: Collection[str]

    def __len__(self) -> int:
        return len(self.files)

    def __iter__(self) -> Iterator[PhotoToCrop]:
        return plan(self.files, self.source)


def _list_photos(folder: Path, out: Path, dataset: str) -> Photos:
    """The recognised data set and its photos, without the crops in an output folder inside of it."""
    if not folder.is_dir():
        raise MissingError(f"there is no folder {folder}", hint="name the folder that holds the photos")
    output = Path(os.path.abspath(out))
    relative = os.path.relpath(output, os.path.abspath(folder)).replace(os.sep, "/")
    inside = "" if relative == "." else f"{relative}/"
    files = SpooledNames(file for file in photos_in(folder) if not file.startswith(inside))
    source = recognise(folder, files, dataset)
    photos = Photos(source, sorted(source.labels) if source.whole else files)
    if not len(photos):
        raise MissingError(f"{folder} has no photos", hint=f"they end in {', '.join(sorted(SUFFIXES))}")
    return photos


def plan(files: Iterable[str], source: Source) -> Iterator[PhotoToCrop]:
    """The work for each photo. The crop of a/b.png is faces/a/b.png.jpg: it depends on the photo's path alone, so that no
    two photos share one.
    """
    for file in files:
        problem = bad_age(source.labels.get(file, Label()).age)
        yield PhotoToCrop(file, crop_target(file), not problem, problem)


def bad_age(text: str) -> str:
    """Why a label can't be an age: it is none, or impossible, as -27 or 1996 in IMDB-WIKI; "" if it can.

    >>> bad_age("250")
    'its age, 250, is impossible'
    """
    if not text:
        return "its age is not known"
    age = parse_age(text)
    if age is None:
        return f"its age, {shown(text)!r}, is not a number"
    return "" if age in AgeGrid() else f"its age, {shown(text)}, is impossible"


def crop_target(file: str) -> str:
    """The path of a photo's crop in the output folder. `..` is replaced, so that a labels.csv can't make us write outside.

    Folders that end in .jpg get a `_`, because the crop of x.png is named like a folder x.png.jpg. A name too long for
    `.jpg` and the like to be added is cut, and gets a hash.
    """
    path = PurePath(file)
    *folders, name = path.relative_to(path.anchor).parts
    folders = [
        "_" if part == ".." else f"{part}_" if re.search(r"\.jpg_*$", part, re.IGNORECASE) else part for part in folders
    ]
    if len(os.fsencode(name)) > LONGEST_NAME:
        digest = hashlib.sha256(os.fsencode(name)).hexdigest()[:16]
        while len(os.fsencode(name)) > LONGEST_NAME:
            name = name[:-1]
        name = f"{name}-{digest}"
    return str(PurePath("faces", *folders, f"{name}.jpg"))


def _crop_all(
    options: CropOptions,
    photos: Photos,
    workers: Workers | None,
    resume: bool,
    progress: Callable[[int, int], None],
) -> Results:
    """The results of all photos, in their order; those in the journal are not computed again."""
    with _open_journal(options, resume) as journal:
        before = ResultIndex(journal)
        remaining = _remaining(options.out, photos, before) if len(before) else photos
        finished = len(photos) - (sum(1 for _ in remaining) if len(before) else len(photos))
        progress(finished, len(photos))
        if len(before):
            remaining = _remaining(options.out, photos, before)
        cropped = stream(partial(crop_photo, options), remaining, workers, crashed_photo)
        for count, result in enumerate(cropped, finished + 1):
            journal.append(result)
            progress(count, len(photos))
        return Results(photos, ResultIndex(journal))


def _remaining(out: Path, photos: Photos, done: ResultIndex) -> Iterator[PhotoToCrop]:
    """The photos without a result, or whose crops are no longer whole."""
    for photo, result in zip(photos, done.find_all(photos.files), strict=True):
        if result is None or not is_whole(out, result):
            yield photo


@dataclass(frozen=True)
class Results:
    """The results of all photos, in their order, read from the journal each time."""

    photos: Photos
    index: ResultIndex

    def __iter__(self) -> Iterator[CropResult]:
        return (result for result in self.index.find_all(self.photos.files) if result is not None)


def _open_journal(options: CropOptions, resume: bool) -> JournalFile:
    """The journal in the output folder, after the folder was checked and prepared."""
    out = options.out
    path, settings = out / JOURNAL, out / "alignment.toml"
    if (path.exists() or (out / "manifest.csv").exists()) and not resume:
        raise InputError(f"{out} holds faces already", hint="continue with --resume, or name another folder with --out")
    if not path.exists() and not (out / "manifest.csv").exists() and (foreign := _foreign_file(out)):
        raise InputError(f"{foreign} was not written by `preprocess`", hint="name another folder with --out")
    alignment = options.alignment.to_toml()
    if settings.exists() and settings.read_text(encoding="utf-8") != alignment:
        raise InputError(
            f"{settings} has another alignment than this run", hint="use the same, or name another folder with --out"
        )
    journal = JournalFile(path, options.header(), resume, OPTION_NAMES, "name another folder with --out", is_result)
    remove_parts(out)  # left by a kill
    if options.detect:  # faces that came aligned were aligned in another way
        write_text(settings, alignment)
    return journal


def _foreign_file(out: Path) -> Path | None:
    """A file that a new run could replace; None if there is none."""
    crops = (path for name in ("faces", "more-faces") for path in (out / name).rglob("*"))
    return next((path for path in (out / "failures.csv", *crops) if path.is_file()), None)


def _write_tables(out: Path, source: Source, results: Iterable[CropResult]) -> None:
    """failures.csv and manifest.csv; the latter last, so that its presence means that the run is complete."""
    write_csv(out / "failures.csv", (result for result in results if "status" in result), FAILURE_COLUMNS)
    rows = (
        {**source.labels.get(result["source"], Label())._asdict(), "source": result["source"], **face}
        for result in results
        for face in result.get("faces", ())
    )
    write_csv(out / "manifest.csv", rows, MANIFEST_COLUMNS)


def _summary(source: Source, results: Iterable[CropResult]) -> Summary:
    """Count the results: photos, faces, failures by status, and faces by detector."""
    photos = faces = found = 0
    failures, detectors = Counter[str](), Counter[str]()
    for result in results:
        photos, found = photos + 1, found + ("faces" in result)
        faces += len(result.get("faces", ()))
        failures.update([result["status"]] if "status" in result else ())
        detectors.update(face["detector"] for face in result.get("faces", ()) if face["detector"])
    return Summary(source.name, photos, faces, found, dict(failures), dict(detectors))
