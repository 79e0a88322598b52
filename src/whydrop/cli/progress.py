"""Progress on a terminal, on standard error: the current step, how far it is, and the time left."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from whydrop.cli import ending
from whydrop.runtime import cancelling

if TYPE_CHECKING:
    from rich.live import Live
    from rich.progress import Progress, Task
    from rich.text import Text

    from whydrop.show.document import Document

#: Shorter work shows no progress, s.
PATIENCE_S = 1.0

# The core reports many times a second while it reads; when it falls silent it has read everything and weighs causes.
_SILENCE_S = 0.5

#: Takes the current step, the steps done (with a fraction for this one), and the steps in all.
Advance = Callable[[str, float, float | None], None]


@contextmanager
def bars(
    *columns: str, bar_width: int = 40, quiet: bool = False, above_stdout: bool = True
) -> Iterator[Progress | None]:
    """A display that disappears at the end; ``None`` where standard error is no terminal.

    Args:
        columns: of each line, in order: ``spinner``, ``text``, ``bar``, ``elapsed``, ``left``, ``state`` (a field).
        quiet: show none.
        above_stdout: print standard output above the display.
    """
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich import progress
    from rich.console import Console

    # Names of tests and files are neither markup nor formats.
    known = {
        "spinner": progress.SpinnerColumn(),
        "text": progress.TextColumn("{task.description}", markup=False),
        "bar": progress.BarColumn(bar_width=bar_width),
        "elapsed": progress.TimeElapsedColumn(),
        "left": progress.TimeRemainingColumn(elapsed_when_finished=True),
        "state": progress.TextColumn("{task.fields[state]}", markup=False),
    }
    with progress.Progress(
        *(known[name] for name in columns),
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=above_stdout,
    ) as display:
        yield display


class Screen:
    """A document on a terminal that is drawn again and again, with lines above it; without a terminal only lines."""

    def __init__(self, live: Live | None = None) -> None:
        self._live = live

    @property
    def height(self) -> int:
        """The lines of the terminal; 0 without one."""
        return 0 if self._live is None else self._live.console.size.height

    def say(self, line: str) -> None:
        """Print a line that stays."""
        # A service outlives the terminal that started it.
        with suppress(OSError):
            if self._live is None:
                ending.note(line)
            else:
                self._live.console.print(f"whydrop: {ending.printable(line)}", markup=False, highlight=False)

    def draw(self, document: Document) -> None:
        """Replace what is shown."""
        if self._live is not None:
            from rich.console import Group

            from whydrop.show import terminal

            self._live.update(Group(*terminal.lines(document, self._live.console.width)), refresh=True)


@contextmanager
def screen(*, on_stderr: bool = False) -> Iterator[Screen]:
    """A screen that disappears at the end."""
    if not (sys.stderr if on_stderr else sys.stdout).isatty():
        yield Screen()
        return
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=on_stderr)
    with Live(console=console, transient=True, auto_refresh=False, redirect_stdout=on_stderr) as live:
        yield Screen(live)


@contextmanager
def working(step: str) -> Iterator[None]:
    """Show one step with the time that has passed."""
    with bars("spinner", "text", "elapsed") as display:
        if display is not None:
            display.add_task(step, total=None)
        yield


@contextmanager
def stepping(first: str) -> Iterator[Advance]:
    """Show steps with a bar, the time that has passed, and the time left.

    Each report of progress raises a signal that a library turned into an error of its own.
    """
    with bars("spinner", "text", "bar", "elapsed", "state", "left") as display:
        task = None if display is None else display.add_task(first, total=None, state="left:")

        def advance(step: str, done: float, total: float | None) -> None:
            cancelling.raise_if_received()
            if display is not None and task is not None:
                display.update(task, description=step, completed=done, total=total)

        yield advance


@contextmanager
def reading(afterwards: str) -> Iterator[Callable[[int, int], None] | None]:
    """Show how much is read, where it takes longer than a moment; ``None`` where standard error is no terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    with metered(afterwards) as meter:

        def advance(done: int, total: int) -> None:
            meter.advance(done, total)
            if time.monotonic() - meter.began > PATIENCE_S:
                meter.show()

        yield advance


class Meter:
    """How much is read, shown on standard error once :meth:`show` is called."""

    def __init__(self, afterwards: str = "Weighing causes") -> None:
        self.afterwards = afterwards
        self.done = self.total = 0
        self.began = self.updated = time.monotonic()
        self._display: Progress | None = None

    def advance(self, done: int, total: int) -> None:
        """Note the bytes read, and the bytes in all (0 where that is not known)."""
        self.done, self.total, self.updated = done, total, time.monotonic()

    def show(self) -> None:
        """Show the state a few times a second."""
        if self._display is None:
            self._display = _display(self)
            self._display.add_task("", total=None)
            self._display.start()

    def hide(self) -> None:
        """Leave the terminal as it was."""
        if self._display is not None:
            self._display.stop()

    def state(self) -> str:
        """The current step, how much of it is done, and the time left."""
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
    """A meter that disappears at the end; ``afterwards`` names the step after reading."""
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
