"""Signatures: pictures, videos, archives and trained models by their first and last bytes, whatever their names."""

from __future__ import annotations

import re

PICTURES = re.compile(
    rb"\xff\xd8\xff|\x89PNG\r\n|GIF8[79]a|RIFF....WEBP|BM....\0\0\0\0|II[*+]\0|MM\0[*+]"
    rb"|P[1-6]\s+[\d#]|P7\nWIDTH|\0\0\0\x0cjP  |\xff\x4f\xff\x51|\0...ftyp(avi|hei|hev|mif|msf)",
    re.DOTALL,
)
VIDEOS = re.compile(
    rb"[\0-\x1f]...(ftyp|moov|mdat|wide|free|skip)|RIFF....AVI |\x1aE\xdf\xa3|\0\0\x01[\xb3\xba]"
    rb"|\x30\x26\xb2\x75\x8e\x66\xcf\x11|G.{187}G.{187}G",
    re.DOTALL,
)
ARCHIVES = re.compile(rb"PK(\x03\x04|\x05\x06)|\x1f\x8b|BZh[1-9]|\xfd7zXZ\0|\x28\xb5\x2f\xfd|7z\xbc\xaf|Rar!|PAR1")
END_OF_ZIP = b"PK\x05\x06"  # of archives that begin with a program, too
TAR_HEADER = 512  # bytes


def describe_media(head: bytes, tail: bytes = b"") -> str | None:
    """What the content of a file is: "a picture", "a video", "an archive" or "a trained model"; None for anything else.

    head: its first bytes, 512 or more where it has them;   tail: its last bytes.

    >>> describe_media(b"GIF89a")
    'a picture'
    """
    if PICTURES.match(head):
        return "a picture"
    if VIDEOS.match(head):
        return "a video"
    if ARCHIVES.match(head) or END_OF_ZIP in tail or _is_tar(head):
        return "an archive"
    return "a trained model" if head[8:10] == b'{"' and head[4:8] == bytes(4) else None  # safetensors


def _is_tar(head: bytes) -> bool:
    """Whether a file begins with the header of a tar member, of any dialect: its checksum is right."""
    if len(head) < TAR_HEADER:
        return False
    try:
        stored = int(head[148:156].strip(b" \0") or b"-", 8)
    except ValueError:
        return False
    return stored == sum(head[:148]) + 8 * ord(" ") + sum(head[156:TAR_HEADER])
