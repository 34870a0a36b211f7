"""Preprocessing: photos -> aligned faces, manifest.csv and failures.csv. The same bytes whatever the number of workers.

Each photo's result is a line in a journal, written after its crops. A run that is killed goes on after the last whole
line; the tables are written from the journal at the end.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePath
from typing import Any

import cv2
import numpy as np
from PIL import Image

from agecli.core.errors import InputError, MissingError
from agecli.core.files import write_csv, write_text, write_whole
from agecli.core.parallel import workers as worker_processes
from agecli.datasets.sources import Source, recognise, walk
from agecli.datasets.sources.labels import Label
from agecli.images.alignment import Alignment, Photo, align
from agecli.images.detection import DETECTORS, Face, find_faces, main_face
from agecli.images.reading import SUFFIXES, UnreadableError, read_picture
from agecli.model.framing import alignment_for

EYES = ("left_eye_x", "left_eye_y", "right_eye_x", "right_eye_y")
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
Result = dict[str, Any]  # what the journal says of a photo: its source, and its faces or why there are none


@dataclass(frozen=True)
class Task:
    """A photo to be worked on."""

    source: str  # relative to the data set
    target: str  # its crop, relative to the output; a second face's has a number behind it
    label: Label | None


@dataclass(frozen=True)
class Work:
    """What is done to every photo; it travels to the workers."""

    folder: Path
    out: Path
    alignment: Alignment
    detector: str
    detect: bool
    all_faces: bool
    labelled: bool


@dataclass(frozen=True)
class Summary:
    source: str  # the recognised data set
    photos: int
    faces: int
    found: int  # photos with a face
    failures: dict[str, int]  # by status
    detectors: dict[str, int]

    def rows(self) -> list[dict[str, Any]]:
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
    resume: bool = False,
    dry_run: bool = False,
    contact_sheet: str | Path | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
    recognised: Callable[[str, int], None] = lambda name, photos: None,
) -> Summary:
    """Find, align and write the faces of a data set or of any folder of photos.

    `target` names the backbone or the model that will see them; its alignment is used where none of size, eye_distance
    and eye_height is given. Raises InputError for numbers that can't be, MissingError if there are no photos.

    Example: `preprocess("photos", out="aligned", target="edgeface_s")`
    """
    base = alignment_for(target) if target else Alignment()
    asked = Alignment(
        base.size if size is None else size,
        base.eye_distance if eye_distance is None else eye_distance,
        base.eye_height if eye_height is None else eye_height,
    )
    alignment = _check(asked, detector, workers)
    folder, place = Path(src), Path(out)
    if not folder.is_dir():
        raise MissingError(f"there is no folder {folder}", hint="name the folder that holds the photos")
    files = [file for file in walk(folder) if not _within(folder / file, place)]
    source = recognise(folder, files, dataset)
    tasks = plan(sorted(source.labels) if source.whole else files, source)
    if not tasks:
        raise MissingError(f"{folder} has no photos", hint=f"they end in {', '.join(sorted(SUFFIXES))}")
    recognised(source.name, len(tasks))
    work = Work(folder, place, alignment, detector, not no_detect, all_faces, source.name != "folder")
    if dry_run:
        results = [_look(work, task) for task in tasks]
        return _summary(source, results)
    with _journal(work, resume) as (done, note):
        left = [task for task in tasks if task.source not in done]
        progress(len(tasks) - len(left), len(tasks))
        for count, result in enumerate(_run(work, left, workers), len(tasks) - len(left) + 1):
            note(result)
            done[result["source"]] = result
            progress(count, len(tasks))
    results = [done[task.source] for task in tasks]
    _write_tables(place, tasks, results)
    if contact_sheet:
        draw_contact_sheet(place, results, alignment, Path(contact_sheet))
    return _summary(source, results)


def _check(alignment: Alignment, detector: str, workers: int) -> Alignment:
    if not 16 <= alignment.size <= 4096:
        raise InputError(f"a crop of {alignment.size} pixels", hint="use --size 16 to 4096; 256 is the default")
    for name, share in (("eye distance", alignment.eye_distance), ("eye height", alignment.eye_height)):
        if not 0.05 <= share <= 0.95:
            raise InputError(f"an {name} of {share}", hint="it is a share of the crop's side: 0.05 to 0.95")
    if detector not in ("auto", *DETECTORS):
        raise InputError(f"unknown detector `{detector}`", hint=f"there are: auto, {', '.join(DETECTORS)}")
    if workers < 1:
        raise InputError(f"{workers} workers do no work", hint="use --workers 1 or more")
    return alignment


def _within(path: Path, folder: Path) -> bool:
    """Whether a photo is one of our own crops, if the output lies inside the data set."""
    return Path(os.path.abspath(folder)) in Path(os.path.abspath(path)).parents


def plan(files: Sequence[str], source: Source) -> list[Task]:
    """The crop of a/b.png is faces/a/b.png.jpg: a name that depends on the photo's alone, so no two photos share one."""
    return [Task(file, str(PurePath("faces") / f"{_inside(file)}.jpg"), source.labels.get(file)) for file in files]


