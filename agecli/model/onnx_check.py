"""The check of an ONNX file before it is opened: no loops, no code of its own, no weights in other files; and its metadata.

The file is a protocol buffer message, of which only the fields that matter are read; the package onnx is not needed.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path

from agecli.core.errors import InputError
from agecli.core.reading import check_size, shown

MOST_BYTES = 1 << 30  # of a model; the largest backbone that is documented has half of it
CONTROL = {b"Loop", b"Scan", b"If", b"SequenceMap"}  # may run for ever; no exported model needs them
DOMAINS = {b"", b"ai.onnx"}  # others have operators of their own
CONTRIBUTED = {(b"com.microsoft", b"QGemm")}  # operators of onnxruntime in the graphs of `agecli export --int8`
# numbers of fields in onnx.proto
METADATA, KEY, VALUE = 14, 1, 2
GRAPH, FUNCTIONS, NODE, INITIALIZER, OP_TYPE, ATTRIBUTE, DOMAIN = 7, 25, 1, 5, 4, 5, 7
TENSOR, EXTERNAL_DATA, DATA_LOCATION = 5, 13, 14
VARINT, EIGHT_BYTES, TEXT, FOUR_BYTES = 0, 1, 2, 5  # wire types


def check_graph(path: Path) -> dict[str, str]:
    """The metadata of an ONNX file, after a check of its graph, without onnxruntime.

    Raises InputError if the file is too large, damaged, or has more than a plain graph of standard operators.
    """
    metadata: dict[str, str] = {}
    check_size(path, MOST_BYTES)
    if not path.stat().st_size:
        raise _refused(path, "it is empty")
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        try:
            for number, part in _fields(content, 0, len(content)):
                if number == FUNCTIONS:
                    raise _refused(path, "it defines functions")
                if number == GRAPH:
                    _check_nodes(path, content, part)
                if number == METADATA:
                    entry = {
                        field: content[at.start : at.stop] for field, at in _fields(content, part.start, part.stop)
                    }
                    metadata[entry.get(KEY, b"").decode()] = entry.get(VALUE, b"").decode()
        except (IndexError, ValueError) as error:
            raise InputError(
                f"{path} is not a complete ONNX file ({shown(error)})", hint="export or download it again"
            ) from error
    return metadata


def _check_nodes(path: Path, content: mmap.mmap, graph: range) -> None:
    """Check the operators and the tensors of a graph."""
    for number, part in _fields(content, graph.start, graph.stop):
        if number == INITIALIZER:
            _check_tensor(path, content, part)
        if number != NODE:
            continue
        _check_operator(path, content, part)
        for field, value in _fields(content, part.start, part.stop):
            if field == ATTRIBUTE:
                for kind, inner in _fields(content, value.start, value.stop):
                    if kind == TENSOR:
                        _check_tensor(path, content, inner)


def _check_operator(path: Path, content: mmap.mmap, node: range) -> None:
    """Only operators of the ONNX standard without control flow, and those in CONTRIBUTED."""
    fields = _fields(content, node.start, node.stop)
    texts = {number: content[value.start : min(value.stop, value.start + 200)] for number, value in fields}
    operator, domain = texts.get(OP_TYPE, b""), texts.get(DOMAIN, b"")
    if operator in CONTROL:
        raise _refused(path, f"it has the operator {operator.decode()}")
    if domain not in DOMAINS and (domain, operator) not in CONTRIBUTED:
        raise _refused(path, f"it has operators of {shown(domain.decode(errors='replace'))!r}")


def _check_tensor(path: Path, content: mmap.mmap, tensor: range) -> None:
    """Weights in another file could be any file of the user."""
    for number, _ in _fields(content, tensor.start, tensor.stop):
        if number in (EXTERNAL_DATA, DATA_LOCATION):
            raise _refused(path, "its weights are in another file")


def _fields(content: mmap.mmap, start: int, stop: int) -> Iterator[tuple[int, range]]:
    """The numbers of a message's fields, and where their values are. Raises ValueError or IndexError if it is damaged."""
    while start < stop:
        key, start = _varint(content, start)
        kind, length = key & 7, 0
        if kind == VARINT:
            _, end = _varint(content, start)
            length = end - start
        elif kind == TEXT:
            length, start = _varint(content, start)
        elif kind in (EIGHT_BYTES, FOUR_BYTES):
            length = 8 if kind == EIGHT_BYTES else 4
        else:
            raise ValueError(f"field of unknown type {kind}")
        if start + length > stop:
            raise ValueError("it is cut short")
        yield key >> 3, range(start, start + length)
        start += length


def _varint(content: mmap.mmap, place: int) -> tuple[int, int]:
    """A number of variable length, and the place after it."""
    value = shift = 0
    while shift < 64:
        byte = content[place]
        value, shift, place = value | (byte & 127) << shift, shift + 7, place + 1
        if byte < 128:
            return value, place
    raise ValueError("a number is too long")


def _refused(path: Path, reason: str) -> InputError:
    return InputError(f"{path} is no model made by `agecli export`: {reason}", hint="use a model that was")
