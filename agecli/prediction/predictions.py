"""Predictions: the records of some photos, to iterate over or to save to a file that an interrupted run can resume."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

from agecli.core.errors import InputError, Interrupted
from agecli.core.files import file_hash, is_stream
from agecli.core.parallel import check_workers, stream
from agecli.core.records import Record
from agecli.core.streams import Row, destination
from agecli.images.alignment import Alignment
from agecli.images.crops import FaceCropper
from agecli.model.card import Card
from agecli.model.predictors import Predictor
from agecli.prediction.estimation import photo_records
from agecli.prediction.inputs import Images, InputCropper, names_only, read_inputs, read_items
from agecli.prediction.journal import Journal, Tally, left_out
from agecli.prediction.options import Options, check_batch_size
from agecli.prediction.writing import FORMATS, write_records

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
        null: bool = False,
        draw: str | Path | None = None,
    ) -> None:
        """See `agecli.predict` for the arguments. Raises InputError if one cannot be used."""
        check_batch_size(batch_size)
        check_workers(workers)
        self.predictor, self.model, self.options = predictor, model, options
        self.images, self.null = images, null
        self.batch_size, self.workers = batch_size, workers
        self.draw = Path(draw) if draw is not None else None
        self.drawer = _drawer(self.draw, options.every)
        alignment = None if options.no_detect else _alignment(predictor.card, model)
        self.find_faces = InputCropper(
            FaceCropper(
                predictor.card.picture,
                alignment,
                options.detector,
                options.largest,
                options.min_face,
                options.min_score,
                options.looks,
            )
        )
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
    ) -> Summary:
        """Write all records to a file or a text stream, in the order of the photos.

        output: a file, which appears when all is done; until then the records are in `OUTPUT.unfinished`. A pipe, a
            device or an open text stream gets each record at once.
        file_format: jsonl, csv or table; None takes it from the file's suffix, jsonl if that is unknown.
        resume: continue after the records in `OUTPUT.unfinished`. Photos, model and options must be the same.
        progress: called with the number of records predicted so far.

        Returns a Summary. Raises InputError if the output cannot be used or the inputs differ from those of the
        interrupted run, and Interrupted on Ctrl-C, after which `resume` continues.
        """
        if self.started:
            raise InputError("these predictions have been read already", hint="call predict again")
        path = Path(output) if isinstance(output, (str, os.PathLike)) else None
        file_format = file_format or _format_of(path)
        if file_format not in FORMATS:
            raise InputError(f"unknown format `{file_format}`", hint=f"choose one of: {', '.join(FORMATS)}")
        options = replace(self.options, distribution=True) if file_format == "table" else self.options  # for its bars
        if path is None:
            if resume:
                raise InputError(
                    "--resume needs the file that the interrupted run wrote to", hint="name it with --output FILE"
                )
            return self._write(self._rows(options, progress), file_format, cast(TextIO, output))
        if path.is_dir():
            raise InputError(f"{path} is a folder", hint=f"name a file in it: --output {path / 'ages.jsonl'}")
        if is_stream(path):  # has no journal, because it cannot be resumed
            return self._write(self._rows(options, progress), file_format, path)
        if resume and path.exists() and not Journal.beside(path).exists():
            log.warning("%s is complete: nothing was done. To predict again, remove it or omit --resume", path)
            return Summary()
        return self._save(path, file_format, options, resume, progress)

    def _save(self, path: Path, file_format: str, options: Options, resume: bool, progress: Progress | None) -> Summary:
        """Write a regular file by way of its journal."""
        with Journal(path, self._header(options), resume) as journal:
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
            journal.finish()
        log.info("wrote %s", path)
        return summary

    def _write(self, rows: Iterable[Row], file_format: str, output: Path | TextIO) -> Summary:
        """Write rows to a file or a stream, and count the inputs that failed."""
        tally = Tally()
        with destination(output, sys.stdout) if isinstance(output, Path) else nullcontext(output) as file:
            write_records(tally(rows), file_format, self.options.columns, file)
        if not tally.inputs:
            log.warning("no photos given: nothing was done")
        not_drawn = self.drawer.failed if self.drawer else 0
        return Summary(tally.inputs, tally.failed, not_drawn, str(tally) if tally.failed else "")

    def _rows(
        self, options: Options, progress: Progress | None, done: Iterable[str] | None = None
    ) -> Iterator[dict[str, Any]]:
        """Records as dictionaries, with calls of `progress`."""
        for count, record in enumerate(self._predict(options, done), 1):
            if progress:
                progress(count)
            yield record.row()

    def _predict(self, options: Options, done: Iterable[str] | None = None) -> Iterator[Record]:
        """Start reading.   done: names of the first inputs, which have records already; None if nothing is resumed."""
        self.started = True
        inputs = read_inputs(self.images, self.null, skip=self.draw)
        if self.drawer:
            inputs = names_only(inputs, "draw")
        if done is not None:
            inputs = left_out(names_only(inputs, "resume"), done)
        items = read_items(inputs, options.seconds)
        photos = stream(self.find_faces, items, self.workers, ahead=2 * self.batch_size)
        records = photo_records(self.predictor, photos, options, self.batch_size)
        return self.drawer(records) if self.drawer else records

    def _header(self, options: Options) -> dict[str, Any]:
        """What the records depend on, for the journal."""
        return {"model": file_hash(self.model) if self.model.is_file() else "", **asdict(options)}


def _format_of(path: Path | None) -> str:
    """The format that a file name asks for."""
    return path.suffix[1:] if path and path.suffix in (".csv", ".jsonl") else "jsonl"


def _drawer(folder: Path | None, every: float | str) -> Drawer | None:
    if folder is None:
        return None
    from agecli.prediction.drawing import Drawer  # not at the top: it loads fonts

    return Drawer(folder, every)


def _alignment(card: Card, model: Path) -> Alignment:
    """How faces are aligned for a model: as its training faces were."""
    if card.alignment:
        return card.alignment
    log.warning("%s was not trained on faces from `agecli preprocess`: the default alignment may not fit it", model)
    return Alignment()
