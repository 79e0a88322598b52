"""Files that are there whole or not at all, whatever happens while they are written.

The order that makes it so: write under another name, ``fsync`` the file, rename it, ``fsync`` the folder (a rename is
atomic by POSIX; that it lasts is the folder's own matter).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

TEMPORARY_SUFFIX = ".part"


def write_bytes(path: Path, content: bytes | memoryview) -> None:
    """Write a small file, whole or not at all."""

    def write(temporary: Path) -> None:
        temporary.write_bytes(content)

    write_by(path, write)


def write_by(path: Path, write: Callable[[Path], None]) -> None:
    """Have ``write`` fill a temporary file, and put it in the place of ``path`` when it is on the disk.

    Whatever fails, the temporary file is gone and what was at ``path`` before is still there.
    """
    temporary = path.with_name(path.name + TEMPORARY_SUFFIX)
    try:
        write(temporary)
        sync(temporary)
        temporary.replace(path)
    except BaseException as reason:
        with contextlib.suppress(OSError):
            temporary.unlink()
        if isinstance(reason, OSError):
            # Of a full disk the system tells no name; and nobody asked for the temporary one.
            reason.filename = str(path)
        raise
    sync_folder(path.parent)


def sync(path: Path) -> None:
    """Wait until the contents of a file are on the disk."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(path: Path) -> None:
    """Wait until the names in a folder are on the disk; some file systems (of networks) cannot, and are trusted."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
