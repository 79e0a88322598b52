"""Symbolic links out of a folder: who may write into it must not show files of the server's user to its readers."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path


def is_within(path: Path, folders: Iterable[Path]) -> bool:
    """True if a path is below one of some folders once all links are followed; it need not exist."""
    found = path.resolve()
    return any(found.is_relative_to(folder.resolve()) for folder in folders)


def leads_out(root: Path, path: Path) -> bool:
    """True if a file or folder is not below ``root`` once all links are followed; ``root`` has none."""
    try:
        return not path.resolve(strict=True).is_relative_to(root)
    except (OSError, RuntimeError):
        # It leads nowhere, or round in a circle.
        return True


def first_out(root: Path, folder: Path) -> Path | None:
    """The first link within a folder that leads out of ``root``; ``None`` if there is none."""
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(place, name)
            if path.is_symlink() and leads_out(root, path):
                return path
    return None
