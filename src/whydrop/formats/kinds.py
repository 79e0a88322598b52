"""The kind of a file by its content: a capture of packets, or a recording of a test.

Of the standard library and of whydrop only what costs nothing to import: each start of ``whydrop explain`` asks.
"""

# ruff: noqa: PTH112, PTH113, PTH116, PTH118, PTH119, PTH123
# Importing pathlib would take longer than the question.

from __future__ import annotations

import os
import stat

from whydrop.formats.captures import BEGINNINGS

# As type checkers know it; importing typing would take longer than the question.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

_HEAD = 4096
# bzip2 gives nothing before the end of its first block, which is up to 900 kB.
_BZIP2_HEAD = 1 << 20
_DESCRIPTION = "recording.json"


def is_recording(path: str | Path) -> bool:
    """True if a path is a recording, or another tool's file of a test (JSON, plain or compressed).

    Whatever cannot be read is none: who reads it as a capture says why. Standard input and pipes are captures.
    """
    name = os.fspath(path)
    if name == "-":
        return False
    if os.path.isdir(name):
        return os.path.isfile(os.path.join(name, _DESCRIPTION))
    if os.path.basename(name) == _DESCRIPTION:
        return os.path.isfile(name)
    try:
        if not stat.S_ISREG(os.stat(name).st_mode):
            return False
        with open(name, "rb") as file:
            head = file.read(_HEAD)
            if head.startswith(b"BZh"):
                head += file.read(_BZIP2_HEAD)
    except OSError:
        return False
    return not head.startswith(BEGINNINGS) and _plain(head).lstrip().startswith(b"{")


def _plain(head: bytes) -> bytes:
    """The beginning of what a compressed file holds; empty where it is damaged."""
    try:
        if head.startswith(b"\x1f\x8b"):
            import zlib

            return zlib.decompressobj(31).decompress(head, 64)
        if head.startswith(b"BZh"):
            import bz2

            return bz2.BZ2Decompressor().decompress(head, 64)
        if head.startswith(b"\xfd7zXZ"):
            import lzma

            return lzma.LZMADecompressor().decompress(head, 64)
    except Exception:
        # zlib.error, lzma.LZMAError, OSError, ValueError, EOFError: whoever reads it in earnest says what is wrong.
        return b""
    return head
