"""Cells of CSV files: quoted so that every reader gets them back, and harmless in spreadsheets if that is asked for."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

FORMULA_STARTS = tuple("=+-@\t\r\n＝＋－＠")  # of cells that spreadsheets run (OWASP, "CSV injection")


def csv_line(cells: Iterable[Any], delimiter: str = ",") -> str:
    r"""One line of CSV, with its line break. Python's writer leaves carriage returns unquoted, which cuts a row in two.

    >>> csv_line(["a\rb", None, 1.5, [1, 2]])
    '"a\rb",,1.5,"[1, 2]"\n'
    """
    return delimiter.join(_csv_cell(cell, delimiter) for cell in cells) + "\n"


def _csv_cell(cell: Any, delimiter: str) -> str:
    text = "" if cell is None else json.dumps(cell) if isinstance(cell, list) else str(cell)
    if any(character in text for character in ('"', "\r", "\n", delimiter)):
        return '"' + text.replace('"', '""') + '"'
    return text


def defused(cell: Any) -> Any:
    """A cell that no spreadsheet takes for a formula: text that starts like one gets an apostrophe in front.

    >>> defused("=1+1.jpg"), defused(-3)
    ("'=1+1.jpg", -3)
    """
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA_STARTS) else cell
