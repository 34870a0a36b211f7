"""Rows of Parquet files: pictures in a column of bytes, or paths of pictures in a column of text. Needs the extra `parquet`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from agecli.images.members import MOST_BYTES, Member, too_large
from agecli.images.opening import UnreadableError
from agecli.images.remote import is_url

IMAGES = ("image", "img", "photo", "picture", "jpg", "jpeg", "png", "webp", "bytes", "content", "data")  # columns
PATHS = ("path", "file", "filename", "file_name", "file_path", "image_path", "url", "image_url", "source")
ROWS = 32  # pictures that are read at a time
NAMES = 1024  # names that are read at a time


def list_rows(file: BinaryIO, container: str) -> Iterator[Member | str]:
    """The pictures of a Parquet file, or the names in it; relative ones are relative to the folder of the file.

    A column of pictures has bytes, or structs with `bytes` and perhaps `path`, as in the data sets of Hugging Face.
    Raises UnreadableError if there is no such column.
    """
    table = pq.ParquetFile(file)
    if column := _picture_column(table.schema_arrow):
        for number, label in enumerate(_labels(table, column)):
            yield Member(f"{container}/{label or number}", container, "parquet", number)
        return
    column = _best(table.schema_arrow, (*PATHS, *IMAGES), _is_text)
    if column is None:
        raise UnreadableError(f"it has no column of pictures or paths: {', '.join(table.schema_arrow.names)[:200]}")
    folder = os.path.dirname(container)
    for batch in table.iter_batches(NAMES, columns=[column]):
        for name in batch.column(0).to_pylist():
            yield name if not name or is_url(name) or is_url(container) else os.path.join(folder, name)


def read_rows(file: BinaryIO, first: int) -> Iterator[tuple[int, bytes | UnreadableError]]:
    """The pictures from a row on, each with its number; row groups before it are not read."""
    table = pq.ParquetFile(file)
    number, groups = 0, list(range(table.metadata.num_row_groups))
    while groups and number + (rows := table.metadata.row_group(groups[0]).num_rows) <= first:
        number += rows
        del groups[0]
    for batch in table.iter_batches(ROWS, row_groups=groups, columns=[_picture_column(table.schema_arrow)]):
        for cell in batch.column(0):
            yield number, _bytes(cell.as_py())
            number += 1


def _bytes(value: Any) -> bytes | UnreadableError:
    """The picture in a cell."""
    data = value.get("bytes") if isinstance(value, dict) else value
    if not data:
        return UnreadableError("its row has no picture")
    return UnreadableError(too_large(len(data))) if len(data) > MOST_BYTES else bytes(data)


def _labels(table: Any, column: str) -> Iterator[str | None]:
    """The name of each picture; None where it has none."""
    kind = table.schema_arrow.field(column).type
    if not pa.types.is_struct(kind) or kind.get_field_index("path") < 0:
        yield from (None for _ in range(table.metadata.num_rows))
        return
    for batch in table.iter_batches(NAMES, columns=[f"{column}.path"]):
        yield from (cell and cell["path"] for cell in batch.column(0).to_pylist())


def _picture_column(schema: Any) -> str | None:
    """The column of pictures; None if there is none."""
    return _best(schema, IMAGES, _is_picture, anything=True)


def _best(schema: Any, names: Sequence[str], fits: Any, anything: bool = False) -> str | None:
    """The first column of these names that fits, in the order of the names; with `anything`, else any that fits."""
    found = {field.name.lower(): field.name for field in schema if fits(field.type)}
    known = [found[name] for name in names if name in found]
    return next(iter(known or (found.values() if anything else ())), None)


def _is_picture(kind: Any) -> bool:
    if pa.types.is_struct(kind):
        place = kind.get_field_index("bytes")
        return place >= 0 and _is_picture(kind.field(place).type)
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
