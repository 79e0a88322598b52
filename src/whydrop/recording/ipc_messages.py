"""Record batches within the bytes of an Arrow IPC stream that may be damaged.

A message is a marker, the length of its description, the description (a flatbuffer of ``Message.fbs``), and its body.
Lengths and places in the description are checked before polars reads the message: a damaged length of a decompressed
buffer would have it allocate more memory than there is.

The format: https://arrow.apache.org/docs/format/Columnar.html#serialization-and-interprocess-communication-ipc
"""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Iterator
from itertools import islice

import polars as pl

END = b"\xff\xff\xff\xff\0\0\0\0"
"""The end of a stream."""

# Each message begins with four bytes 0xFF and the length of its description, less than 1 MB.
_MARKER = re.compile(rb"\xff{4}..[\x00-\x0f]\x00", re.DOTALL)
_PREFIX = 8
_RECORD_BATCH = 3
# A block of Zstandard has four bytes or more, and decompressed it has at most 128 kB (RFC 8878, section 3.1.1.2).
_MOST_EXPANDED = 1 << 15
# The fields of the tables Message and RecordBatch, by their number.
_KIND, _HEADER, _BODY_LENGTH = 1, 2, 3
_ROWS, _COLUMNS, _BUFFERS, _COMPRESSION = 0, 1, 2, 3


def next_marker(content: bytes, at: int) -> int | None:
    """The byte from ``at`` on with which a message begins, or seems to."""
    found = _MARKER.search(content, at)
    return None if found is None else found.start()


def begins_at(content: bytes, at: int) -> bool:
    """True if a message begins at a byte, or seems to."""
    return _MARKER.match(content, at) is not None


def first_end(content: bytes) -> int:
    """The end of the description of the first message, which of a stream is its schema, and has no body."""
    return _PREFIX + int(struct.unpack_from("<i", content, 4)[0])


def buffers_of(schema: pl.Schema) -> list[int]:
    """The number of buffers of each column: one for its nulls, then its values; of text the ends of values, and all."""
    return [3 if kind == pl.String else 2 for kind in schema.values()]


def batch_end(content: bytes, start: int, buffers: list[int]) -> int | None:
    """The end of the record batch that begins at a byte; ``None`` if it is none, is damaged, or incomplete.

    Args:
        content: the bytes of the stream.
        start: where a message seems to begin.
        buffers: of the stream's columns (:func:`buffers_of`).
    """
    try:
        body = start + first_end(content[start : start + _PREFIX])
        description = _Description(content[start + _PREFIX : body])
        message = description.root()
        if description.number(message, _KIND, "<B") != _RECORD_BATCH:
            return None
        body_length = description.number(message, _BODY_LENGTH, "<q")
        if not 0 <= body_length <= len(content) - body:
            return None
        if not _fits(description, description.table(message, _HEADER), content[body : body + body_length], buffers):
            return None
    except (struct.error, ValueError):
        return None
    return body + body_length


def _fits(description: _Description, batch: int, body: bytes, buffers: list[int]) -> bool:
    """True if the columns of a batch have its length, and their buffers lie in its body."""
    rows = description.number(batch, _ROWS, "<q")
    is_compressed = description.place(batch, _COMPRESSION) != 0
    places = description.pairs(batch, _BUFFERS)
    for (length, nulls), count in zip(description.pairs(batch, _COLUMNS), buffers, strict=True):
        if length != rows or not 0 <= nulls <= rows:
            return False
        for number, (offset, size) in enumerate(islice(places, count)):
            # Nulls have no buffer where there are none, and all values of a text may be empty.
            is_needed = (nulls > 0, rows > 0, False)[number]
            if not 0 <= offset <= offset + size <= len(body) or (is_needed and not size):
                return False
            if is_compressed and size and not _may_expand(body[offset : offset + size], is_needed):
                return False
    return True


def _may_expand(buffer: bytes, is_needed: bool) -> bool:
    """True if the length that stands before a compressed buffer is possible; -1: it is not compressed."""
    (expanded,) = struct.unpack_from("<q", buffer)
    length = len(buffer) - 8 if expanded == -1 else expanded
    return bool(is_needed <= length <= len(buffer) * _MOST_EXPANDED)


def frame(content: bytes) -> pl.DataFrame | None:
    """The rows of a stream; ``None`` if polars finds it damaged."""
    try:
        return pl.read_ipc_stream(io.BytesIO(content))
    except (pl.exceptions.PolarsError, OSError, ValueError):
        return None
    except BaseException as reason:
        # A panic of polars' Rust code arrives as an exception that is no Exception.
        if type(reason).__name__ != "PanicException":
            raise
        return None


class _Description:
    """The flatbuffer of a message: tables with numbered fields (https://flatbuffers.dev/internals)."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def root(self) -> int:
        return self._read("<I", 0)

    def place(self, table: int, field: int) -> int:
        """The place of a field of a table; 0 where it is left out."""
        fields = table - self._read("<i", table)
        entry = 4 + 2 * field
        offset = self._read("<H", fields + entry) if entry < self._read("<H", fields) else 0
        return table + offset if offset else 0

    def number(self, table: int, field: int, kind: str) -> int:
        """The number in a field; 0 where it is left out."""
        place = self.place(table, field)
        return self._read(kind, place) if place else 0

    def table(self, table: int, field: int) -> int:
        """The place of the table in a field."""
        place = self.place(table, field)
        if not place:
            raise ValueError("a table is missing")
        return place + self._read("<I", place)

    def pairs(self, table: int, field: int) -> Iterator[tuple[int, int]]:
        """The pairs of 64-bit numbers in a field."""
        vector = self.table(table, field)
        count = self._read("<I", vector)
        if vector + 4 + 16 * count > len(self._content):
            raise ValueError("a vector is longer than its message")
        return struct.iter_unpack("<qq", self._content[vector + 4 : vector + 4 + 16 * count])

    def _read(self, kind: str, at: int) -> int:
        if at < 0:
            # Behind the beginning, not before the end.
            raise ValueError("a place is outside the message")
        number: int = struct.unpack_from(kind, self._content, at)[0]
        return number
