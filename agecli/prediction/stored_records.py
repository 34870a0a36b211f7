"""Records that are read from parts: checked to be records, because a part may be damaged or made by others."""

from __future__ import annotations

from collections.abc import Callable

from agecli.core.records import OPTIONAL_COLUMNS, RECORD_COLUMNS, SCHEMA
from agecli.core.streams import Row
from agecli.scaling.stored_values import is_count, is_number, is_text, parse_json

STATUSES = ("ok", "no_face", "unreadable", "crashed")


def _is_box(value: object) -> bool:
    return isinstance(value, list) and len(value) == 4 and all(type(side) is int for side in value)


def _is_distribution(value: object) -> bool:
    return isinstance(value, list) and all(is_number(share) for share in value)


CHECKS: dict[str, Callable[[object], bool]] = {  # of values that are there; all others are numbers
    **dict.fromkeys(("error", "interval", "decision"), is_text),
    **dict.fromkeys(("face", "track", "frames"), is_count),
    "box": _is_box,
    "abstain": lambda value: isinstance(value, bool),
    "distribution": _is_distribution,
}


def read_record(line: bytes) -> Row:
    """The record in a JSON line, as `predict` writes it. Raises ValueError, with the reason, for any other line."""
    row = parse_json(line.decode("ascii"))
    if not isinstance(row, dict):
        raise ValueError("a line holds no JSON object")
    names = tuple(row)
    if names[: len(RECORD_COLUMNS)] != RECORD_COLUMNS or not set(OPTIONAL_COLUMNS).issuperset(
        names[len(RECORD_COLUMNS) :]
    ):
        raise ValueError("a line has other fields than a record")
    if row["schema"] != SCHEMA or row["status"] not in STATUSES or not is_text(row["source"]):
        raise ValueError("a record has another schema or status, or no source")
    for name in names[3:]:
        if row[name] is not None and not CHECKS.get(name, is_number)(row[name]):
            raise ValueError(f"the field `{name}` of a record has an impossible value")
    return row
