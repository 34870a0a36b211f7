"""Odd names of files: control characters, escape sequences, markup, formulas, options, bytes that are no UTF-8."""

from __future__ import annotations

import os

from benchmarks.attack.mutations import Rng

PIECES: tuple[bytes, ...] = (
    b" ", b"  ", b"\n", b"\r", b"\r\n", b"\t", b"\x1b[31m", b"\x1b]0;title\x07", b"\x1b[2J", b"\x07", b"\x08", b"\x7f",
    b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf0\x9f\x98\x80", "é".encode(), "e\u0301".encode(), "\u202e".encode(),
    "\u2028".encode(), "\ufeff".encode(), "中文".encode(), b"'", b'"', b'""', b",", b";", b"|", b"=1+1", b"=cmd|' calc'!A0",
    b"+1", b"-1", b"@SUM(1)", b"-", b"--help", b"-o", b"*", b"?", b"[a]", b"{a,b}", b"~", b"$HOME", b"`id`", b"%s", b"%00",
    b"\\", b"\\n", b"[bold]", b"[\\]", b"[red]x", b"<b>", b"&amp;", b"NaN", b"null", b"None", b"a" * 60, b".", b"..",
    b"#", b"!", b"^", b"http:", b"CON", b"\x01", b"\x00a"[1:],
)  # fmt: skip
ENDINGS = (b".jpg", b".JPG", b".jpeg", b".png", b".PnG", b".webp")
LONGEST = 255  # bytes


def odd_names(count: int, rng: Rng) -> list[str]:
    """So many different names, as Python decodes them, of at most LONGEST bytes; one in twenty has exactly as many."""
    names: dict[bytes, None] = {}
    while len(names) < count:
        parts = [PIECES[int(place)] for place in rng.integers(len(PIECES), size=int(rng.integers(1, 5)))]
        ending = ENDINGS[int(rng.integers(len(ENDINGS)))]
        stem = b"".join(parts) + str(len(names)).encode()
        if rng.random() < 0.05:
            stem = stem.ljust(LONGEST, b"x")
        names[stem[: LONGEST - len(ending)] + ending] = None
    return [os.fsdecode(name) for name in names]
