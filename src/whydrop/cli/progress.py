"""Progress on a terminal: shown only when reading takes longer than a second."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

PATIENCE_S = 1.0


@contextmanager
def reading() -> Iterator[Callable[[int, int], None]]:
    """Give a callable for ``(bytes done, bytes in all)``; it draws a bar on stderr with the time left."""
    began = time.monotonic()
    bar: Progress | None = None
    task: TaskID | None = None

    def advance(done: int, total: int) -> None:
        nonlocal bar, task
        if bar is None:
            if time.monotonic() - began < PATIENCE_S:
                return
            bar = _bar(total)
            bar.start()
            task = bar.add_task("Reading", total=total or None)
        if task is not None:
            bar.update(task, completed=done, total=total or None)

    try:
        yield advance
    finally:
        if bar is not None:
            bar.stop()


def _bar(total: int) -> Progress:
    from rich import progress
    from rich.console import Console

    columns: list[progress.ProgressColumn] = [progress.TextColumn("{task.description}"), progress.BarColumn()]
    if total:
        columns += [progress.DownloadColumn(), progress.TimeRemainingColumn(), progress.TextColumn("left")]
    else:
        # A pipe has no end that is known: how long it has taken is all that can be said.
        columns.append(progress.TimeElapsedColumn())
    return progress.Progress(*columns, console=Console(stderr=True), transient=True)
