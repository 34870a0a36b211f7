"""The journal of `predict --output FILE`: `FILE.unfinished` holds the records so far, so that a killed run can resume.

FILE itself is written from the journal when all inputs are done.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from agecli.core.errors import InputError
from agecli.core.journal import JournalFile

Row = Mapping[str, Any]  # a prediction record, as JSON has it
Named = TypeVar("Named")
OPTION_NAMES = {"distribution": "--distribution (which --format table implies)"}


class Journal(JournalFile):
    """The records of a run, written beside its output file.

    output: the file that the run will write; the journal is `Journal.beside(output)`.
    about: the options that the records depend on, by name; a resumed run must have the same.
    resume: continue after the inputs that are done. The last input in the journal is dropped and predicted again, as it
        may have more faces or frames than were written.

    Raises InputError as JournalFile does.

        with Journal(Path("ages.jsonl"), {"model": digest}, resume=True) as journal:
            for record in predict(left_out(names, journal.done())):
                journal.add(record.row())
    """

    def __init__(self, output: Path, about: Mapping[str, Any], resume: bool) -> None:
        self.inputs = 0  # inputs that are done
        super().__init__(self.beside(output), about, resume, OPTION_NAMES, valid=is_record)
        if resume:
            self._drop_last_input()

    @staticmethod
    def beside(output: Path) -> Path:
        """The path of the journal of an output file."""
        return output.with_name(f"{output.name}.unfinished")

    def add(self, row: Row) -> None:
        """Append one record."""
        self.append(row)

    def rows(self) -> Iterator[Row]:
        """The records so far, in order."""
        return self.entries()

    def done(self) -> Iterator[str]:
        """The names of the inputs that are done, in order."""
        previous = None
        for row in self.entries() if self.inputs else ():
            if begins(row, previous):
                yield row["source"]
            previous = row

    def finish(self) -> None:
        """Delete the journal: the output file is written."""
        self.remove()

    def _drop_last_input(self) -> None:
        last, previous = None, None
        for offset, row in self.entries_with_offsets():
            if begins(row, previous):
                last, self.inputs = offset, self.inputs + 1
            previous = row
        if last is not None:
            self.inputs -= 1
            self.truncate(last)


def is_record(entry: Mapping[str, Any]) -> bool:
    """Whether an entry of a journal has what is used of a record, in the right types."""
    return (
        isinstance(entry.get("source"), str)
        and isinstance(entry.get("status"), str)
        and isinstance(entry.get("face"), int | None)
        and isinstance(entry.get("time"), float | int | None)
        and {"face", "time"} <= entry.keys()
    )


def begins(row: Row, previous: Row | None) -> bool:
    """Whether a record is the first of its input: a photo may have several faces, a video several frames."""
    if row["face"]:
        return False
    if previous is None or row["source"] != previous["source"] or row["time"] is None or previous["time"] is None:
        return True
    return bool(row["time"] <= previous["time"])


class Tally:
    """Counts inputs, and inputs without a prediction, while their records pass through.

    `str(tally)` is the message for the user: the first failure, or how many of how many inputs failed.

        tally = Tally()
        write(tally(rows))
        exit_code = 1 if tally.failed else 0
    """

    def __init__(self) -> None:
        self.inputs = self.failed = 0
        self.first = ""  # name of the first input that failed, and the reason

    def __call__(self, rows: Iterable[Row]) -> Iterator[Row]:
        """The same records. An input failed if none of its records is `ok`: a video may have frames without a face."""
        failure: Row | None = None  # first record of the current input, while none of its records is ok
        previous: Row | None = None
        for row in rows:
            if begins(row, previous):
                self._count(failure)
                self.inputs, failure = self.inputs + 1, row
            if row["status"] == "ok":
                failure = None
            previous = row
            yield row
        self._count(failure)

    def __str__(self) -> str:
        if self.inputs == 1:
            return self.first
        more = ", …; `status` and `error` of their records say why" if self.failed > 1 else ""
        return f"{self.failed} of {self.inputs} inputs gave no age: {self.first}{more}"

    def _count(self, failure: Row | None) -> None:
        if failure:
            self.failed += 1
            self.first = self.first or f"{failure['source']}: {failure['error']}"


def left_out(inputs: Iterator[Named], done: Iterable[str]) -> Iterator[Named]:
    """The inputs that remain after those in `done`, which must be the first of them, in the same order.

    inputs: names, or objects with a `source`.

    Raises InputError if they are not: the inputs differ from those of the interrupted run.
    """
    for before in done:
        item = next(inputs, None)
        if (name := getattr(item, "source", item)) != before:
            now = "there are no more inputs" if name is None else f"now it is {name}"
            raise InputError(
                f"the inputs differ from those of the interrupted run: {before} was next, and {now}",
                hint="name the same photos in the same order, or write to another file",
            )
    yield from inputs
