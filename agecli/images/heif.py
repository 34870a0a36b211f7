"""HEIF: photos of phones in HEIC files, read by the package pillow-heif (extra `heif`)."""

from __future__ import annotations

from functools import cache

from agecli.core.extras import require

HEADER = 64  # bytes of a file in which its brands are
BRANDS = frozenset({b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"})


def is_heif(header: bytes) -> bool:
    """Whether a file with these first HEADER bytes is HEIF; AVIF, which Pillow reads itself, is not."""
    size = int.from_bytes(header[:4], "big")
    brands = {header[start : start + 4] for start in (8, *range(16, min(size, len(header)), 4))}
    return header[4:8] == b"ftyp" and bool(brands & BRANDS) and b"avif" not in brands


@cache
def register_heif() -> None:
    """Teach Pillow to read HEIF. Raises MissingError without pillow-heif."""
    require("pillow_heif", needed_by="a HEIC photo")
    import pillow_heif

    pillow_heif.register_heif_opener()
