"""Frames: pieces of a file, each of which is its own witness.

A frame is a magic, the length and the checksum of its content, and the content. Whatever a crash, a full disk or a
flipped bit does to a file of frames, those that are whole are found again.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

HEAD = struct.Struct("<8sII")  # magic, bytes of the content, its CRC-32
MAGIC = b"\x89whydrop"


def packed(content: bytes) -> bytes:
    """A frame with this content."""
    return HEAD.pack(MAGIC, len(content), zlib.crc32(content)) + content


def append(path: Path, frame: bytes) -> None:
    """Make a frame durable at the end of a file, which is made if it is not there.

    Raises:
        OSError: the disk does not take it; the file is as it was.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        size = os.fstat(descriptor).st_size
        try:
            _write(descriptor, frame)
            os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, size)
            raise
    finally:
        os.close(descriptor)


def unpacked(content: bytes) -> Iterator[tuple[int, bytes | str]]:
    """Offset and content of each frame that is whole, and what was found elsewhere."""
    at = 0
    while at < len(content):
        found = _frame(content, at)
        yield at, found
        # Behind a damaged frame others may be whole.
        at = content.find(MAGIC, at + 1) if isinstance(found, str) else at + HEAD.size + len(found)
        if at < 0:
            return


def _frame(content: bytes, at: int) -> bytes | str:
    """The content of the frame that begins at an offset, or what is wrong with it."""
    if len(content) - at < HEAD.size:
        return f"{len(content) - at} B, expected a head of {HEAD.size} B"
    magic, length, checksum = HEAD.unpack_from(content, at)
    if magic != MAGIC:
        return "expected the magic of a frame"
    payload = content[at + HEAD.size : at + HEAD.size + length]
    if len(payload) < length:
        return f"a frame of {length} B, of which {len(payload)} B are there"
    if zlib.crc32(payload) != checksum:
        return f"a frame of {length} B whose checksum is wrong"
    return payload


def _write(descriptor: int, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(descriptor, left) :]