def _inside(file: str) -> PurePath:
    """A path that can't lead out of the output folder, whatever a table says."""
    path = PurePath(file)
    return PurePath(*("_" if part == ".." else part for part in path.relative_to(path.anchor).parts))


def _run(work: Work, tasks: Sequence[Task], workers: int) -> Iterator[Result]:
    """The results in the order of the tasks."""
    advice = "Go on with --resume and fewer --workers: all that was done is kept"
    with worker_processes(workers, chunk=4, advice=advice) as run:
        yield from run(partial(_process, work), tasks)


def _process(work: Work, task: Task) -> Result:
    """One photo: its crops are written, whole, before its result is known to anybody."""
    result = _look(work, task, keep_photo=True)
    photo = result.pop("photo", None)
    for number, face in enumerate(result.get("faces", ())):
        face["path"] = task.target if number == 0 else f"more-{task.target.removesuffix('.jpg')}.{number + 1}.jpg"
        eyes = [face[name] for name in EYES]
        crop = (
            align(photo, (eyes[0], eyes[1]), (eyes[2], eyes[3]), work.alignment)
            if work.detect
            else _squared(photo, work.alignment)
        )
        with write_whole(work.out / face["path"], sync=False) as part:
            Image.fromarray(crop).save(part, "JPEG", quality=95, subsampling=0)
    return result


def _look(work: Work, task: Task, keep_photo: bool = False) -> Result:
    """The faces of a photo, or why there are none."""
    if work.labelled and (task.label is None or not task.label.age):
        return _failure(task, "no_age", "its age is not known")
    try:
        photo: Photo = np.asarray(read_picture(work.folder / task.source))
        faces = _faces(work, photo)
    except UnreadableError as error:
        return _failure(task, "unreadable", str(error))
    except (RuntimeError, MemoryError, cv2.error) as error:  # dlib and OpenCV, on pictures of odd shapes
        return _failure(task, "unreadable", f"the detector failed on it: {error}")
    if not faces:
        return _failure(task, "no_face", "no face was found: is it visible, upright and not too small?")
    result: Result = {"source": task.source, "faces": faces}
    return result | {"photo": photo} if keep_photo else result


def _faces(work: Work, photo: Photo) -> list[dict[str, Any]]:
    if not work.detect:
        return [{**dict.fromkeys(EYES, ""), "detector": "", "score": ""}]
    found = find_faces(photo, work.detector, close=work.all_faces)
    if found and not work.all_faces:
        found = [main_face(found, photo)]
    return [_row(face) for face in found if face.left_eye != face.right_eye]


def _row(face: Face) -> dict[str, Any]:
    eyes = (round(value, 2) for value in (*face.left_eye, *face.right_eye))
    return {**dict(zip(EYES, eyes, strict=True)), "detector": face.detector, "score": face.score}


def _failure(task: Task, status: str, reason: str) -> Result:
    return {"source": task.source, "status": status, "reason": reason}


