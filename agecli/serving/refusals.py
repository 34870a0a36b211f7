"""Refusals: errors of requests, as an HTTP status and JSON with a reason and what to do."""

from __future__ import annotations

import json
from collections.abc import Mapping

from starlette.responses import Response

STATUSES = {  # of each code
    "unreadable": 400,
    "crashed": 400,
    "bad_request": 400,
    "unauthorized": 401,
    "forbidden": 403,
    "not_found": 404,
    "method_not_allowed": 405,
    "upload_timeout": 408,
    "too_large": 413,
    "not_a_picture": 415,
    "misdirected": 421,
    "queue_full": 429,
    "internal": 500,
    "loading": 503,
    "deadline": 504,
}


class Refusal(Exception):
    """A request that is not answered with records.

    code: a name in STATUSES;   reason: for people;   hint: what to do, may be empty;   headers: of the answer.

        raise Refusal("too_large", "the body has more than 20 MB", hint="shrink the photo")
    """

    def __init__(self, code: str, reason: str, hint: str = "", headers: Mapping[str, str] | None = None) -> None:
        super().__init__(reason)
        self.code, self.reason, self.hint = code, reason, hint
        self.status, self.headers = STATUSES[code], dict(headers or {})

    def response(self) -> Response:
        """The answer: `{"error": CODE, "reason": TEXT, "hint": TEXT}`."""
        body = json.dumps({"error": self.code, "reason": self.reason, "hint": self.hint})
        return Response(body, self.status, self.headers, media_type="application/json")


def queue_full(reason: str) -> Refusal:
    """The refusal of a request that would exceed the queue or the memory for uploads."""
    return Refusal(
        "queue_full", reason, hint="try again after the seconds in Retry-After", headers={"Retry-After": "1"}
    )
