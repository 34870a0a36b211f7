"""Query parameters of the API: checked, so that a misspelt one is an error and not a silence."""

from __future__ import annotations

import difflib
from typing import Any

from starlette.datastructures import QueryParams

from agecli.serving.engine import PhotoOptions
from agecli.serving.refusals import Refusal

BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
MOST_PIXELS = 100_000  # of min_face
NAMES = ("largest", "distribution", "min_face")


def photo_options(query: QueryParams) -> PhotoOptions:
    """The options in a query string. Raises Refusal for an unknown or repeated parameter, and for a wrong value.

    >>> photo_options(QueryParams("largest=true&min_face=40"))
    PhotoOptions(largest=True, distribution=False, min_face=40)
    """
    values: dict[str, Any] = {}
    for name, text in query.multi_items():
        if name not in NAMES:
            close = difflib.get_close_matches(name, NAMES, 1)
            hint = f"did you mean `{close[0]}`?" if close else f"there are: {', '.join(NAMES)}"
            raise Refusal("bad_request", f"unknown query parameter {name[:80]!r}", hint)
        if name in values:
            raise Refusal("bad_request", f"the query parameter `{name}` is there twice")
        values[name] = _pixels(text) if name == "min_face" else _boolean(name, text)
    return PhotoOptions(**values)


def _boolean(name: str, text: str) -> bool:
    if text not in BOOLEANS:
        raise Refusal("bad_request", f"`{name}` is {text[:80]!r}", hint="use true or false")
    return BOOLEANS[text]


def _pixels(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 6 and int(text) <= MOST_PIXELS):
        raise Refusal("bad_request", f"`min_face` is {text[:80]!r}", hint=f"use pixels, 0 to {MOST_PIXELS}")
    return int(text)
