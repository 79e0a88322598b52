"""Files that Measurement Lab has published: beside the repository, not part of it."""

from __future__ import annotations

from pathlib import Path

import pytest

MLAB = Path(__file__).parents[2].parent / "shared" / "data" / "mlab"


def published(folder: str, pattern: str) -> Path:
    """The file of that pattern; the test is skipped, and says so, where the files are missing."""
    if not MLAB.is_dir():
        pytest.skip(f"Measurement Lab's files are not in {MLAB}: only synthetic files are read")
    found = sorted((MLAB / folder).glob(pattern))
    assert len(found) == 1, f"{pattern} in {MLAB / folder}: {len(found)} files, expected one"
    return found[0]


def folders(*names: str) -> list[Path]:
    """All files of some folders; empty where the files are missing (for parameters of tests)."""
    return sorted(path for name in names for path in (MLAB / name).glob("*") if path.is_file())