def _squared(photo: Photo, alignment: Alignment) -> Photo:
    """A face that is aligned already is only resized: the square in its middle, as `predict --no-detect` takes it."""
    side = min(photo.shape[:2])
    top, left = ((length - side) // 2 for length in photo.shape[:2])
    way = Image.Resampling.BOX if side > alignment.size else Image.Resampling.BILINEAR
    square = Image.fromarray(photo[top : top + side, left : left + side])
    return np.asarray(square.resize((alignment.size, alignment.size), way))


@contextmanager
def _journal(work: Work, resume: bool) -> Iterator[tuple[dict[str, Result], Callable[[Result], None]]]:
    """The results that are there already, and a function that adds one."""
    out, path = work.out, work.out / JOURNAL
    if (path.exists() or (out / "manifest.csv").exists()) and not resume:
        raise InputError(f"{out} holds faces already", hint="go on with --resume, or name another folder with --out")
    about = work.alignment.to_toml()
    settings = out / "alignment.toml"
    if settings.exists() and settings.read_text(encoding="utf-8") != about:
        raise InputError(
            f"{settings} says another alignment than this one", hint="use the same, or name another folder with --out"
        )
    if work.detect:  # faces that came aligned were aligned by somebody else
        write_text(settings, about)
    out.mkdir(parents=True, exist_ok=True)
    header = {"detector": work.detector, "detect": work.detect, "all_faces": work.all_faces, "labelled": work.labelled}
    lines = _whole_lines(path)
    if lines and lines[0] != header:
        raise InputError(
            f"{out} was begun with other options", hint="use the same ones, or name another folder with --out"
        )
    done = {
        result["source"]: result
        for result in lines[1:]
        if all(
            (out / face["path"]).is_file() for face in result.get("faces", ())
        )  # a crop that was removed is made again
    }
    with path.open("a", encoding="ascii") as file:

        def note(result: Result) -> None:
            file.write(json.dumps(result) + "\n")
            file.flush()

        if not lines:
            note(header)
        yield done, note


def _whole_lines(path: Path) -> list[Result]:
    """What the journal says; a last line that a kill cut short is cut off, and so is what it left of a crop."""
    if not path.exists():
        return []
    for part in path.parent.rglob(".*.part"):
        part.unlink()
    content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    os.truncate(path, len(whole))
    return [json.loads(line) for line in whole.splitlines()]


def _write_tables(out: Path, tasks: Sequence[Task], results: Sequence[Result]) -> None:
    """manifest.csv last, so that its presence means that all is there."""
    write_csv(out / "failures.csv", (result for result in results if "status" in result), FAILURE_COLUMNS)
    rows = (
        {**(task.label or Label())._asdict(), "source": task.source, **face}
        for task, result in zip(tasks, results, strict=True)
        for face in result.get("faces", ())
    )
    write_csv(out / "manifest.csv", rows, MANIFEST_COLUMNS)


def _summary(source: Source, results: Iterable[Result]) -> Summary:
    results = list(results)
    faces = [face for result in results for face in result.get("faces", ())]
    return Summary(
        source.name,
        len(results),
        len(faces),
        sum("faces" in result for result in results),
        dict(Counter(result["status"] for result in results if "status" in result)),
        dict(Counter(face["detector"] for face in faces if face["detector"])),
    )


def draw_contact_sheet(
    out: Path, results: Sequence[Result], alignment: Alignment, path: Path, columns: int = 12, rows: int = 8
) -> None:
    """A sample of the crops, evenly over the set, with the line that the eyes should lie on."""
    from PIL import ImageDraw

    crops = [face["path"] for result in results for face in result.get("faces", ())]
    chosen = crops[:: max(1, -(-len(crops) // (columns * rows)))]
    tile = 112
    sheet = Image.new("RGB", (columns * tile, -(-max(1, len(chosen)) // columns) * tile), "white")
    scale = tile / alignment.size
    for number, name in enumerate(chosen):
        x, y = number % columns * tile, number // columns * tile
        with Image.open(out / name) as crop:
            sheet.paste(crop.resize((tile, tile), Image.Resampling.BOX), (x, y))
        pen = ImageDraw.Draw(sheet)
        for eye in alignment.eyes:
            ex, ey = x + (eye[0] + 0.5) * scale, y + (eye[1] + 0.5) * scale
            pen.line((ex - 6, ey, ex + 6, ey), fill=(0, 255, 160))
            pen.line((ex, ey - 4, ex, ey + 4), fill=(0, 255, 160))
    with write_whole(path) as part:
        sheet.save(part, "PNG" if path.suffix.lower() == ".png" else "JPEG")
