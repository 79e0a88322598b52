"""Lines while a test runs, as iperf3 prints them: what flowed in each interval."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from whydrop.cli import ending

if TYPE_CHECKING:
    import polars as pl

DEFAULT_S = 1.0


def interval_s(asked_s: float | None) -> float | None:
    """The interval of the lines: as asked, every second where the output is piped, none on a terminal."""
    if asked_s is not None:
        return asked_s
    return None if sys.stdout.isatty() else DEFAULT_S


class IntervalLines:
    """Prints a line for each interval, from the rows that a running test reports."""

    def __init__(self, state: Callable[[Mapping[str, pl.DataFrame]], str], every_s: float) -> None:
        self._state = state
        self._every_s = every_s
        self._begun_s = 0.0
        self._rows: dict[str, list[pl.DataFrame]] = {}

    def tick(self, elapsed_s: float, _total_s: float, frames: Mapping[str, pl.DataFrame]) -> None:
        """Take the rows measured since the last call; print a line where an interval is over."""
        for name, frame in frames.items():
            self._rows.setdefault(name, []).append(frame)
        if elapsed_s - self._begun_s < self._every_s:
            return
        import polars as pl

        words = self._state({name: pl.concat(rows, how="diagonal_relaxed") for name, rows in self._rows.items()})
        if words:
            line = f"{self._begun_s:6.1f} to {elapsed_s:.1f} s  {words}"
            print(ending.printable(line), flush=True)
        self._begun_s, self._rows = elapsed_s, {}
