"""The display of a running test on the terminal: how far it is, and what flows right now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from whydrop.cli import ending
from whydrop.measure.plan import Plan

if TYPE_CHECKING:
    import polars as pl
    from rich.progress import Progress


class Watcher:
    """Takes what a run says of itself, and shows it if there is a terminal to show it on."""

    def __init__(self, plan: Plan, progress: Progress | None) -> None:
        self._progress = progress
        self._direction = {number: flow.direction for number, flow in enumerate(plan.flows)}
        self._kind = {number: flow.kind for number, flow in enumerate(plan.flows)}
        if progress is not None:
            self._task = progress.add_task("", total=plan.total_s, state="", test=ending.printable(plan.test))

    def say(self, what: str) -> None:
        """Something new is being done."""
        if self._progress is not None:
            self._progress.update(self._task, state=ending.printable(what))

    def tick(self, elapsed_s: float, total_s: float, frames: Mapping[str, pl.DataFrame]) -> None:
        """The test goes on; these rows were measured since the last call."""
        if self._progress is not None:
            state = self.state(frames)
            self._progress.update(self._task, completed=max(0.0, min(elapsed_s, total_s)), total=total_s)
            if state:
                self._progress.update(self._task, state=state)

    def state(self, frames: Mapping[str, pl.DataFrame]) -> str:
        """The goodput each way, the latest round trips and losses, in a few words."""
        parts = []
        for direction, arrow in (("down", "↓"), ("up", "↑")):
            goodput_bps = self._goodput_bps(frames, direction)
            if goodput_bps is not None:
                from whydrop.text import quantities

                parts.append(f"{arrow} {quantities.rate(goodput_bps)}")
        probes = frames.get("probes")
        if probes is not None and probes.height:
            rtt_ns = probes["rtt_ns"].median()
            if isinstance(rtt_ns, int | float):
                parts.append(f"RTT {rtt_ns / 1e6:.1f} ms")
            lost = probes["fate"].str.starts_with("lost").sum()
            if lost:
                parts.append(f"{lost} of {probes.height} probes lost")
        return "  ".join(parts)

    def _goodput_bps(self, frames: Mapping[str, pl.DataFrame], direction: str) -> float | None:
        intervals = frames.get("intervals")
        if intervals is None or not intervals.height:
            return None
        flows = [number for number, way in self._direction.items() if way == direction]
        ours = intervals.filter(intervals["flow"].is_in(flows))
        if not ours.height:
            return None
        span_ns = int(ours["end_ns"].max()) - int(ours["start_ns"].min())  # type: ignore[arg-type]
        return float(ours["payload_bytes"].sum()) * 8e9 / span_ns if span_ns > 0 else None


@contextmanager
def watching(plan: Plan, *, quiet: bool) -> Iterator[Watcher]:
    """A watcher that leaves the terminal as it was."""
    import sys

    if quiet or not sys.stderr.isatty():
        yield Watcher(plan, None)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    progress = Progress(
        # A test's name and a file's are no markup and no format.
        TextColumn("{task.fields[test]}", markup=False),
        BarColumn(bar_width=20),
        TimeRemainingColumn(elapsed_when_finished=True),
        TextColumn("{task.fields[state]}", markup=False),
        console=Console(stderr=True),
        transient=True,
    )
    with progress:
        yield Watcher(plan, progress)
