"""Metadata of model files: text beside the weights of an ONNX or safetensors file, read and replaced without their libraries.

Both formats keep a map of strings. The weights are copied byte by byte, so that a new calibration or fingerprint needs
neither torch nor onnx, and can't change a prediction.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from agecli.core.errors import InputError, MissingError
from agecli.core.files import write_whole

METADATA_PROPS = 14  # field of ModelProto in onnx.proto: repeated StringStringEntryProto {1: key, 2: value}
BYTES = 2  # wire type of protobuf: a length, then as many bytes
ALIGNMENT = 8  # bytes: the header of a safetensors file is padded to a multiple


def read_metadata(path: Path) -> dict[str, str]:
    """The metadata of a model file: ONNX if its name ends in .onnx, else safetensors.

    Raises MissingError if it is not there, InputError if it is damaged.
    """
    return _onnx_entries(_read(path), path)[0] if path.suffix == ".onnx" else _safetensors(_read(path), path)[0]


def write_metadata(path: Path, out: Path, changes: Mapping[str, str]) -> None:
    """Copy a model file, with some entries of its metadata added or replaced; whole or not at all.

    out: may be `path` itself.   Raises as `read_metadata`.
    """
    content = _read(path)
    if path.suffix == ".onnx":
        entries, rest = _onnx_entries(content, path)
        entries = {**changes, **{key: changes.get(key, value) for key, value in entries.items()}}  # new ones first
        new = rest + b"".join(_field(METADATA_PROPS, _entry(*item)) for item in entries.items())
    else:
        entries, tensors, weights = _safetensors(content, path)
        text = json.dumps({"__metadata__": {**entries, **changes}, **tensors}).encode()
        text += b" " * (-len(text) % ALIGNMENT)
        new = len(text).to_bytes(8, "little") + text + weights
    with write_whole(out) as part:
        part.write_bytes(new)


def _read(path: Path) -> bytes:
    if not path.is_file():
        raise MissingError(f"there is no model {path}", hint="name a file of `agecli train` or `agecli export`")
    return path.read_bytes()


def _safetensors(content: bytes, path: Path) -> tuple[dict[str, str], dict[str, object], bytes]:
    """The metadata, the description of the tensors and their bytes."""
    size = int.from_bytes(content[:8], "little")
    try:
        header = json.loads(content[8 : 8 + size])
        entries = {str(key): str(value) for key, value in header.pop("__metadata__", {}).items()}
    except (ValueError, AttributeError) as error:
        raise _damaged(path, error) from error
    return entries, header, content[8 + size :]


def _onnx_entries(content: bytes, path: Path) -> tuple[dict[str, str], bytes]:
    """The metadata of an ONNX file, and the file without it."""
    entries: dict[str, str] = {}
    rest = []
    try:
        for number, whole, value in _fields(content):
            if number == METADATA_PROPS:
                parts = {place: text.decode() for place, _, text in _fields(value)}
                entries[parts[1]] = parts.get(2, "")
            else:
                rest.append(whole)
    except (ValueError, KeyError, IndexError) as error:
        raise _damaged(path, error) from error
    return entries, b"".join(rest)


def _damaged(path: Path, error: Exception) -> InputError:
    return InputError(f"{path} is not a whole model file ({error})", hint="fetch it again, or export it again")


def _fields(content: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Each field of a protobuf message: its number, all its bytes, and its value without tag and length."""
    view, at = memoryview(content), 0
    while at < len(content):
        tag, start = _varint(content, at)
        kind = tag & 7
        if kind == BYTES:
            size, start = _varint(content, start)
            end = start + size
        elif kind == 0:
            end = _varint(content, start)[1]
        elif kind in (1, 5):
            end = start + (8 if kind == 1 else 4)
        else:
            raise ValueError(f"wire type {kind}")
        if end > len(content):
            raise ValueError("it ends too early")
        yield tag >> 3, bytes(view[at:end]), bytes(view[start:end])
        at = end


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """A variable-length integer of protobuf, and the position after it."""
    value = shift = 0
    while True:
        byte = content[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def _entry(key: str, value: str) -> bytes:
    return _field(1, key.encode()) + _field(2, value.encode())


def _field(number: int, value: bytes) -> bytes:
    """A field of bytes in protobuf's encoding."""
    return _to_varint(number << 3 | BYTES) + _to_varint(len(value)) + value


def _to_varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    return bytes([*encoded, value])
