"""Prediction records as a parquet file, written group by group, so that memory does not grow with the records.

Needs the extra `parquet`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from agecli.core.streams import Row

GROUP = 4096  # rows; with distributions, about 50 MB in memory
TYPES = {
    **dict.fromkeys(("source", "status", "error", "interval"), pa.string()),
    **dict.fromkeys(("schema", "face", "track", "frames", "box_x", "box_y", "box_w", "box_h"), pa.int64()),
    "abstain": pa.bool_(),
    "distribution": pa.list_(pa.float64()),
    "source_bytes": pa.binary(),
}  # all others are float64


def write_parquet(rows: Iterable[Row], columns: Sequence[str], stream: BinaryIO) -> None:
    """Write rows in groups of GROUP. Equal rows give equal bytes.

    Text in parquet is UTF-8. A name that is not has a replacement character in `source`, and its bytes in one more
    column, `source_bytes`, which is null for all other names.
    """
    names = (*columns, "source_bytes")
    schema = pa.schema([(name, TYPES.get(name, pa.float64())) for name in names])
    remaining = iter(rows)
    with pq.ParquetWriter(_Sink(stream), schema, compression="zstd") as writer:
        while group := list(islice(remaining, GROUP)):
            writer.write_table(pa.Table.from_pylist([_cells(row, columns) for row in group], schema))
            stream.flush()


def _cells(row: Row, columns: Sequence[str]) -> dict[str, Any]:
    """The cells of one row, with text that is UTF-8."""
    cells = {name: row.get(name) for name in columns}
    raw = {name: value.encode("utf-8", "surrogateescape") for name, value in cells.items() if isinstance(value, str)}
    text = {name: value.decode("utf-8", "replace") for name, value in raw.items()}
    return {**cells, **text, "source_bytes": None if text["source"] == row["source"] else raw["source"]}


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
