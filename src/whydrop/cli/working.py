"""The step in progress, said on a terminal while it takes longer than a moment."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def working(words: str) -> Iterator[None]:
    """Show ``words`` with the time that has passed on stderr, if it is a terminal; nothing is left of it."""
    if not sys.stderr.isatty():
        yield
        return
    from rich import progress
    from rich.console import Console

    columns = (progress.SpinnerColumn(), progress.TextColumn("{task.description}"), progress.TimeElapsedColumn())
    with progress.Progress(*columns, console=Console(stderr=True), transient=True) as display:
        display.add_task(words, total=None)
        yield
