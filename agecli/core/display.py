"""Text for terminals: control characters and escape sequences of file names made visible, so that they can do nothing."""

from __future__ import annotations

import re

# C0 and C1 controls, line separators, changes of the writing direction, and bytes that 8-bit terminals take as controls
UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\udc80-\udc9f]")
UNSAFE_IN_LINES = re.compile(UNSAFE.pattern.replace("\x00-\x1f", "\x00-\x08\x0b-\x1f"))  # tabs and line breaks may stay


def visible(text: str, lines: bool = False) -> str:
    r"""The text with unsafe characters as escapes such as `\x1b`; other bytes that are not UTF-8 stay.

    lines: keep tabs and line breaks, for messages of several lines.

    >>> visible("a\x1b[31m.jpg")
    'a\\x1b[31m.jpg'
    """
    return (UNSAFE_IN_LINES if lines else UNSAFE).sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is not UTF-8 (`surrogateescape`)
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
