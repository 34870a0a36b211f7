"""Predictions: the records of some photos, to iterate over or to save to a file that an interrupted run can resume."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, TextIO, cast

from agecli.core.errors import AgecliError, InputError, Interrupted
from agecli.core.files import file_hash, is_stream, remove_parts_of
from agecli.core.locks import locked
from agecli.core.outputs import check_output
from agecli.core.parallel import check_workers
from agecli.core.records import Record
from agecli.core.signals import deferred_signals
from agecli.core.streams import Row, destination
from agecli.core.worker_process import Limits
from agecli.core.workers import Workers, open_workers, stream
from agecli.images.alignment import Alignment
from agecli.images.crops import FaceCropper, PhotoFaces
from agecli.images.isolated_video import VideoReader
from agecli.model.card import Card
from agecli.model.predictors import Predictor
from agecli.prediction.counting import count_items
from agecli.prediction.estimation import photo_records
from agecli.prediction.finished import check_finished, note_finished
from agecli.prediction.inputs import (
    Images,
    Input,
    InputCropper,
    crashed_photo,
    names_only,
    read_inputs,
    read_items,
    source_of,
    stored_only,
)
from agecli.prediction.journal import Journal, Tally, left_out
from agecli.prediction.options import Options, check_batch_size
from agecli.prediction.persons import pool
from agecli.prediction.tracking import follow
from agecli.prediction.writing import check_destination, choose_format, write_records
from agecli.scaling.places import RemotePath, check_remote_output, place, write_whole
from agecli.scaling.run_files import check_not_of_run

if TYPE_CHECKING:
    from agecli.prediction.drawing import Drawer

log = logging.getLogger("agecli")
Progress = Callable[[int], None]


@dataclass(frozen=True)
class Summary:
    """What `Predictions.save` did. An input is a photo or a video; it failed if it gave no age at all."""

    inputs: int = 0
    failed: int = 0
    not_drawn: int = 0  # photos that could not be drawn
    message: str = ""  # the first failure, and how many there are

    @property
    def ok(self) -> bool:
        """Whether every input gave an age and every drawing was written."""
        return not (self.failed or self.not_drawn)


class Predictions(Iterator[Record]):
    """The records of some photos, computed while they are read. Made by `agecli.predict` and `Estimator.predict`.

    It is an iterator, so it can be read once: either record by record, or with `save`.

        for record in agecli.predict("photos/"):
            print(record.source, record.age)

        summary = agecli.predict("photos/", draw="drawn/").save("ages.csv", resume=True)
    """

    def __init__(
        self,
        predictor: Predictor,
        model: Path,
        images: Images,
        options: Options,
        *,
        batch_size: int = 32,
        workers: int = 1,
        limits: Limits | None = None,
        null: bool = False,
        videos: bool = False,
        draw: str | Path | None = None,
        pool: Workers | None = None,
    ) -> None:
        """See `agecli.predict` for the arguments. Raises InputError if one cannot be used.

        pool: worker processes that stay open for further predictions, as of the next shard; None opens some, and warns at
        the end if the photos look unlike those of the calibration.
        """
        check_batch_size(batch_size)
        check_workers(workers)
        self.predictor, self.model, self.options = predictor, model, options
        self.images, self.null, self.videos = images, null, videos
        self.batch_size, self.workers, self.limits, self.pool = batch_size, workers, limits, pool
        self.draw = Path(draw) if draw is not None else None
        self.drawer = _drawer(self.draw, options.every)
        self.video_reader = VideoReader(pool.limits if pool else limits, isolated=bool(pool or limits) or workers > 1)
        self.find_faces = InputCropper(face_cropper(predictor.card, model, options))
        self.safe_csv = False  # of `save`
        self.resumed = 0  # inputs that an interrupted run has done
        self.started = False  # whether images have been read
        self.records: Iterator[Record] = iter(())  # the rest of them

    def __next__(self) -> Record:
        if not self.started:
            self.records = self._predict(self.options)
        return next(self.records)

    def save(
        self,
        output: str | os.PathLike[str] | TextIO,
        *,
        file_format: str | None = None,
        resume: bool = False,
        progress: Progress | None = None,
        force: bool = False,
        safe_csv: bool = False,
    ) -> Summary:
        """Write all records to a file or a text stream, in the order of the photos.

        output: a file, which appears when all is done; until then the records are in `OUTPUT.unfinished`. A pipe, a
            device or an open text stream gets each record at once. An address, as `s3://bucket/ages.jsonl`, gets the file
            when all is done.
        file_format: table, csv, tsv, json, jsonl or parquet; None takes it from the ending of the file, jsonl if it has
            none. Parquet needs the extra `parquet`.
        resume: continue after the records in `OUTPUT.unfinished`. Photos, model and options must be the same, also if
            the output is complete: then nothing is done, and the Summary is that of the run which wrote it.
        force: replace a file that agecli did not write, unless it is a picture, a video or an archive.
        progress: called with the number of photos and frames that were searched for faces so far (see `remaining`).
        safe_csv: CSV and TSV cells that a spreadsheet would run as formulas get an apostrophe in front.

        Returns a Summary. Raises InputError if the output cannot be used or the inputs differ from those of the
        interrupted run, MissingError if the format needs an extra, and Interrupted on Ctrl-C, after which `resume`
        continues.
        """
        if self.started:
            raise InputError("these predictions have been read already", hint="call predict again")
        path = place(output) if isinstance(output, (str, os.PathLike)) else None
        file_format = choose_format(file_format, path)
        check_destination(file_format, None if path else cast(TextIO, output), safe_csv)
        self.safe_csv = safe_csv
        options = replace(self.options, distribution=True) if file_format == "table" else self.options  # for its bars
        if path is None:
            if resume:
                raise InputError(
                    "--resume needs the file that the interrupted run wrote to", hint="name it with --output FILE"
                )
            return self._write(self._rows(options, progress), file_format, cast(TextIO, output))
        check_not_of_run(path)
        if isinstance(path, RemotePath):
            return self._upload(path, file_format, options, resume, force, progress)
        if path.is_dir():
            raise InputError(f"{path} is a folder", hint=f"name a file in it: --output {path / 'ages.jsonl'}")
        if is_stream(path):  # has no journal, because it cannot be resumed
            return self._write(self._rows(options, progress), file_format, path)
        if resume and path.exists() and not Journal.beside(path).exists():
            return self._finished(path, options)
        check_output(path, ["table"], force=force)
        return self._save(path, file_format, options, resume, progress)

    def _finished(self, path: Path, options: Options) -> Summary:
        """The summary of the run that has written a file. Raises InputError if its inputs or options were others."""
        inputs = stored_only(read_inputs(self.images, self.null, self.draw, self.videos), "resume")
        counts = check_finished(path, self._header(options), map(source_of, inputs))
        log.warning("%s is complete: nothing was done. To predict again, remove it or omit --resume", path)
        if counts is None:
            log.warning("the inputs and options of %s are not stored with it, and were not compared", path)
            return Summary()
        count, failed, not_drawn = counts
        return Summary(count, failed, not_drawn, f"{failed} of {count} inputs gave no age" if failed else "")

    def _upload(
        self, path: RemotePath, file_format: str, options: Options, resume: bool, force: bool, progress: Progress | None
    ) -> Summary:
        """Write a file at an address. It has no journal."""
        if resume:
            raise InputError(
                f"--resume can't continue {path}", hint="work in shards: --out s3://… continues by itself, then `merge`"
            )
        check_remote_output(path, force)
        self.predictor.load()
        with write_whole(path, keep=True) as part:
            summary = self._write(self._rows(options, progress), file_format, part)
        log.info("wrote %s", path)
        return summary

    def _save(self, path: Path, file_format: str, options: Options, resume: bool, progress: Progress | None) -> Summary:
        """Write a regular file by way of its journal."""
        self.predictor.load()  # a damaged model is found before any file is written
        with locked(path), Journal(path, self._header(options), resume) as journal:
            remove_parts_of(path)
            self.resumed = journal.inputs
            if journal.inputs:
                log.info("resuming after %d inputs", journal.inputs)
            try:
                for row in self._rows(options, progress, journal.done() if resume else None):
                    journal.add(row)
            except KeyboardInterrupt:
                if not any(journal.rows()):
                    raise
                raise Interrupted(
                    f"interrupted; the records so far are in {journal.path}",
                    hint="continue with the same command and --resume",
                ) from None
            summary = self._write(journal.rows(), file_format, path)
            names = (row["source"] for row in journal.rows())
            counts = (summary.inputs, summary.failed, summary.not_drawn)
            note_finished(path, self._header(options), names, counts)
            journal.finish()
        log.info("wrote %s", path)
        return summary

    def _write(self, rows: Iterable[Row], file_format: str, output: Path | TextIO) -> Summary:
        """Write rows to a file or a stream, and count the inputs that failed."""
        tally = Tally()
        with destination(output, sys.stdout) if isinstance(output, Path) else nullcontext(output) as file:
            columns = self.options.columns(shift=self.predictor.card.shift is not None)
            write_records(tally(rows), file_format, columns, file, self.safe_csv)
        if not tally.inputs:
            log.warning("no photos given: nothing was done")
        not_drawn = self.drawer.failed if self.drawer else 0
        return Summary(tally.inputs, tally.failed, not_drawn, str(tally) if tally.failed else "")

    def remaining(self) -> int | None:
        """The photos and frames of this run, without those that a resumed run has done; None if they can't be counted.

        The frames of videos are estimated. Pictures in iterators and names on stdin can't be counted without waiting.
        """
        seconds, count = self.options.seconds, self.video_reader.count
        return count_items(self.images, self.null, self.draw, self.videos, seconds, self.resumed, count)

    def _rows(
        self, options: Options, progress: Progress | None, done: Iterable[str] | None = None
    ) -> Iterator[dict[str, Any]]:
        """Records as dictionaries, with calls of `progress`."""
        return (record.row() for record in self._predict(options, done, progress))

    def _predict(
        self, options: Options, done: Iterable[str] | None = None, progress: Progress | None = None
    ) -> Iterator[Record]:
        """Start reading.   done: names of the first inputs, which have records already; None if nothing is resumed."""
        self.started = True
        inputs = read_inputs(self.images, self.null, self.draw, self.videos)
        if self.drawer:
            inputs = names_only(inputs, "draw")
        if done is not None:
            inputs = left_out(stored_only(inputs, "resume"), done)
        return self._isolated(inputs, options, progress)

    def _isolated(self, inputs: Iterator[Input], options: Options, progress: Progress | None) -> Iterator[Record]:
        """The records of the inputs; worker processes decode photos and videos, find faces and draw them.

        A thread of this process loads the network meanwhile.
        """
        opened = nullcontext(self.pool) if self.pool else open_workers(self.workers, self.limits)
        with opened as workers, self.video_reader, in_thread(self._load_network):
            items = read_items(inputs, options.seconds, self.video_reader)
            photos = stream(self.find_faces, items, workers, crashed_photo, ahead=2 * self.batch_size)
            each = replace(options, distribution=True) if options.per_person else options  # to be pooled
            records = follow(
                photo_records(self.predictor, _counted(photos, progress), each, self.batch_size, not self.pool)
            )
            if self.drawer:
                self.drawer.workers = workers
                records = self.drawer(records)
            yield from pool(records, self.predictor.card, options) if options.per_person else records

    def _load_network(self) -> None:
        """Load the network. An error is raised again when the network is used."""
        with suppress(AgecliError):
            self.predictor.load()

    def _header(self, options: Options) -> dict[str, Any]:
        """What the records depend on, for the journal."""
        return {"model": file_hash(self.model) if self.model.is_file() else "", **asdict(options)}


@contextmanager
def in_thread(work: Callable[[], None]) -> Iterator[None]:
    """Do some work in a thread during the `with` block, which ends after it."""
    thread = Thread(target=work)
    with deferred_signals():
        thread.start()
    try:
        yield
    finally:
        thread.join()


def _counted(photos: Iterable[PhotoFaces], progress: Progress | None) -> Iterator[PhotoFaces]:
    """The same photos, with calls of `progress`."""
    for count, photo in enumerate(photos, 1):
        if progress:
            progress(count)
        yield photo


def _drawer(folder: Path | None, every: float | str) -> Drawer | None:
    if folder is None:
        return None
    from agecli.prediction.drawing import Drawer  # not at the top: it loads fonts

    return Drawer(folder, every)


def face_cropper(card: Card, model: Path, options: Options) -> FaceCropper:
    """What reads photos and crops their faces for a model.   model: its file, for a warning"""
    return FaceCropper(
        card.picture,
        None if options.no_detect else _alignment(card, model),
        options.detector,
        options.largest,
        options.min_face,
        options.min_score,
        options.looks,
    )


def _alignment(card: Card, model: Path) -> Alignment:
    """How faces are aligned for a model: as its training faces were."""
    if card.alignment:
        return card.alignment
    log.warning("%s was not trained on faces from `agecli preprocess`: the default alignment may not fit it", model)
    return Alignment()
