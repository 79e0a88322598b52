"""Waiting for what must come, however busy the machine is, and the ends of processes."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

# Only bounds a hang: whatever takes longer will never come.
PATIENCE_S = 120.0


def wait_until(happened: Callable[[], object], what: str = "what was waited for") -> None:
    """Wait until something is so; fail where it never is."""
    deadline = time.monotonic() + PATIENCE_S
    while not happened():
        if time.monotonic() > deadline:
            pytest.fail(f"{what} did not happen within {PATIENCE_S:g} s")
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    """True if a process runs; one that has ended and is not yet reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        # Also where it ends between the opening of the file and its reading.
        return False
