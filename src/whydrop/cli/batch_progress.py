"""The display of a running batch: a bar for the run and one for the batch on a terminal, else a line for each run."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from whydrop.cli import ending, progress
from whydrop.measure.batch.executing import NO_ROWS, Outcome, Rows, Watcher
from whydrop.measure.batch.expanding import Run

if TYPE_CHECKING:
    from rich.progress import Progress


class Showing(Watcher):
    """Prints a line for each run that ends, and updates the bars on a terminal."""

    def __init__(self, times: Mapping[str, float], progress: Progress | None) -> None:
        self.times = times
        self.progress = progress
        self.count = 0
        self.number = 0
        self.done_s = 0.0
        self.now_s = 0.0
        if progress is not None:
            self.whole = progress.add_task("", total=None)
            self.own = progress.add_task("", total=None, visible=False)

    def planned(self, runs: Sequence[Run], done: set[str]) -> None:
        """Know how much there is to do."""
        self.count = len(runs)
        left = [run for run in runs if run.key not in done]
        self.total_s = sum(self.times[run.key] + run.pause_s for run in left)
        self._show()

    def begins(self, number: int, run: Run) -> None:
        """Show the run."""
        self.number, self.now_s = number, 0.0
        if self.progress is not None:
            name = ending.printable(f"{run.key}  {run.title}".strip())
            self.progress.update(self.own, description=name, total=self.times[run.key], completed=0, visible=True)
        self._show()

    def tick(self, elapsed_s: float, total_s: float, rows: Rows = NO_ROWS, /) -> None:  # noqa: ARG002 (known already)
        """Show how far the run is."""
        self.now_s = elapsed_s
        if self.progress is not None:
            self.progress.update(self.own, completed=elapsed_s)
        self._show()

    def ends(self, run: Run, outcome: Outcome) -> None:
        """Print the result of the run."""
        self.done_s += self.times[run.key] + run.pause_s
        self.now_s = 0.0
        where = f": {outcome.recording}" if outcome.recording is not None else ""
        self._say(f"[{self.number}/{self.count}] {run.key}: {outcome.status}{where}", err=False)
        for text in (outcome.message, *outcome.warnings):
            if text:
                self._say(f"whydrop: {run.key}: {text}", err=True)
        self._show()

    def pauses(self, seconds: float) -> None:
        """Show the pause."""
        if self.progress is not None:
            self.progress.update(self.own, description=f"pause of {seconds:g} s", total=None)

    def _say(self, text: str, *, err: bool) -> None:
        # Above the bars on a terminal; output to a file is not interleaved.
        if self.progress is not None and (err or sys.stdout.isatty()):
            self.progress.console.print(ending.printable(text), highlight=False, markup=False, soft_wrap=True)
        else:
            click.echo(ending.printable(text), err=err)

    def _show(self) -> None:
        if self.progress is None:
            return
        left_s = max(0.0, self.total_s - self.done_s - self.now_s)
        from whydrop.text import quantities

        state = f"{self.number} of {self.count} runs, {quantities.long_duration(left_s)} left"
        self.progress.update(self.whole, description=state, total=self.total_s, completed=self.done_s + self.now_s)


@contextmanager
def watching(times: Mapping[str, float]) -> Iterator[Showing]:
    """A watcher that leaves the terminal as it was."""
    with progress.bars("text", "bar", bar_width=30, above_stdout=False) as display:
        yield Showing(times, display)
