"""The display of a running test: how far it is and its present rates on a terminal, or a line for each interval."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from whydrop.cli import ending, progress
from whydrop.measure.plan import Plan
from whydrop.text import quantities

if TYPE_CHECKING:
    import polars as pl
    from rich.progress import Progress

    Frames = Mapping[str, pl.DataFrame]


class Watcher:
    """Takes the reports of a run, and shows them on a terminal."""

    def __init__(self, plan: Plan, display: Progress | None) -> None:
        self._progress = display
        self._flows = {
            direction: [number for number, flow in enumerate(plan.flows) if flow.direction == direction]
            for direction in ("down", "up")
        }
        if display is not None:
            self._task = display.add_task(ending.printable(plan.test), total=plan.total_s, state="")

    def say(self, what: str) -> None:
        """Show the current step."""
        if self._progress is not None:
            self._progress.update(self._task, state=ending.printable(what))

    def tick(self, elapsed_s: float, total_s: float, frames: Frames) -> None:
        """Show the time, and the rows measured since the last call."""
        if self._progress is not None:
            self._progress.update(self._task, completed=max(0.0, min(elapsed_s, total_s)), total=total_s)
            if state := self.state(frames):
                self._progress.update(self._task, state=state)

    def state(self, frames: Frames) -> str:
        """The goodput in each direction, the latest round trips and losses, in a few words."""
        parts = []
        for direction, arrow in (("down", "↓"), ("up", "↑")):
            goodput_bps = self._goodput_bps(frames, direction)
            if goodput_bps is not None:
                parts.append(f"{arrow} {quantities.rate(goodput_bps)}")
        probes = frames.get("probes")
        if probes is not None and probes.height:
            rtt_ns = probes["rtt_ns"].median()
            if isinstance(rtt_ns, int | float):
                parts.append(f"RTT {quantities.duration(rtt_ns / 1e9)}")
            if lost := int(probes["fate"].str.starts_with("lost").sum()):
                parts.append(f"{quantities.count(lost)} of {quantities.count(probes.height)} probes lost")
        return "  ".join(parts)

    def _goodput_bps(self, frames: Frames, direction: str) -> float | None:
        intervals = frames.get("intervals")
        if intervals is None or not intervals.height:
            return None
        ours = intervals.filter(intervals["flow"].is_in(self._flows[direction]))
        if not ours.height:
            return None
        span_ns = int(ours["end_ns"].max()) - int(ours["start_ns"].min())  # type: ignore[arg-type]
        return float(ours["payload_bytes"].sum()) * 8e9 / span_ns if span_ns > 0 else None


class IntervalLines:
    """Prints a line for each interval as iperf3 does, from the rows that a running test reports."""

    def __init__(self, state: Callable[[Frames], str], every_s: float) -> None:
        self._state = state
        self._every_s = every_s
        self._begun_s = 0.0
        self._rows: dict[str, list[pl.DataFrame]] = {}

    def tick(self, elapsed_s: float, _total_s: float, frames: Frames) -> None:
        """Take the rows measured since the last call; print a line where an interval is over."""
        for name, frame in frames.items():
            self._rows.setdefault(name, []).append(frame)
        if elapsed_s - self._begun_s < self._every_s:
            return
        import polars as pl

        words = self._state({name: pl.concat(rows, how="diagonal_relaxed") for name, rows in self._rows.items()})
        if words:
            line = f"{quantities.decimal(self._begun_s):>6} to {quantities.decimal(elapsed_s)} s  {words}"
            print(ending.printable(line), flush=True)
        self._begun_s, self._rows = elapsed_s, {}


@contextmanager
def watching(plan: Plan, *, quiet: bool) -> Iterator[Watcher]:
    """A watcher that leaves the terminal as it was."""
    with progress.bars("text", "bar", "left", "state", bar_width=20, quiet=quiet) as display:
        yield Watcher(plan, display)
