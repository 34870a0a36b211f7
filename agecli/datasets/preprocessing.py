"""Preprocessing: photos -> aligned faces, manifest.csv and failures.csv. The same bytes for any number of workers.

Each photo's result is a line in a journal, written after its crops. A run that is killed resumes after the last whole
line; the tables are written from the journal at the end. Names and results are kept in files, not in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from agecli.core.errors import InputError
from agecli.core.files import remove_parts, write_text
from agecli.core.journal import JournalFile
from agecli.core.locks import locked
from agecli.core.outputs import check_output
from agecli.core.parallel import check_workers
from agecli.core.worker_process import Limits
from agecli.core.workers import Workers, open_workers, stream
from agecli.datasets.contact_sheet import draw_contact_sheet
from agecli.datasets.crop_tables import Summary, summarise, write_tables
from agecli.datasets.cropping import (
    CropOptions,
    CropResult,
    PhotoToCrop,
    crashed_photo,
    crop_photo,
    find_in_photo,
    is_result,
    is_whole,
)
from agecli.datasets.photo_list import Photos, list_photos
from agecli.datasets.sources.labels import Label
from agecli.datasets.spooled import ResultIndex
from agecli.images.alignment import Alignment
from agecli.images.detection import check_detector
from agecli.images.encoding import kind_of_name
from agecli.images.face_finder import FaceFinder
from agecli.model.framing import alignment_for
from agecli.scaling.run_files import NAME as PLAN

JOURNAL = ".preprocess.jsonl"
OPTION_NAMES = {"detect": "--no-detect", "labelled": "--dataset (whether photos have ages)"}


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
    all_faces: crop every face of a photo, not only the main one (`face_finder.main_face`).
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
    alignment = alignment_of(target, {name: value for name, value in given.items() if value is not None})
    check_detector(detector)
    check_workers(workers)
    limits = Limits.of(max_memory, timeout)
    if contact_sheet:
        kind_of_name(Path(contact_sheet))
        check_output(Path(contact_sheet), ["picture"], force=force)
    photos = list_photos(folder, place, dataset)
    source = photos.source
    recognised(source.name, len(photos))
    finder = FaceFinder(detector, main_only=not all_faces)
    options = CropOptions(folder, place, alignment, finder, not no_detect, source.name != "folder")
    with open_workers(workers, limits) as pool:
        if dry_run:
            return summarise(source.name, stream(partial(find_in_photo, options), photos, pool, crashed_photo))
        with locked(place, folder=True):
            results = _crop_all(options, photos, pool, resume, progress)
            write_tables(place, results)
            summary = summarise(source.name, (result for _, result in results))
            if contact_sheet:
                crops = (place / face["path"] for _, result in results for face in result.get("faces", ()))
                draw_contact_sheet(crops, summary.faces, alignment, Path(contact_sheet))
            return summary


def alignment_of(target: str | None, given: Mapping[str, Any]) -> Alignment:
    """The alignment of a backbone or model, or the default one, with the numbers that the user gave."""
    alignment = replace(alignment_for(target) if target else Alignment(), **given)
    if not 16 <= alignment.size <= 4096:
        raise InputError(f"--size {alignment.size} is out of range", hint="use --size 16 to 4096; 256 is the default")
    for name, share in (("--eye-distance", alignment.eye_distance), ("--eye-height", alignment.eye_height)):
        if not 0.05 <= share <= 0.95:
            raise InputError(f"{name} {share} is out of range", hint="it is a share of the crop's side: 0.05 to 0.95")
    return alignment


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
    """The labels and results of all photos, in their order, read from the journal each time."""

    photos: Photos
    index: ResultIndex

    def __iter__(self) -> Iterator[tuple[Label, CropResult]]:
        labels = self.photos.source.labels
        found = (result for result in self.index.find_all(self.photos.files) if result is not None)
        return ((labels.get(result["source"], Label()), result) for result in found)


def _open_journal(options: CropOptions, resume: bool) -> JournalFile:
    """The journal in the output folder, after the folder was checked and prepared."""
    out = options.out
    if (out / PLAN).exists():
        raise InputError(
            f"{out} is the folder of a run in shards",
            hint="use the same --shards or --pack, or name another folder with --out",
        )
    path, settings = out / JOURNAL, out / "alignment.toml"
    if (path.exists() or (out / "manifest.csv").exists()) and not resume:
        raise InputError(f"{out} holds faces already", hint="continue with --resume, or name another folder with --out")
    if not path.exists() and not (out / "manifest.csv").exists() and (foreign := foreign_file(out)):
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


def foreign_file(out: Path) -> Path | None:
    """A file that a new run could replace; None if there is none."""
    crops = (path for name in ("faces", "more-faces") for path in (out / name).rglob("*"))
    return next((path for path in (out / "failures.csv", *crops) if path.is_file()), None)
