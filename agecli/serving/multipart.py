"""Multipart bodies (multipart/form-data), parsed in memory as they arrive. Nothing is written to the disk."""

from __future__ import annotations

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

MOST_HEADER = 8192  # bytes of the headers of one part


class MultipartReader:
    """An incremental parser. Every part is a photo; its name is the file name, else the name of the field.

    boundary: of the Content-Type header;   most: bytes of one photo; the data of larger ones is dropped.

        for chunk in chunks:
            for name, data in reader.feed(chunk): ...
        reader.close()
    """

    def __init__(self, boundary: bytes, most: int) -> None:
        self.most = most
        self.complete: list[tuple[str, bytes | None]] = []
        self.ended = False
        self.started = False
        self.header = [b"", b""]  # name and value of the one that arrives
        self.header_bytes = 0
        self.name = ""
        self.data: bytearray | None = bytearray()
        self.parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._begin,
                "on_header_field": lambda data, start, end: self._add_header(0, data[start:end]),
                "on_header_value": lambda data, start, end: self._add_header(1, data[start:end]),
                "on_header_end": self._end_header,
                "on_part_data": self._add_data,
                "on_part_end": self._end,
                "on_end": self._end_body,
            },
        )

    def feed(self, chunk: bytes) -> list[tuple[str, bytes | None]]:
        """The names and bytes of the parts that this chunk completes. Raises ValueError if the body is malformed."""
        if not self.ended:
            try:
                self.parser.write(chunk)
            except FormParserError as error:
                raise ValueError(str(error)) from None
        complete, self.complete = self.complete, []
        return complete

    def close(self) -> None:
        """The body has ended. Raises ValueError if the last boundary is missing."""
        if not self.ended:
            raise ValueError("it ends before its last boundary")

    def _begin(self) -> None:
        self.name, self.data, self.header_bytes = "", bytearray(), 0
        self.header = [b"", b""]

    def _add_header(self, place: int, data: bytes) -> None:
        self.header_bytes += len(data)
        if self.header_bytes > MOST_HEADER:
            raise ValueError(f"the headers of a part have more than {MOST_HEADER} bytes")
        self.header[place] += data

    def _end_header(self) -> None:
        name, value = self.header
        self.header = [b"", b""]
        if name.lower() == b"content-disposition":
            _, options = parse_options_header(value)
            given = options.get(b"filename") or options.get(b"name") or b""
            self.name = given.decode("utf-8", "surrogateescape")

    def _add_data(self, data: bytes, start: int, end: int) -> None:
        if self.data is None:
            return
        if len(self.data) + end - start > self.most:
            self.data = None
            return
        self.data += data[start:end]

    def _end(self) -> None:
        self.complete.append((self.name, None if self.data is None else bytes(self.data)))
        self.data = bytearray()

    def _end_body(self) -> None:
        self.ended = True
