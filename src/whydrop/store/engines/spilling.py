"""The folder into which an engine spills what does not fit into memory: never left for good, however a program ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

PREFIX = "whydrop-spill-"


class SpillFolder:
    """A folder of its own, below that for temporary files.

    Who has it holds its lock, which the kernel lets go of when that process dies, however it does. So what others have
    left is known, and removed by the next one.
    """

    def __init__(self) -> None:
        _remove_left()
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
            self._lock = _locked(self.path, wait=True)
            if self.path.is_dir():
                return
            # Another has taken it for one that was left, before it was locked.
            self.remove()

    def remove(self) -> None:
        """Remove it with all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


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
