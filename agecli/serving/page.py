"""The web page: one HTML file with its own style and script, and a content security policy that allows nothing else."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

FOLDER = Path(__file__).parent / "web"


async def page(request: Request) -> Response:
    """`GET /`."""
    text, policy = assemble()
    headers = {"Content-Security-Policy": policy, "Permissions-Policy": "camera=(self), microphone=(), geolocation=()"}
    return Response(text, headers=headers, media_type="text/html")


@cache
def assemble() -> tuple[str, str]:
    """The page with its style and script in it, and the policy that allows these two by their hashes."""
    style, script = ((FOLDER / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    text = (FOLDER / "page.html").read_text(encoding="utf-8").replace("/*style*/", style).replace("/*script*/", script)
    policy = {
        "default-src": "'none'",
        "script-src": source_hash(script),
        "style-src": source_hash(style),
        "img-src": "blob: data:",
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    return text, "; ".join(f"{name} {value}" for name, value in policy.items())


def source_hash(text: str) -> str:
    """How a policy names an inline style or script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
