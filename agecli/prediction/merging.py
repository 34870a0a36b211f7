"""Merging: the parts of a sharded prediction as one file, in the order of the inputs, record by record."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import tee
from pathlib import Path

from agecli.core.errors import InputError
from agecli.core.locks import locked
from agecli.core.outputs import check_output
from agecli.core.streams import Row
from agecli.prediction.journal import Tally
from agecli.prediction.sharding import COMMAND, stored_options
from agecli.prediction.stored_records import read_record
from agecli.prediction.writing import check_destination, choose_format, write_records
from agecli.scaling.parts import clean, damaged, part_path, read_part
from agecli.scaling.places import Place, RemotePath, check_remote_output, destination, place
from agecli.scaling.plan import Plan, damaged_plan, read_plan
from agecli.scaling.run_files import check_not_of_run
from agecli.scaling.state import check_complete

log = logging.getLogger("agecli")
PREPROCESS = "preprocess"  # `datasets.sharding.COMMAND`, whose module takes a while to import


def merge(
    folder: str | Path,
    output: str | Path | None = None,
    *,
    file_format: str | None = None,
    safe_csv: bool = False,
    force: bool = False,
) -> None:
    """Write the records of all parts to one file, whole or not at all: the same bytes as `predict -o` writes.

    For a folder of `preprocess`, manifest.csv and failures.csv are written in that folder, and `output` must be None.

    folder: of the run (`predict --out`);   output: the file, None for stdout; both may be addresses;   file_format, safe_csv, force: as in
    `Predictions.save`. Memory does not grow with the records.
    Raises InputError while parts are missing, with the shards to run, for a part that is damaged, and for an output that is a file of a run.

    Example: `agecli.merge("ages", "ages.parquet")`
    """
    where, path = place(folder), place(output) if output is not None else None
    plan = read_plan(where)
    if plan.command == PREPROCESS:
        _merge_faces(Path(str(where)), path, file_format or ("csv" if safe_csv else None), force)
        return
    if plan.command != COMMAND:
        raise damaged_plan(where, f"it is of `{plan.command}`")
    file_format = choose_format(file_format, path)
    check_destination(file_format, None if path else sys.stdout, safe_csv)
    if path:
        check_not_of_run(path)
    if isinstance(path, RemotePath):
        check_remote_output(path, force)
    elif path:
        check_output(path, ["table"], force=force)
    check_complete(where, plan, COMMAND)
    tally = Tally()
    with locked(path) if isinstance(path, Path) else nullcontext(), destination(path, sys.stdout) as stream:
        lines, records = tee(_records(where, plan))
        rows = tally(row for _, row in records)
        if file_format == "jsonl":
            stream.writelines(line.decode("ascii") for _, (line, _) in zip(rows, lines, strict=True))
        else:
            del lines  # else it would keep all records
            write_records(rows, file_format, _columns(where, plan), stream, safe_csv)
    clean(where)
    if path:
        log.info("wrote %s: %d inputs, %d of them without an age", path, tally.inputs, tally.failed)


def _merge_faces(folder: Path, output: Place | None, file_format: str | None, force: bool) -> None:
    """Write the tables of `preprocess` into its folder."""
    if output or file_format:
        raise InputError(
            f"{folder} is of `preprocess`, whose tables are written there",
            hint=f"leave out -o and --format: agecli merge {folder}",
        )
    from agecli.datasets.merging import merge_faces

    merge_faces(folder, force=force)


def _records(folder: Place, plan: Plan) -> Iterator[tuple[bytes, Row]]:
    """The lines of all parts, in order, and the record in each. Raises InputError for a damaged part.

    All records have the fields of the first one.
    """
    columns: tuple[str, ...] = ()
    for number in range(plan.shards):
        for line in read_part(folder, plan, number):
            try:
                row = read_record(line)
                columns = columns or tuple(row)
                if tuple(row) != columns:
                    raise ValueError("its records have other fields than those before")
            except ValueError as error:
                raise damaged(part_path(folder, plan, number), str(error)) from error
            yield line, row


def _columns(folder: Place, plan: Plan) -> tuple[str, ...]:
    """The fields of the records: those of the first one, or of the options if there is none."""
    for _, row in _records(folder, plan):
        return tuple(row)
    return stored_options(folder, plan).columns(shift=False)
