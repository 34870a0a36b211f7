"""Parts in Parquet: records in row groups, and the footer of the part in the metadata of the file.

The hash of a part is that of its records as JSON lines, as they are read back. Needs the extra `parquet`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from agecli.core.parquet_records import GROUP, RecordWriter, to_cells, to_row
from agecli.scaling.stored_values import parse_json

MAGIC = 4  # bytes at the beginning, and at the end
LENGTH = 4  # bytes of the length of the metadata, at the end
EMPTY = ("source",)  # columns of a part without records


def to_line(row: dict[str, Any]) -> bytes:
    """A record as a JSON line."""
    return json.dumps(row).encode("ascii") + b"\n"


class ParquetPart:
    """A part that is written in row groups. Use it as a context manager.

    mark: the name of the footer in the metadata.   The columns are those of the first record.
    """

    def __init__(self, path: Path, mark: str) -> None:
        self.file, self.mark = path.open("wb"), mark
        self.writer: RecordWriter | None = None
        self.columns: tuple[str, ...] = ()
        self.group: list[dict[str, Any]] = []
        self.closed = False

    def __enter__(self) -> ParquetPart:
        return self

    def __exit__(self, *error: object) -> None:
        if self.writer and not self.closed:  # after an error, which counts
            with suppress(OSError, pa.ArrowException):
                self.writer.writer.close()
        with suppress(OSError) if error[0] else nullcontext():
            self.file.close()

    def write_line(self, line: bytes) -> bytes:
        """Add a record; the line as it is read back."""
        row = json.loads(line)
        self.columns = self.columns or tuple(row)
        cells = to_cells(row, self.columns)
        self.group.append(cells)
        if len(self.group) >= GROUP:
            self._write_group()
        return to_line(to_row(cells))

    def _write_group(self) -> RecordWriter:
        self.writer = self.writer or RecordWriter(self.file, self.columns or EMPTY)
        if self.group:
            self.writer.write(self.group)
        self.group = []
        return self.writer

    def close(self, note: str) -> None:
        """Add what is left, and the footer."""
        with self._write_group() as writer:
            writer.note(self.mark, note)
        self.closed = True


def read_note(file: BinaryIO, mark: str) -> bytes:
    """The footer of a part. Raises ValueError if the file is truncated, longer, or lacks bytes in the middle."""
    try:
        about = pq.read_metadata(file)
        note = (about.metadata or {})[mark.encode()]
        records = parse_json(note.decode("ascii"))[mark]["records"]
    except (pa.ArrowException, OSError, KeyError) as error:
        raise ValueError("no part") from error
    groups = [about.row_group(number) for number in range(about.num_row_groups)]
    chunks = sum(group.column(place).total_compressed_size for group in groups for place in range(about.num_columns))
    if about.num_rows != records or chunks + about.serialized_size + 2 * MAGIC + LENGTH != file.seek(0, 2):
        raise ValueError("truncated")
    return bytes(note)


def read_lines(file: BinaryIO) -> Iterator[bytes]:
    """The records of a part as JSON lines, a row group at a time. They end early where a group can't be read."""
    try:
        for batch in pq.ParquetFile(file).iter_batches(GROUP):
            for cells in batch.to_pylist():
                yield to_line(to_row(cells))
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError):  # the latter of columns that are no record's
        return
