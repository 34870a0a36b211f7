"""Prediction records as a parquet file, written group by group, so that memory does not grow with the records.

Needs the extra `parquet`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from agecli.core.flat_records import BOX, flat_columns, flat_row
from agecli.core.streams import Row

GROUP = 4096  # rows; with distributions, about 50 MB in memory
TYPES = {
    **dict.fromkeys(("source", "status", "error", "interval", "decision"), pa.string()),
    **dict.fromkeys(("schema", "face", "track", "frames", "box_x", "box_y", "box_w", "box_h"), pa.int64()),
    "abstain": pa.bool_(),
    "distribution": pa.list_(pa.float64()),
    "source_bytes": pa.binary(),
}  # all others are float64


def write_parquet(rows: Iterable[Row], columns: Sequence[str], stream: BinaryIO) -> None:
    """Write rows, given as `Record.row()`, in groups of GROUP. Equal rows give equal bytes.

    columns: of the rows. The box has four columns of its own: box_x, box_y, box_w and box_h.
    Text in parquet is UTF-8. A name that is not has a replacement character in `source`, and its bytes in one more
    column, `source_bytes`, which is null for all other names.
    """
    remaining = iter(rows)
    with RecordWriter(stream, columns) as writer:
        while group := list(islice(remaining, GROUP)):
            writer.write([to_cells(row, columns) for row in group])


class RecordWriter:
    """An open parquet file of records, on a binary stream. Use it as a context manager."""

    def __init__(self, stream: BinaryIO, columns: Sequence[str]) -> None:
        names = (*flat_columns(columns), "source_bytes")
        self.stream, self.schema = stream, pa.schema([(name, _kind(name)) for name in names])
        self.writer = pq.ParquetWriter(_Sink(stream), self.schema, compression="zstd")

    def __enter__(self) -> RecordWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.writer.close()

    def write(self, group: Sequence[Mapping[str, Any]]) -> None:
        """Add a group of rows, as `to_cells` makes them."""
        self.writer.write_table(pa.Table.from_pylist(list(group), self.schema))
        self.stream.flush()

    def note(self, name: str, text: str) -> None:
        """Add an entry to the metadata of the file."""
        self.writer.add_key_value_metadata({name: text})


def _kind(name: str) -> pa.DataType:
    return TYPES.get(name, pa.float64())


def to_cells(row: Row, columns: Sequence[str]) -> dict[str, Any]:
    """The cells of one row: text that is UTF-8, and floats where a column has floats."""
    flat = flat_row(row)
    cells = {name: flat.get(name) for name in flat_columns(columns)}
    for name, value in cells.items():
        if value is not None and _kind(name) == pa.float64():
            cells[name] = float(value)
        elif value is not None and name == "distribution":
            cells[name] = [float(p) for p in value]
        elif isinstance(value, str):
            cells[name] = value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    raw = row["source"].encode("utf-8", "surrogateescape")
    return {**cells, "source_bytes": None if cells["source"] == row["source"] else raw}


def to_row(cells: Mapping[str, Any]) -> dict[str, Any]:
    """The row that cells were made of: the box is a list, and the name has its own bytes."""
    row: dict[str, Any] = {}
    for name, value in cells.items():
        if name == BOX[0]:
            row["box"] = None if value is None else [cells[part] for part in BOX]
        elif name not in (*BOX, "source_bytes"):
            row[name] = value
    if cells["source_bytes"] is not None:
        row["source"] = cells["source_bytes"].decode("utf-8", "surrogateescape")
    return row


class _Sink:
    """A binary stream that may be a pipe: it counts its own position, and stays open for its owner."""

    closed = False

    def __init__(self, stream: BinaryIO) -> None:
        self.stream, self.position = stream, 0

    def write(self, data: bytes) -> int:
        self.stream.write(data)
        self.position += len(data)
        return len(data)

    def tell(self) -> int:
        return self.position

    def flush(self) -> None:
        self.stream.flush()

    def close(self) -> None:
        self.flush()
