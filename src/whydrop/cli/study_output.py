"""Parts that studies share on the command line: progress, where files are, tables as JSON."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from whydrop.cli import ending
from whydrop.runtime import cancelling

if TYPE_CHECKING:
    import polars as pl

    from whydrop.studies.folder import Folder

# What is being done, how many steps are done (with the part of this one), and how many there are.
Progress = Callable[[str, float, int], None]

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


@contextmanager
def showing() -> Iterator[Progress]:
    """A bar with the time left, on a terminal; whoever reports progress is interrupted there if Ctrl-C was lost."""
    if not sys.stderr.isatty():
        yield lambda *_: cancelling.raise_if_received()
        return
    from rich import progress
    from rich.console import Console

    columns = (
        progress.SpinnerColumn(), progress.TextColumn("{task.description}"), progress.BarColumn(),
        progress.TimeElapsedColumn(), progress.TextColumn("left:"), progress.TimeRemainingColumn(),
    )  # fmt: skip
    with progress.Progress(*columns, console=Console(stderr=True), transient=True) as display:
        task = display.add_task("Opening the store", total=None)

        def advance(what: str, done: float, of: int) -> None:
            cancelling.raise_if_received()
            display.update(task, description=what, completed=done, total=of)

        yield advance
