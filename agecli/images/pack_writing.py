"""Writing of packs (`images.packs`): faces to a WebDataset tar, and the index of all tars of a folder."""

from __future__ import annotations

import io
import json
import struct
import tarfile
from collections.abc import Iterable, Mapping
from typing import Any, BinaryIO

import numpy as np

from agecli.images.packs import ENTRY, hash_of

FIELDS = struct.Struct("<QQQII")  # of an ENTRY
CHUNK = 10_000  # entries that are written at a time


class PackWriter:
    """Writes faces to a tar. The same faces give the same bytes: all have the time 0 and no owner.

    file: a new file;   number: of the tar, with which its keys begin: WebDataset wants them unique in all tars.

        with PackWriter(file, number=0) as pack:
            offset = pack.add(jpeg, {"path": "faces/a.jpg", "age": 30})
    """

    def __init__(self, file: BinaryIO, number: int) -> None:
        self.tar = tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT)  # noqa: SIM115 (closed in __exit__)
        self.number, self.count = number, 0

    def __enter__(self) -> PackWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.tar.close()

    def add(self, picture: bytes, about: Mapping[str, Any]) -> int:
        """Add a face: the bytes of a JPEG file, and what is known of it. Returns the picture's offset in the tar."""
        key = f"{self.number:05d}-{self.count:07d}"
        self.count += 1
        offset = self._add(f"{key}.jpg", picture)
        self._add(f"{key}.json", json.dumps(about).encode("ascii"))
        return offset

    def _add(self, name: str, content: bytes) -> int:
        """Add a member. Returns the offset of its content."""
        info = tarfile.TarInfo(name)
        info.size = len(content)
        offset = int(self.tar.offset) + tarfile.BLOCKSIZE  # after a header of one block
        self.tar.addfile(info, io.BytesIO(content))
        return offset


def write_index(file: BinaryIO, faces: Iterable[tuple[str, int, int, int]]) -> None:
    """Write the index of a packed folder, sorted by key. Memory: about 50 bytes for each face.

    faces: path, number of the tar, offset and size of each picture.
    """
    rows = bytearray()
    for path, tar, offset, size in faces:
        rows += FIELDS.pack(*hash_of(path), offset, size, tar)
    entries = np.frombuffer(rows, ENTRY)
    order = np.argsort(entries["key"], kind="stable")
    header = {"descr": np.lib.format.dtype_to_descr(ENTRY), "fortran_order": False, "shape": entries.shape}
    np.lib.format.write_array_header_1_0(file, header)
    for start in range(0, len(order), CHUNK):
        file.write(entries[order[start : start + CHUNK]].tobytes())
