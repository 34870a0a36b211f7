"""Tables as pandas data frames of text, whatever the bytes of the names in them.

pandas takes half a second to import, so only code that analyses whole tables imports this module; `predict` never does.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

from agecli.core.errors import InputError
from agecli.core.files import delimiter, write_whole
from agecli.core.reading import shown

MOST_COLUMNS = 10_000


@contextmanager
def any_bytes() -> Iterator[None]:
    """Within this block (or decorated function) pandas accepts names that are not UTF-8, held as surrogates.

    pandas 3 infers its own text type, which pyarrow stores as UTF-8 if it is installed; Python's strings have no such
    limit. Needed around every operation that makes new text columns or indexes, `groupby` included.

        with any_bytes():
            table.groupby("subject")["age"].mean()
    """
    with pd.option_context("mode.string_storage", "python"):
        yield


def text_table(rows: Iterable[Sequence[Any]], columns: Sequence[str]) -> pd.DataFrame:
    """A data frame of Python objects, as given: numbers are not converted, and names keep their bytes."""
    return pd.DataFrame(list(rows), columns=list(columns), dtype=object)


def read_table(path: Path) -> pd.DataFrame:
    """A CSV file as a data frame of text: one row per line, index from 0; missing cells are empty strings.

    The delimiter is found out; names of columns are stripped and in lower case; cells beyond the header are ignored.
    Blank lines are skipped, so row `i` is on line `i + 2` of a file without them. Raises InputError if it is no CSV file.

        read_table(Path("labels.csv"))["age"]
    """
    return next(read_in_chunks(path, None), pd.DataFrame())


def read_in_chunks(path: Path, rows: int | None) -> Iterator[pd.DataFrame]:
    """The table of `read_table`, so many rows at a time; None for all at once. Nothing if the file is empty."""
    separator = delimiter(path)
    try:
        with path.open(newline="", encoding="utf-8-sig", errors="surrogateescape") as file:
            header = next(csv.reader(file, delimiter=separator), [])
        if not header:
            return
        if len(header) > MOST_COLUMNS:
            raise ValueError(f"it has {len(header)} columns")
        for table in _read_cells(path, separator, len(header), rows):
            table.columns = pd.Index([name.strip().lower() for name in header], dtype=object)
            yield table.loc[:, ~table.columns.duplicated(keep="last") & (table.columns != "")]
    except (csv.Error, ValueError, MemoryError) as error:  # pandas' errors are ValueErrors
        raise InputError(f"{path} can't be read as CSV: {shown(error)}", hint="correct or restore the file") from error


def _read_cells(path: Path, separator: str, columns: int, rows: int | None) -> Iterator[pd.DataFrame]:
    """All lines but the first, as text in this number of columns, so many at a time."""
    options: dict[str, Any] = {
        "sep": separator,
        "dtype": object,
        "keep_default_na": False,
        "encoding": "utf-8-sig",
        "encoding_errors": "surrogateescape",
        "header": None,
        "skiprows": 1,
        "names": range(columns),
        "usecols": range(columns),  # with it, pandas ignores cells beyond the header instead of failing
    }
    with any_bytes():
        if rows is None:
            yield pd.read_csv(path, **options)
            return
        with pd.read_csv(path, chunksize=rows, **options) as tables:
            yield from tables


def write_table(path: Path, table: pd.DataFrame) -> None:
    """Write a data frame as CSV, without its index, whole or not at all; names keep their bytes.

    write_table(Path("splits.csv"), table)
    """
    with write_whole(path) as part:
        table.to_csv(part, index=False, lineterminator="\n", encoding="utf-8", errors="surrogateescape")
