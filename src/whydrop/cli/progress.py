"""Progress on a terminal: shown only when reading takes longer than a second."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

PATIENCE_S = 1.0


@contextmanager
def reading() -> Iterator[Callable[[int, int], None]]:
    """Give a callable for ``(bytes done, bytes in all)``; it draws a bar on stderr with the time left."""
    began = time.monotonic()
    bar: Progress | None = None
    task = None

    def advance(done: int, total: int) -> None:
        nonlocal bar, task
        if bar is None:
            if time.monotonic() - began < PATIENCE_S:
                return
            bar = _bar()
            bar.start()
            task = bar.add_task("Reading", total=total or None)
        if task is not None:
            bar.update(task, completed=done, total=total or None)

    try:
        yield advance
    finally:
        if bar is not None:
            bar.stop()


def _bar() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
        TextColumn("left"),
        console=Console(stderr=True),
        transient=True,
    )
