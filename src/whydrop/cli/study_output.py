"""Parts that studies share on the command line: progress, where files are, tables as JSON."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, TextIO

from whydrop.cli import ending
from whydrop.runtime import cancelling

if TYPE_CHECKING:
    import polars as pl

    from whydrop.studies.study_files import Folder


_MOST_FILES = 6


def said_where(folder: Folder | None) -> AbstractContextManager[None]:
    """When Ctrl-C ends the work, say where the results so far are."""

    def place() -> str | None:
        return f"the results so far are in {folder.path}" if folder is not None and folder.begun else None

    return cancelling.noted(place)


def say_files(folder: Folder, files: int, stream: TextIO) -> None:
    """Say where a study was written, and what of earlier ones became."""
    print(f"Study: {ending.printable(str(folder.path))} ({files} files)", file=stream)
    if folder.removed:
        print(f"Removed what an earlier study had written there: {_names(folder.removed)}", file=stream)
    if folder.left:
        print(f"Not of this study, and left there as whydrop did not write it so: {_names(folder.left)}", file=stream)


def _names(files: list[str]) -> str:
    """Files, not all of many."""
    cut = len(files) - _MOST_FILES
    more = f" and {cut} more" if cut > 0 else ""
    return f"{', '.join(map(ending.printable, files[:_MOST_FILES]))}{more}"


def rows_of(frame: pl.DataFrame) -> list[dict[str, Any]]:
    """Rows as JSON has them: what is no number is null."""
    return [
        {
            key: None if isinstance(value, float) and not math.isfinite(value) else value
            for key, value in row.items()
        }
        for row in frame.iter_rows(named=True)
    ]  # fmt: skip
