"""Progress on a terminal: shown only when the work takes longer than a second."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, Task
    from rich.text import Text

PATIENCE_S = 1.0

# The core reports many times a second while it reads; when it falls silent it has read everything and weighs causes.
_SILENCE_S = 0.5


class Meter:
    """Takes what the core reports, and says it on stderr from the moment on that :meth:`show` is called."""

    def __init__(self, afterwards: str = "Weighing causes") -> None:
        self.afterwards = afterwards
        self.done = self.total = 0
        self.began = self.updated = time.monotonic()
        self._display: Progress | None = None

    def advance(self, done: int, total: int) -> None:
        """Take note of the bytes read, and the bytes in all (0 where that is not known)."""
        self.done, self.total, self.updated = done, total, time.monotonic()

    def show(self) -> None:
        """Show the state on stderr, some times a second."""
        self._display = _display(self)
        self._display.add_task("", total=None)
        self._display.start()

    def hide(self) -> None:
        """Leave the terminal as it was."""
        if self._display is not None:
            self._display.stop()

    def state(self) -> str:
        """The step in progress, how much of it is done, and how long the rest will take."""
        from whydrop.text import quantities

        now = time.monotonic()
        if now - self.updated > _SILENCE_S:
            return self.afterwards
        if not self.done:
            return "Reading"
        if not self.total:
            return f"Reading: {quantities.size(self.done)}"
        left = (now - self.began) * max(0, self.total - self.done) / self.done
        return f"Reading: {quantities.size(self.done)} of {quantities.size(self.total)}, {left:.0f} s left"


@contextmanager
def metered(afterwards: str = "Weighing causes") -> Iterator[Meter]:
    """A meter that is gone from the terminal when the work ends, however it ends.

    ``afterwards`` says what is done when everything has been read.
    """
    meter = Meter(afterwards)
    try:
        yield meter
    finally:
        meter.hide()


def _display(meter: Meter) -> Progress:
    from rich import progress
    from rich.console import Console
    from rich.text import Text

    class State(progress.ProgressColumn):
        max_refresh = 0.2

        def render(self, _task: Task) -> Text:
            return Text(meter.state())

    columns = (progress.SpinnerColumn(), State(), progress.TimeElapsedColumn())
    return progress.Progress(*columns, console=Console(stderr=True), transient=True)
