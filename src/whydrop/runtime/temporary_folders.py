"""Folders for what is temporary: never left for good, however a program ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import weakref
from pathlib import Path

PREFIX = "whydrop-temporary-"


class TemporaryFolder:
    """A folder of its own, below that for temporary files; removed at the end of ``with``, or of this process.

    Who has it holds its lock, which the kernel lets go of when that process dies, however it does. So what others have
    left is known, and removed by the next one.
    """

    def __init__(self) -> None:
        _remove_left()
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
            self.remove = weakref.finalize(self, _remove, self.path, _locked(self.path, wait=True))
            if self.path.is_dir():
                return
            # Another has taken it for one that was left, before it was locked.
            self.remove()

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.remove()


def _remove(path: Path, lock: int | None) -> None:
    """Remove a folder of this process with all that is in it."""
    shutil.rmtree(path, ignore_errors=True)
    if lock is not None:
        os.close(lock)


def _remove_left() -> None:
    """Remove the folders of processes that have ended."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            # Others may have made what only looks like one: links are not followed, and what is not ours is left alone.
            if path.lstat().st_uid != os.geteuid():
                continue
            lock = _locked(path, wait=False)
            if lock is not None:
                shutil.rmtree(path, ignore_errors=True)
                os.close(lock)


def _locked(folder: Path, *, wait: bool) -> int | None:
    """Its lock; None where another holds it, or where there are none."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        os.close(descriptor)
        return None
    return descriptor
