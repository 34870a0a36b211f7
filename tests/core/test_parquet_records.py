"""Records in Parquet: every field has the type that it has in a record."""

from __future__ import annotations

from dataclasses import fields

import pyarrow as pa

from agecli.core.parquet_records import TYPES
from agecli.core.records import Record

KINDS = {"str": pa.string(), "int": pa.int64(), "float": pa.float64(), "bool": pa.bool_()}


def test_the_type_of_each_column_is_that_of_the_record() -> None:
    for field in fields(Record):
        kind = str(field.type).partition(" ")[0]
        if kind in KINDS:
            assert TYPES.get(field.name, pa.float64()) == KINDS[kind], field.name
