"""Checks of values that are read from files of a run, which may be damaged or hostile."""

from __future__ import annotations

import json
import math
from typing import Any

MOST = 1 << 53  # of counts and offsets: larger ones are no exact float
MOST_SECONDS = 1e12


def parse_json(text: str) -> Any:
    """A JSON value with finite numbers. Raises ValueError for any other text, nested too deeply or with NaN."""
    try:
        return json.loads(text, parse_constant=_no_number)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no number")


def is_count(value: object) -> bool:
    """Whether a value is a whole number from 0 to MOST - 1; True and 1.0 are not."""
    return type(value) is int and 0 <= value < MOST


def is_number(value: object) -> bool:
    """Whether a value is a finite number; True is not."""
    return type(value) in (int, float) and -1e300 < value < 1e300 and math.isfinite(value)  # type: ignore[operator, arg-type]


def is_duration(value: object) -> bool:
    """Whether a value is a number of seconds."""
    return is_number(value) and 0 <= value < MOST_SECONDS  # type: ignore[operator]


def is_text(value: object) -> bool:
    """Whether a value is a text."""
    return isinstance(value, str)


def is_list_of_text(value: object) -> bool:
    """Whether a value is a list of texts."""
    return isinstance(value, list) and all(isinstance(item, str) for item in value)
