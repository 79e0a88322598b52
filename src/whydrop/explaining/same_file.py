"""The question whether two paths lead to one file."""

# ruff: noqa: PTH121
# Importing pathlib would take longer than the question: `whydrop explain` asks it at every start.

from __future__ import annotations

import os


def is_same_file(path: str, other: str) -> bool:
    """True if two paths lead to one file; ``False`` where one of them does not exist."""
    try:
        return os.path.samefile(path, other)
    except OSError:
        return False
