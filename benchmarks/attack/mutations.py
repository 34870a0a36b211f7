"""Mutations: bytes of a good file, damaged at random as disks, networks and attackers do."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

Rng = np.random.Generator
EXTREMES = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
HEAD = 96  # bytes at the start of a file, where most sizes and offsets are
PNG = b"\x89PNG\r\n\x1a\n"


def mutate(content: bytes, others: Sequence[bytes], rng: Rng) -> bytes:
    """A file with one to four mutations; in half of the PNG files the checksums are made right again.

    others: good files that parts are taken from.
    """
    data = bytearray(content)
    for _ in range(int(rng.integers(1, 5))):
        name = str(rng.choice(list(MUTATIONS)))
        data = MUTATIONS[name](data, others, rng) or bytearray(b"\0")
    if data.startswith(PNG) and rng.random() < 0.5:
        return with_checksums(bytes(data))
    return bytes(data)


def _place(data: bytearray, rng: Rng) -> int:
    """A position in the data: half of them in its head."""
    return int(rng.integers(min(len(data), HEAD) if rng.random() < 0.5 else len(data)))


def flip(data: bytearray, others: Sequence[bytes], rng: Rng) -> bytearray:
    """Some bits are flipped."""
    for _ in range(int(rng.integers(1, 30))):
        data[_place(data, rng)] ^= 1 << int(rng.integers(8))
    return data


def number(data: bytearray, others: Sequence[bytes], rng: Rng) -> bytearray:
    """A number of one, two or four bytes becomes an extreme one, or a thousand times as large."""
    place, size = _place(data, rng), int(rng.choice([1, 2, 4]))
    order: Literal["big", "little"] = "big" if rng.random() < 0.5 else "little"
    old = int.from_bytes(data[place : place + size], order)
    new = int(rng.choice(EXTREMES)) if rng.random() < 0.7 else old * 1000
    data[place : place + size] = (new % 256**size).to_bytes(size, order)
    return data


def cut(data: bytearray, others: Sequence[bytes], rng: Rng) -> bytearray:
    """The end is missing."""
    return data[: int(rng.integers(len(data) + 1))]


def remove(data: bytearray, others: Sequence[bytes], rng: Rng) -> bytearray:
    """A part is missing."""
    place = _place(data, rng)
    del data[place : place + int(rng.integers(1, 200))]
    return data


def repeat(data: bytearray, others: Sequence[bytes], rng: Rng) -> bytearray:
    """A part is there many times."""
    place = _place(data, rng)
    part = data[place : place + int(rng.integers(1, 300))]
    return data[:place] + part * int(rng.integers(2, 50)) + data[place:]


def randomise(data: bytearray, others: Sequence[bytes], rng: Rng) -> bytearray:
    """A part is random bytes, zeros or ones."""
    place, size = _place(data, rng), int(rng.integers(1, 500))
    part = (rng.bytes(size), bytes(size), b"\xff" * size)[int(rng.integers(3))]
    data[place : place + size] = part
    return data


def splice(data: bytearray, others: Sequence[bytes], rng: Rng) -> bytearray:
    """The rest is that of another file."""
    other = others[int(rng.integers(len(others)))]
    return data[: _place(data, rng)] + other[int(rng.integers(len(other))) :]


def append(data: bytearray, others: Sequence[bytes], rng: Rng) -> bytearray:
    """Another file follows."""
    return data + others[int(rng.integers(len(others)))]


MUTATIONS: dict[str, Callable[[bytearray, Sequence[bytes], Rng], bytearray]] = {
    "flip": flip,
    "number": number,
    "cut": cut,
    "remove": remove,
    "repeat": repeat,
    "randomise": randomise,
    "splice": splice,
    "append": append,
}


def with_checksums(data: bytes) -> bytes:
    """A damaged PNG file whose chunks have the right checksums, so that its decoder reads what is in them."""
    result, place = bytearray(data), len(PNG)
    while place + 12 <= len(result):
        length = int.from_bytes(result[place : place + 4], "big")
        end = place + 8 + length
        if end + 4 > len(result):
            break
        result[end : end + 4] = zlib.crc32(result[place + 4 : end]).to_bytes(4, "big")
        place = end + 4
    return bytes(result)
